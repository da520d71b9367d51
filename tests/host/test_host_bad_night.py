"""A bad night: every trouble of the runbook is played, and its commands are run as they stand there."""

import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docs_pages import DOCS, Block, Session, read_page
from host_worlds import PATIENCE_S, design_of, eventually, network, world
from oip_worlds import NAME, Served, bundle_of, served
from prometheus_client.parser import text_string_to_metric_families

import fluidnpu
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, SimulatedNpu, WallClock
from fluidnpu.host.kit.watching import ALERTS, alert_rules
from fluidnpu.host.oip.admission.certificates import ends
from fluidnpu.host.serving import log_file, model
from fluidnpu.host.serving.model import Model

PAGE = DOCS / "how-to" / "runbook.md"
HTTP, ADMIN = "18990", "18992"  # of the page; each test has ports of its own


def section(heading: str) -> list[Block]:
    """The blocks below a heading, with the model's name of these tests."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index(f"## {heading}") + 1
    end = next((n for n, line in enumerate(lines[first:], first + 1) if line.startswith("## ")), len(lines) + 1)
    found = [block for block in read_page(PAGE).blocks if first < block.line < end and block.language == "console"]
    assert found
    return found


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    return Session(tmp_path)


def ran(session: Session, blocks: Sequence[Block], ports: dict[str, int]) -> None:
    """Run blocks with the ports of a server in the place of the page's."""
    for block in blocks:
        text = block.text.replace(HTTP, str(ports["http"])).replace(ADMIN, str(ports.get("admin", 0)))
        session.run(replace(block, text=text.replace("demo", NAME)))


def asked(s: Served, count: int = 3) -> None:
    """Every image is answered as the offline model does."""
    images = s.w.images(count)
    with fluidnpu.connect(s.url) as npu:
        assert [npu.infer(image).prediction for image in images] == s.golden(images)[1]


def fires(session: Session, s: Served, name: str) -> None:
    """What is scraped now, an hour long, makes the alert fire, where promtool is there to say so."""
    text = session.command(f"curl -sk {s.url}/metrics")[1]
    (alert,) = (one for one in ALERTS if one.name == name)
    series = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if re.search(rf"\b{sample.name}\b", alert.rule):
                labels = ",".join(f'{label}="{value}"' for label, value in sample.labels.items())
                now = time.time() if sample.name.endswith("_end_seconds") else 0  # promtool's clock begins in 1970
                value = f"{sample.value - now:.0f}"
                before = "0 0" if family.type == "counter" else value
                series.append({"series": f"{sample.name}{{{labels}}}", "values": f"{before} {value}x60"})
    assert series
    if shutil.which("promtool") is None:
        return
    (session.folder / "alerts.yml").write_text(alert_rules())
    fired = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
    asked = [{"expr": fired, "eval_time": "4m", "exp_samples": [{"labels": "{}", "value": 1}]}]
    night = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    (session.folder / "night.yml").write_text(json.dumps({"rule_files": ["alerts.yml"], "tests": [night]}))
    code, said = session.command("promtool test rules night.yml")
    assert code == 0, said


def test_every_alert_has_its_section() -> None:
    headings = {line[3:].lower().replace(" ", "-") for line in PAGE.read_text().splitlines() if line.startswith("## ")}
    assert {alert.heading for alert in ALERTS} <= headings
    text = PAGE.read_text()
    assert [alert.name for alert in ALERTS if f"`{alert.name}`" not in text] == []


