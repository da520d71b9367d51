"""A fleet that does not fit is refused at its start, in one sentence that names the board."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from campaigns.strikes import free_port
from fleet_worlds import NAME, boards, fleet, fleet_file, slow_world
from host_worlds import PATIENCE_S, eventually, world
from oip_worlds import bundle_of

import fluidnpu
from fluidnpu.host import Bundle, BundleError, DriverUsageError
from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet import BoardOptions, Roster
from fluidnpu.host.fleet.boards.processes import Process
from fluidnpu.models import golden
from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import read_fleet


def _at(*addresses: str) -> str:
    named = ", ".join(f'"{one}"' for one in addresses)
    return f'[[devices]]\ntype = "board"\naddresses = [{named}]\n'


def _refused(path: Path, kind: type[Exception], *words: str) -> None:
    with pytest.raises(kind) as caught, fleet(path):
        pass
    said = str(caught.value)
    assert "\n" not in said
    for word in words:
        assert word in said, said


def test_a_board_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        _refused(fleet_file(tmp_path, _at(place)), BoardError, "board 'board'", place, "must answer")


def test_a_board_that_may_come_later_is_used_when_it_does(tmp_path: Path) -> None:
    """The front of one board that is there and one that is not serves by the first, then by both."""
    w = slow_world()
    bundle = bundle_of(w, tmp_path / "bundle")
    late = f"127.0.0.1:{free_port()}"
    path = fleet_file(tmp_path, "", w)
    with boards(bundle) as (here,):
        fleet_file(tmp_path, _at(here, late), w)
        with fleet(path, absent=True) as (server, front), fluidnpu.connect(server.url(), NAME) as npu:
            late_one = front.dispatcher.leaves[1]
            states = late_one.counts
            assert states["became_lost"] == 1
            assert "must answer" in late_one.reason
            assert npu.infer(w.images(1)[0]).parameters["board"] == "board-0"
            comes = Process("late", {NAME: bundle}, BoardOptions(slo_ns=10**9))
            try:
                assert comes.start(int(late.rpartition(":")[2])) == late
                eventually(lambda: npu.infer(w.images(1)[0]).parameters["board"] == "board-1")
                assert states["became_ready"] == 1
            finally:
                comes.close()


def test_a_board_of_another_design_another_model_or_twice(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path, "", w)
    foreign = bundle_of(world(3, loaded=False, millis=True, t_c=4), tmp_path / "foreign")
    with boards(foreign, tmp_path / "bundle") as (other, place):
        again = place.replace("127.0.0.1", "localhost")
        fleet_file(tmp_path, _at(other), w)
        _refused(path, BoardError, "board 'board'", "must serve the design", w.design.digest[:12])
        fleet_file(tmp_path, _at(place, again), w)
        _refused(path, BoardError, "'board-0'", "'board-1'", "are one")
        path.write_text(path.read_text().replace("small", "unknown"))
        _refused(path, BoardError, "must serve the model 'unknown'")


def test_two_boards_of_one_address(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"share 10\.0\.0\.1:8001"):
        Roster.read(fleet_file(tmp_path, _at("10.0.0.1:8001", "10.0.0.1:8001")))


def test_bundles_that_do_not_agree(tmp_path: Path) -> None:
    """Another array with the same network is welcome; other weights or thresholds are not."""
    second = """
