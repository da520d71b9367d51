"""A fleet that does not fit is refused at its start, in one sentence that names the board."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_worlds import boards, fleet, fleet_file, slow_world
from host_worlds import world
from oip_worlds import bundle_of

from fluidnpu.host import Bundle, BundleError
from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet import Roster
from fluidnpu.scheduler.errors import FleetError


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
