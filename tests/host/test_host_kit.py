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
from click.testing import CliRunner
from host_worlds import PATIENCE_S, world
from oip_worlds import NAME, bundle_of

from fluidnpu.cli import main
from fluidnpu.configuration import Configuration
from fluidnpu.host.kit import kit_files
from fluidnpu.host.oip.notify import keep_alive, notify, watchdog_s

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
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
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
    command = __import__("fluidnpu.commands.serve", fromlist=["command"]).command
    file.write_text(commented)
    assert len(Configuration.read(file).values(command, "serve")) == 9


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
