"""The kit around a server: what systemd hears of it, and files that their own readers take."""

import asyncio
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from host_worlds import PATIENCE_S, world
from oip_worlds import NAME, bundle_of, served
from prometheus_client.parser import text_string_to_metric_families

import fluidnpu
from fluidnpu.cli import main
from fluidnpu.commands import fleet, serve
from fluidnpu.commands.helpers.configuration import Configuration
from fluidnpu.host.fleet.boards.children import environment
from fluidnpu.host.kit import kit_files
from fluidnpu.host.oip.observing.metric_table import TABLE
from fluidnpu.host.oip.observing.notify import keep_alive, notify, watchdog_s

ROOT = Path(__file__).resolve().parents[2]
KIT = kit_files("a network/9")


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager, which this process and its children are told of."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


# -- sd_notify -----------------------------------------------------------------------------------------------


def test_the_unit_starts_a_server_that_says_how_it_is(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of ExecStart with the paths of a test: ready, alive until the end, also while it drains."""
    bundle = bundle_of(world(3, loaded=False), tmp_path / "bundle")
    file = tmp_path / "serve.toml"
    file.write_text(f'[serve]\nbundles = ["{NAME}={bundle}"]\nhttp = 0\n')
    line = re.search(r"^ExecStart=/bin/bash -c '(.*)'$", KIT["fluidnpu.service"], re.MULTILINE)
    assert line is not None
    words = line[1].replace("$$", "$").replace("/etc/fluidnpu/serve.toml", str(file))
    words = words.replace("exec fluidnpu", f"exec {sys.executable} -m fluidnpu")
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")  # a reader that is held up finds all: the system keeps ten
    process = subprocess.Popen(["/bin/bash", "-c", words], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        monkeypatch.delenv("WATCHDOG_USEC")
        heard = [manager.recv(100)]
        while b"READY=1" not in heard or heard[-1] != b"WATCHDOG=1":
            heard.append(manager.recv(100))
        process.send_signal(signal.SIGTERM)
        while heard[-1] != b"STOPPING=1":
            heard.append(manager.recv(100))
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0
    assert set(heard) == {b"READY=1", b"WATCHDOG=1", b"STOPPING=1"}


def test_a_server_that_only_a_restart_helps_is_silent(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    answers = iter([True, False, False, True])

    async def asked() -> None:
        with pytest.raises(RuntimeError):  # the answers are used up
            await keep_alive(lambda: next(answers))

    asyncio.run(asked())
    notify("END=1")
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC"} & set(environment())  # of a board that a fleet starts
    assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1", b"WATCHDOG=1", b"END=1"]


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("", "/no/such/socket", "@no-such-name"):
        monkeypatch.setenv("NOTIFY_SOCKET", place)
        notify("READY=1")
    for said, owner in (("", "1"), ("0", "1"), ("soon", "1"), ("5000000", "1")):
        monkeypatch.setenv("WATCHDOG_USEC", said)
        monkeypatch.setenv("WATCHDOG_PID", owner)
        assert watchdog_s() is None
    monkeypatch.delenv("WATCHDOG_PID")
    assert watchdog_s() == 5


# -- files ---------------------------------------------------------------------------------------------------


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    drop_in = tmp_path / "fluidnpu.service.d"
    for name, text in KIT.items():
        if name.endswith(".service"):
            (tmp_path / name).write_text(text)
    units = sorted(map(str, tmp_path.glob("*.service")))
    assert len(units) == 2
    for exposure in (2.0, 3.0):  # without the devices of a board, and with them
        for unit in units:
            checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
            assert (checked.returncode, checked.stderr) == (0, "")
            words = ["systemd-analyze", "security", "--offline=yes", f"--threshold={10 * exposure:.0f}", unit]
            rated = subprocess.run(words, capture_output=True, text=True)
            assert rated.returncode == 0, rated.stdout.splitlines()[-1]
        drop_in.mkdir(exist_ok=True)
        (drop_in / "board.conf").write_text(KIT["board.conf"])


def test_the_first_configuration_is_right(tmp_path: Path) -> None:
    """It names the network as a model may be named; with its folder in place it passes the check."""
    bundle_of(world(3, loaded=False), tmp_path / "bundle")
    file = tmp_path / "serve.toml"
    file.write_text(KIT["serve.toml"].replace("/srv/fluidnpu", str(tmp_path)))
    assert Configuration.read(file).tables["serve"]["bundles"] == [f"a-network-9={tmp_path}/bundle"]
    done = CliRunner().invoke(main, ["config", "check", str(file)])
    assert done.exit_code == 0, done.output
    commented = re.sub(r"^# (\S+ = )", r"\1", file.read_text(), flags=re.MULTILINE)
    file.write_text(commented)
    assert len(Configuration.read(file).values(serve.command, "serve")) == 11
    file.write_text(re.sub(r"^# (\S+ = )", r"\1", KIT["front.toml"], flags=re.MULTILINE))
    assert len(Configuration.read(file).values(fleet.command, "fleet")) == 10


def test_the_container_copies_what_a_bundle_has(tmp_path: Path) -> None:
    lines = KIT["Containerfile"].replace("\\\n", "").splitlines()
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines if line and not line.startswith("#")}
    assert said["COPY"].split()[0] == "kit/serve.toml"  # the last one
    words = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    assert words[:2] == ["fluidnpu", "serve"]
    assert words[3] == said["COPY"].split()[1]
    compile(json.loads(said["HEALTHCHECK"].removeprefix("CMD "))[2], "healthcheck", "exec")


def test_a_command_writes_the_kit(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["config", "kit", str(tmp_path / "kit"), "--name", "demo", "--json"])
    assert done.exit_code == 0, done.output
    names = json.loads(done.stdout)["files"]
    assert {path.name: path.read_text() for path in (tmp_path / "kit").iterdir()} == kit_files("demo")
    assert names == sorted(KIT)


# -- rules and dashboard -------------------------------------------------------------------------------------

FIRING = {  # an alert: what is scraped each minute, in promtool's notation, and after how many minutes it fires
    "FluidnpuModelNotReady": ({'fluidnpu_model_ready{model="demo"}': "1 0x9"}, 3),
    "FluidnpuDeviceFails": ({'fluidnpu_model_recoveries_total{model="demo"}': "0 1 3 6x9"}, 5),
    "FluidnpuLogDropped": ({'fluidnpu_decision_lines_dropped_total{model="demo"}': "0 0 40x9"}, 4),
    "FluidnpuAccessRefused": ({"fluidnpu_access_refused_total": "0+60x9"}, 5),
    "FluidnpuCertificateEnds": ({"fluidnpu_certificate_end_seconds": "1000x9"}, 1),
    "FluidnpuRefused": ({'fluidnpu_refused_total{model="demo",error="QueueFullError"}': "0+5x9"}, 5),
    "FluidnpuLate": (
        {
            'fluidnpu_violations_total{model="demo"}': "0+10x20",
            'fluidnpu_requests_total{model="demo",outcome="exit"}': "0+60x20",
            'fluidnpu_requests_total{model="demo",outcome="anytime"}': "0+40x20",
        },
        12,
    ),
    "FluidnpuDrift": ({'fluidnpu_latency_drift_ratio{model="demo",stage="0",batch="1"}': "1.3x20"}, 12),
    "FluidnpuBoardGone": ({'fluidnpu_board_state{board="b0",state="hung"}': "0 1x9"}, 4),
    "FluidnpuWrongBits": ({'fluidnpu_board_wrong_total{board="b0"}': "0 0 1x9"}, 4),
}
CALM = {  # the same metrics on a good day
    'fluidnpu_model_ready{model="demo"}': "1x20",
    'fluidnpu_model_recoveries_total{model="demo"}': "1x20",
    'fluidnpu_decision_lines_dropped_total{model="demo"}': "40x20",
    "fluidnpu_access_refused_total": "0 1x20",
    "fluidnpu_certificate_end_seconds": "9000000x20",
    'fluidnpu_refused_total{model="demo",error="ProtocolError"}': "0+5x20",
    'fluidnpu_violations_total{model="demo"}': "0+1x20",
    'fluidnpu_requests_total{model="demo",outcome="exit"}': "0+60x20",
    'fluidnpu_latency_drift_ratio{model="demo",stage="0",batch="1"}': "1.0x20",
    'fluidnpu_board_state{board="b0",state="ready"}': "1x20",
    'fluidnpu_board_wrong_total{board="b0"}': "0x20",
}


def test_rules_and_panels_are_of_the_table_and_of_the_runbook() -> None:
    rules = yaml.safe_load(KIT["alerts.yml"])["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == list(FIRING)
    known = {metric.sample(name) for name, metric in TABLE.items()}
    panels = [panel for panel in json.loads(KIT["dashboard.json"])["panels"] if panel["type"] != "row"]
    assert len(panels) == len(TABLE)
    asked = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    for expr in asked:
        assert set(re.findall(r"fluidnpu_\w+", expr)) <= known, expr
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_a_scrape_has_what_the_table_says(tmp_path: Path) -> None:
    """Kind, meaning and labels; a family that the table lacks would have no kind."""
    with served(tmp_path) as s, fluidnpu.connect(s.url) as npu:
        npu.infer(s.w.images(1)[0])
        assert s.call("POST", f"/v2/models/{NAME}/infer", b"{")[0] == 400
        families = list(text_string_to_metric_families(s.exchange("GET", "/metrics")[1].decode()))
    ours = {one.name.removeprefix("fluidnpu_"): one for one in families if one.name.startswith("fluidnpu_")}
    assert {"refused", "access_refused", "log_lines_dropped", "latency_seconds", "runs"} < set(ours)
    for name, family in ours.items():
        assert (family.type, family.documentation) == (TABLE[name].kind, TABLE[name].help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(TABLE[name].labels)
    assert {one.labels["error"] for one in ours["refused"].samples} == {"ProtocolError"}
    assert any(one.name == "process_resident_memory_bytes" for one in families)


def promtool(*words: str | Path) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    done = subprocess.run([tool, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules_and_what_the_dashboard_asks(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(KIT["alerts.yml"])
    panels = json.loads(KIT["dashboard.json"])["panels"]
    asked = [one["expr"].replace("$__rate_interval", "1m") for panel in panels for one in panel.get("targets", ())]
    records = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(asked)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    promtool("check", "rules", tmp_path / "alerts.yml", tmp_path / "panels.yml")


def test_each_alert_fires_on_its_night_and_none_on_a_good_day(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(KIT["alerts.yml"])

    def series(values: dict[str, str]) -> list[dict[str, str]]:
        return [{"series": name, "values": text} for name, text in values.items()]

    nights = []
    for name, (values, minutes) in FIRING.items():
        labels = {key: text for one in values for key, text in re.findall(r'(\w+)="(\w+)"', one)}
        gone = {"FluidnpuLate": ("outcome",)}.get(name, ())
        rule = next(one for one in yaml.safe_load(KIT["alerts.yml"])["groups"][0]["rules"] if one["alert"] == name)
        labels = {key: text for key, text in labels.items() if key not in gone} | rule["labels"]
        expected = [{"exp_labels": labels, "exp_annotations": rule["annotations"]}]
        night = {"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": expected}
        nights.append({"interval": "1m", "input_series": series(values), "alert_rule_test": [night]})
    days = [{"eval_time": "15m", "alertname": name, "exp_alerts": []} for name in FIRING]
    nights.append({"interval": "1m", "input_series": series(CALM), "alert_rule_test": days})
    (tmp_path / "night.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": nights}))
    promtool("test", "rules", tmp_path / "night.yml")