[types.other]
memory_bytes = 1_000_000_000
networks.small.bundle = "other"
[[devices]]
type = "board"
[[devices]]
type = "other"
"""
    w = slow_world()
    path = fleet_file(tmp_path, second, w)
    bundle_of(world(3, loaded=False, millis=True, t_c=4), tmp_path / "other")
    assert len(Roster.read(path).seats) == 2
    exits = tuple(replace(one, threshold=0.5 if one.threshold else one.threshold) for one in w.program.exits)
    Bundle(design=w.design, program=replace(w.program, exits=exits)).write(tmp_path / "other")
    with pytest.raises(BundleError, match="'board' and 'other' differ: thresholds"):
        Roster.read(path)
    changed = bytes(byte ^ (place % 7 == 0) for place, byte in enumerate(w.program.weights))
    Bundle(design=w.design, program=replace(w.program, weights=changed)).write(tmp_path / "other")
    with pytest.raises(BundleError, match="'board' and 'other' differ: the logits of exit"):
        Roster.read(path)


def test_a_type_without_a_bundle_cannot_be_served(tmp_path: Path) -> None:
    path = fleet_file(tmp_path, '[[devices]]\ntype = "board"\n')
    path.write_text(path.read_text().replace('small.bundle = "bundle"', 'small.design = "bundle/design.json"'))
    with pytest.raises(BundleError, match="must name the bundle of 'small' to be served"):
        Roster.read(path)


# -- boards that ask who comes -----------------------------------------------------------------------------

TOKEN = "a-token-of-20-signs."


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"]
    subprocess.run([*words, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


@contextmanager
def _closed_board(bundle: Path, cert: Path, key: Path, token_file: Path) -> Iterator[str]:
    """A board as an operator serves it: with TLS and a token."""
    words = ["serve", f"{NAME}={bundle}", "--grpc", "0", "--slo", "1s", "--json", f"--token-file={token_file}"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from fluidnpu.cli import main; main()",
            *words,
            f"--tls-cert={cert}",
            f"--tls-key={key}",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["urls"]["grpc"])
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_boards_behind_tls_and_tokens(tmp_path: Path) -> None:
    """The right ones are served by; without either, with another token or another authority nobody is."""
    w = slow_world()
    cert, key = _certificate(tmp_path, "lab")
    _certificate(tmp_path, "other")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "old").write_text(TOKEN[::-1])
    bundle = bundle_of(w, tmp_path / "bundle")
    images = w.images(4)
    with _closed_board(bundle, cert, key, tmp_path / "token") as place:
        at = _at(place)
        path = fleet_file(tmp_path, f'{at}ca = "lab.pem"\ntoken_file = "token"\n', w)
        with fleet(path) as (server, _), fluidnpu.connect(server.url()) as npu:
            _, classes, _ = golden.early_exit(w.qnet, images)
            assert npu.infer(images).outputs["label"].tolist() == classes.tolist()
        fleet_file(tmp_path, f'{at}ca = "lab.pem"\ntoken_file = "old"\n', w)
        _refused(path, BoardError, "board 'board'", "must carry this server's token")
        fleet_file(tmp_path, f'{at}ca = "lab.pem"\n', w)
        _refused(path, BoardError, "must carry this server's token")
        fleet_file(tmp_path, f'{at}ca = "other.pem"\ntoken_file = "token"\n', w)
        _refused(path, BoardError, "board 'board'", "must answer, and it does not", "CERTIFICATE_VERIFY_FAILED")
        fleet_file(tmp_path, f'{at}token_file = "token"\n', w)
        _refused(path, BoardError, "board 'board'", "must answer, and it does not")


def test_access_that_cannot_be(tmp_path: Path) -> None:
    at = _at("10.0.0.1:8001")
    (tmp_path / "short").write_text("secret")
    (tmp_path / "odd.pem").write_text("-----BEGIN NOTHING-----")
    for more, kind, said in (
        ('ca = "none.pem"', DriverUsageError, "ca of board 'board' must be a file of PEM certificates"),
        ('ca = "odd.pem"', DriverUsageError, "ca of board 'board' must be a file of PEM certificates"),
        ('token_file = "none"', DriverUsageError, "token_file of board 'board' must be readable"),
        ('token_file = "short"', DriverUsageError, "must be at least 16 printable characters"),
    ):
        with pytest.raises(kind, match=said) as caught:
            Roster.read(fleet_file(tmp_path, f"{at}{more}\n"))
        assert "\n" not in str(caught.value)
    with pytest.raises(FleetError, match=r"devices\[0\].ca is for devices with addresses"):
        Roster.read(fleet_file(tmp_path, '[[devices]]\ntype = "board"\nca = "lab.pem"\n'))


def test_who_may_come_in_is_no_matter_of_a_plan(tmp_path: Path) -> None:
    at = _at("10.0.0.1:8001")
    bare = read_fleet(fleet_file(tmp_path, at))
    closed = read_fleet(fleet_file(tmp_path, f'{at}ca = "lab.pem"\ntoken_file = "token"\n'))
    assert closed.digest == bare.digest
    assert closed.devices[0].ca == "lab.pem"
