"""Real commands, stopped at any time: no file is half-written, nothing else is left, and the next run works.

The disk is made slow, so that a signal also falls between two files, or holds before one of them until the
signal has come. Full disks and two commands at once are here, too.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.hls.project.writing import JOURNAL
from fluidnpu.models import shipped_file
from fluidnpu.models.files import is_leftover, one_writer

TABLE = {"latency_ns": [[1000, 1500], [800, 1200]], "exit_rates": [0.5, 0.5]}
SLOW = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background process ignores
real, moves = os.replace, 0
def slow(source, target):
    global moves
    print(f"moves {moves}", file=sys.stderr, flush=True)
    time.sleep(3600 if str(moves) == os.environ.get("HOLD") else 0.01)
    moves += 1
    real(source, target)
os.replace = slow
from fluidnpu.cli import main
main(prog_name="fluidnpu")
"""
COMMANDS = {
    "build": "build model --board zc706 --design design.json --core rtl --out out/project",
    "simulate": "simulate table.json --rate 90000 --slo 9us --requests 900 --seeds 2 --log out/l.jsonl --report out/r.html",
    "exits": "exits model --out out/new.onnx",
    "dse": "dse model --board zc706 --cycles paper --out out/d.json --report out/r.html",
}
CODES = {signal.SIGINT: {130, 0}, signal.SIGTERM: {143, 0}, signal.SIGKILL: {-9, 0}}  # 0: it was quicker


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs, and in `whole` what each command leaves when nobody stops it."""
    top = tmp_path_factory.mktemp("stopped")
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        shutil.copy(path, top / "model")
    words = ["dse", str(top / "model"), "--board", "zc706", "--cycles", "paper", "--core", "rtl"]
    assert CliRunner().invoke(main, [*words, "--out", str(top / "design.json")]).exit_code == 0
    (top / "table.json").write_text(json.dumps(TABLE))
    return top


def start(name: str, world: Path, folder: Path, hold: int | None = None) -> subprocess.Popen[str]:
    """Start a command; its disk holds before the move of this number."""
    for one in ("model", "design.json", "table.json"):
        if not (folder / one).exists():
            shutil.copy(world / one, folder)
    words = [sys.executable, "-c", SLOW, "--log-level", "info", *COMMANDS[name].split()]
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "HOLD": str(hold)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(folder: Path) -> dict[str, bytes]:
    """The files under `out`, those that only say that somebody was stopped left out."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()}
    return {name: text for name, text in found.items() if Path(name).name != JOURNAL and not is_leftover(Path(name))}