def test_the_disk_is_full(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is full while the oldest part is there; all requests are answered, and the log goes on."""
    folder = tmp_path / "log"
    folder.mkdir()
    oldest = folder / f"{NAME}.jsonl.4"
    oldest.write_text("old")

    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, data: Any) -> int:
            if oldest.exists():
                raise OSError(28, "No space left on device")
            return int(self._file.write(data))

    real = log_file.open_part
    monkeypatch.setattr(log_file, "open_part", lambda file: Full(real(file)))
    monkeypatch.setattr(log_file, "RETRY_S", 0.0)
    with served(tmp_path, decisions=folder) as s:
        asked(s)
        assert s.model.lines_dropped > 0
        fires(session, s, "FluidnpuLogDropped")
        about, mend = section("The disk is full")
        ran(session, [about], s.server.ports)
        ran(session, [mend], s.server.ports)
        asked(s)
        before = s.model.lines_dropped
        asked(s)
        assert s.model.lines_dropped == before
    assert (folder / f"{NAME}.jsonl").stat().st_size > 0


def test_the_port_is_taken(session: Session, tmp_path: Path) -> None:
    bundle_of(world(3, loaded=False), tmp_path / "bundle")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran(session, section("The port is taken"), {"http": taken.getsockname()[1]})


def test_the_token_is_wrong(session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    with served(tmp_path, surfaces={"token_file": tmp_path / "token"}) as s:
        ran(session, section("The token is wrong"), s.server.ports)
    assert [r.message for r in caplog.records if "GET /v2 of 127.0.0.1 was refused" in r.message]


def test_the_certificate_has_ended(session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate with its times put back, which its own key still belongs to."""
    for name in ("", "new-"):
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        words += ["-keyout", f"{name}key.pem", "-out", f"{name}cert.pem", "-subj", "/CN=localhost", "-days", "2"]
        subprocess.run(
            [*words, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, cwd=tmp_path
        )
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    assert 0 < ends(cert) - time.time() <= 2 * 86_400
    der = ssl.PEM_cert_to_DER_cert(cert.read_text())
    first = der.index(b"\x17\x0d") + 2
    der = der[:first] + b"190101000000Z" + b"\x17\x0d" + b"200101000000Z" + der[first + 28 :]
    cert.write_text(ssl.DER_cert_to_PEM_cert(der))
    assert ends(cert) == 1_577_836_800
    about, mend = section("The certificate has ended")
    with served(tmp_path, surfaces={"certificate": cert, "key": key, "grpc": None}) as s:
        ran(session, [about], s.server.ports)
        fires(session, s, "FluidnpuCertificateEnds")
        (tmp_path / "serve.toml").write_text(
            f'[serve]\nbundles = ["{NAME}"]\nhttp = 0\ntls-cert = "cert.pem"\ntls-key = "key.pem"\n'
        )
        assert "has ended" in caplog.text
        ran(session, [mend], s.server.ports)
        fires(session, s, "FluidnpuCertificateEnds")  # until it is started again
    with (
        served(tmp_path, surfaces={"certificate": cert, "key": key, "grpc": None}) as s,
        fluidnpu.connect(s.url, ca_file=cert) as npu,
    ):
        assert npu.infer(s.w.images(1)[0]).prediction == s.golden(s.w.images(1))[1][0]


def test_a_board_hangs(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is answered when it works again; a hang that lasts keeps the watchdog waiting."""
    released = threading.Event()

    class Hanging(SimulatedNpu):
        def wait_interrupt(self, deadline_ns: int) -> bool:
            assert released.wait(PATIENCE_S)
            return super().wait_interrupt(deadline_ns)

    monkeypatch.setattr(Model, "_longest_s", lambda self: 0.1)
    about, mended = section("A board hangs")
    with served(tmp_path, warm=False, opened=lambda bundle: Hanging(bundle.design, clock=WallClock())) as s:
        waiting = threading.Thread(target=asked, args=(s, 1))
        waiting.start()
        inference = s.server.inference
        assert inference is not None
        eventually(lambda: not inference.live)
        ran(session, [about], s.server.ports)
        fires(session, s, "FluidnpuModelNotReady")
        released.set()
        waiting.join(PATIENCE_S)
        eventually(lambda: inference.live)
        ran(session, [mended], s.server.ports)


def test_the_board_is_of_another_build(session: Session, tmp_path: Path) -> None:
    """The board keeps its bitstream while files change: the old program is served on without a gap."""
    w = world(3, loaded=False)
    qnet = network(4)
    other = design_of(qnet)
    assert other.digest != w.design.digest
    bundle_of(w, tmp_path / "old")
    Bundle(design=other, program=compile_program(qnet, other)).write(tmp_path / "new")
    (tmp_path / "bundle").symlink_to(NAME)
    refuse, mend = section("The board is of another build")
    board = partial(SimulatedNpu, w.design, clock=WallClock())
    with served(tmp_path, w, surfaces={"admin": 0}, opened=lambda bundle: board()) as s:
        ran(session, [refuse], s.server.ports)
        asked(s)
        ran(session, [mend], s.server.ports)
        asked(s)
        assert s.model.loads == 2


def test_the_clock_stepped(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day_s, real, real_ns = 86_400, time.time, time.time_ns
    with served(tmp_path) as s:
        for step in (day_s, -day_s):
            asked(s)
            monkeypatch.setattr(time, "time", lambda by=step: real() + by)
            monkeypatch.setattr(time, "time_ns", lambda by=step: real_ns() + by * 10**9)
            asked(s)
        ran(session, section("The clock stepped"), s.server.ports)


def test_memory_is_short(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load for which there is no memory changes nothing."""
    with served(tmp_path, surfaces={"admin": 0}) as s:

        class Short:
            @staticmethod
            def read(folder: Path) -> Bundle:
                raise MemoryError

        monkeypatch.setattr(model, "Bundle", Short)
        ran(session, section("Memory or the queue is short"), s.server.ports)
        asked(s)
        assert s.model.loads == 1