@pytest.fixture(scope="module")
def whole(world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What a command leaves by itself, made when first asked for."""

    class Made(dict[str, dict[str, bytes]]):
        def __missing__(self, name: str) -> dict[str, bytes]:
            folder = tmp_path_factory.mktemp("whole")
            with start(name, world, folder) as process:
                _, said = process.communicate()
            assert process.returncode == 0, said
            return self.setdefault(name, left(folder))

    return Made()


def stop(
    name: str,
    number: signal.Signals,
    world: Path,
    folder: Path,
    whole: dict[str, bytes],
    *,
    hold: int | None = None,
    after: float = 0.0,
) -> str:
    """Start a command and send the signal: before a move, or some seconds after the first line of its log."""
    with start(name, world, folder, hold) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if hold is None or line == f"moves {hold}\n":
                break
        time.sleep(after)
        process.send_signal(number)
        said += process.communicate()[1]
    # While the interpreter closes, all work done, a signal ends it as any process.
    closing = {-number} if left(folder) == whole else set()
    assert process.returncode in CODES[number] | closing, said
    return said


def check_and_go_on(name: str, world: Path, folder: Path, whole: dict[str, bytes]) -> None:
    """Every file is whole or as it was, and the same command then leaves what it leaves by itself."""
    assert {key: text for key, text in left(folder).items() if whole.get(key) != text} == {}
    with start(name, world, folder) as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert left(folder) == whole
    assert not [path for path in (folder / "out").rglob("*") if path.name == JOURNAL or is_leftover(path)]


@pytest.mark.parametrize(
    ("name", "number", "move"),
    [
        pytest.param("build", signal.SIGKILL, 25, marks=pytest.mark.long),
        ("exits", signal.SIGTERM, 0),
        ("simulate", signal.SIGINT, 2),
        ("exits", signal.SIGKILL, 0),
    ],
)
def test_stopped_while_files_are_moved(
    name: str, number: signal.Signals, move: int, world: Path, whole: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    said = stop(name, number, world, tmp_path, whole[name], hold=move)
    assert "Traceback" not in said
    if number is signal.SIGTERM:
        assert said.strip().splitlines()[-1].startswith("fluidnpu: stopped by a signal")
    check_and_go_on(name, world, tmp_path, whole[name])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", COMMANDS)
def test_stopped_at_random_times(
    name: str, seed: int, world: Path, whole: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    """From the first line of the log to the end, over files of an earlier run every other time."""
    dice = random.Random(f"{name} {seed}")
    whole_now = whole[name]
    if seed % 2:
        for key, text in whole_now.items():
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / key).write_bytes(text)
    number = dice.choice(list(CODES))
    said = stop(name, number, world, tmp_path, whole_now, after=dice.uniform(0, 3))
    assert "Traceback" not in said
    check_and_go_on(name, world, tmp_path, whole_now)


def limited() -> None:
    """A disk that takes no file above 16 KiB, as the system enforces it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, resource.RLIM_INFINITY))


@pytest.mark.parametrize("name", ["simulate", "exits"])
def test_a_full_disk_names_the_file_and_keeps_the_old_one(name: str, world: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for old in ("l.jsonl", "r.html", "new.onnx"):
        (tmp_path / "out" / old).write_text("old")
    for one in ("model", "table.json"):
        shutil.copy(world / one, tmp_path)
    words = [sys.executable, "-c", "from fluidnpu.cli import main; main()", *COMMANDS[name].split(), "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("fluidnpu: 'out/")
    assert "could not be written (File too large)" in line
    assert json.loads(done.stdout)["error"] in line
    assert set(left(tmp_path).values()) == {b"old"}


def test_what_cannot_be_printed_is_one_sentence(world: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("only Linux has a full device")
    words = [sys.executable, "-c", "from fluidnpu.cli import main; main()", "check", str(world / "model")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == "fluidnpu: standard output could not be used: No space left on device"


def test_of_two_builds_at_once_one_does_it_and_one_says_so(world: Path, tmp_path: Path) -> None:
    words = ["build", str(world / "model"), "--board", "zc706", "--design", str(world / "design.json"), "--core", "rtl"]
    target = tmp_path / "project"
    with one_writer(target):  # the other one, in the middle of its work
        result = CliRunner().invoke(main, [*words, "--out", str(target)])
        assert result.exit_code == 1
        (line,) = result.stderr.strip().splitlines()
        assert line == f"fluidnpu: '{target}' must have one writer at a time, and another one is at work there"
        assert not any(target.iterdir())
    assert CliRunner().invoke(main, [*words, "--out", str(target)]).exit_code == 0
    for command in (
        ["demo", "--out", str(tmp_path)],
        ["simulate", "--study", "fluid-batching", "--out", str(tmp_path)],
    ):
        with one_writer(tmp_path):
            assert "one writer at a time" in CliRunner().invoke(main, command).stderr


def test_a_project_that_was_not_finished_is_no_project_to_import(world: Path, tmp_path: Path) -> None:
    words = ["build", str(world / "model"), "--board", "zc706", "--design", str(world / "design.json"), "--core", "rtl"]
    assert CliRunner().invoke(main, [*words, "--out", str(tmp_path / "p")]).exit_code == 0
    (tmp_path / "p" / JOURNAL).write_text("{}")
    result = CliRunner().invoke(main, ["import-reports", str(tmp_path / "p")])
    assert result.exit_code == 2
    assert "its writing was stopped: build it again" in result.stderr
