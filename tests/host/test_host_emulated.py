"""The board path in a process of its own, over mappings that fault as Device memory does."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_board import EmulatedBoard, needs_the_emulation
from host_worlds import world

from fluidnpu.boards import load_board
from fluidnpu.commands.helpers import wheel as wheels
from fluidnpu.commands.helpers.wheel import board_wheel
from fluidnpu.host import Bundle
from fluidnpu.models import golden

ROOT = Path(__file__).resolve().parents[2]
PL, PS = 0x8000_0000, 0x3000_0000
# Nothing that a board need not have can be imported, and nothing of it may be asked for.
BOARD_ONLY = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"onnx", "matplotlib", "jinja2", "numba", "scipy", "torch", "pynq", "tkinter"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from fluidnpu.cli import main
main()
"""
Make = Callable[..., EmulatedBoard]


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    needs_the_emulation()


@cache
def bundle_of(board: str, memory: str) -> tuple[Bundle, Any]:
    """A bundle of a random network for one board and memory, and images labelled with golden's answers."""
    w = world(3, millis=True)
    bits = {"pl": 512}.get(memory, w.design.port_bits)
    facts = load_board(board)
    design = w.design.changed(board=board, facts=facts, memory=memory, port_bits=bits, exit_rates=(0.5, 0.5))
    bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    images = w.images(12)
    return bundle, (images, np.array(golden.early_exit(w.qnet, images)[1]))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(board: str = "zc706", memory: str = "pl", **words: Any) -> EmulatedBoard:
        bundle, (images, labels) = bundle_of(board, memory)
        bundle.write(tmp_path / "bundle")
        np.savez(tmp_path / "images.npz", images=images, labels=labels)
        family = {"zc706": "zynq7000", "zcu104": "zynquplus"}[board]
        return EmulatedBoard(root=tmp_path / "root", design=bundle.design, family=family, **words)

    return build


def fluidnpu(board: EmulatedBoard, *words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run a subcommand on the board, with the modules of a board alone."""
    folder = board.root.parent
    filled = [word.format(folder=folder) for word in words]
    return board.run([python, "-c", BOARD_ONLY, *filled], {"PYTHONPATH": str(ROOT / "src")})


SERVE = (
    "stream",
    "{folder}/bundle",
    "--device",
    "devmem",
    "--data",
    "{folder}/images.npz",
    "--rate",
    "100",
    "--slo",
    "5s",
)


@pytest.mark.parametrize(
    ("board", "memory", "buffer"),
    [("zcu104", "ps", (PS, 1 << 22)), ("zc706", "pl", (PL, 1 << 22)), ("zc706", "pl", None)],
    ids=["zcu104-udmabuf", "zc706-udmabuf", "zc706-words"],
)
def test_a_board_serves(make: Make, board: str, memory: str, buffer: tuple[int, int] | None) -> None:
    """Every answer is golden's, and no access was one that Device memory refuses."""
    emulated = make(board, memory, buffer=buffer, ram=PL)
    done = fluidnpu(emulated, *SERVE, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["answered"], report["accuracy"], report["missed_interrupts"]) == (12, 1.0, 0)
    if buffer is not None:
        assert emulated.attribute("sync_mode") == "2"
        assert int(emulated.attribute("sync_for_device"), 0) & 0xF == 1 << 2 | 1
        assert int(emulated.attribute("sync_for_cpu"), 0) & 0xF == 2 << 2 | 1


@pytest.mark.parametrize(
    ("access", "fault"),
    [
        ("words[:] = 0", "not one 32-bit load or store"),
        ("bytes(memory[:64])", "not one 32-bit load or store"),
        ("memory[3]", "not one 32-bit load or store"),
        ("np.frombuffer(memory, np.uint16)[0]", "not one 32-bit load or store"),
        ("np.frombuffer(memory, np.uint64)[0]", "not one 32-bit load or store"),
        ("words[5] = 7; assert words[5] == 7 and words[6] == 0", ""),
    ],
)
def test_the_emulation_faults_as_device_memory_does(make: Make, access: str, fault: str) -> None:
    """What NumPy and mmap do by themselves is a bus error; an aligned word is none."""
    script = f"""
import mmap, os
import numpy as np
memory = mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), 4096, offset={PL:#x})
words = np.frombuffer(memory, np.uint32)
{access}
"""
    done = make().run([sys.executable, "-c", script])
    assert done.returncode == (-signal.SIGBUS if fault else 0), done.stderr
    assert fault in done.stderr


@pytest.mark.parametrize(("mode", "dies"), [(1, True), (2, False)])
def test_a_u_dma_buf_is_device_memory_in_its_default_mode(make: Make, mode: int, dies: bool) -> None:
    script = "import mmap, os; m = mmap.mmap(os.open('/dev/udmabuf0', os.O_RDWR | os.O_SYNC), 4096); m[:] = bytes(4096)"
    done = make(buffer=(PL, 1 << 20), sync_mode=mode).run([sys.executable, "-c", script])
    assert done.returncode == (-signal.SIGBUS if dies else 0), done.stderr


def test_an_access_to_an_npu_without_a_clock_hangs_the_emulation(make: Make) -> None:
    """The check of clocks is needed: without it the very first read of a register never returns."""
    board = make(system={0xF800_0178: 1})
    script = "from fluidnpu.host.devices.physical.words import Words; Words('/dev/mem', 0x43C00000, 4096).read(0)"
    done = board.run([sys.executable, "-c", script], {"PYTHONPATH": str(ROOT / "src")})
    assert "HANG" in done.stderr
    assert done.returncode == 97


# -- doctor --board: each step that can fail, and the sentence that says why --

DOCTOR = ("doctor", "--board", "{folder}/bundle", "--json")
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "well": ({}, "", ""),
    "no u-dma-buf": ({"buffer": None}, "", "u-dma-buf in the programmable logic's memory must be there"),
    "no interrupt": ({"uio": False}, "", "no UIO device is named 'fluidnpu'"),
    "interrupt lost": ({"interrupt": False}, "interrupt", "its node needs interrupts = <0 29 4>"),
    "clock off": ({"system": {0xF800_0178: 1}}, "clock", "FCLK0 must run, and it is off"),
    "clock slow": ({"system": {0xF800_0170: 5 << 8 | 4 << 20}}, "clock", "must have 100 MHz, and it has 50.0"),
    "level shifters": ({"system": {0xF800_0900: 0}}, "reset", "level shifters between processors and logic must be on"),
    "held in reset": ({"system": {0xF800_0240: 1}}, "reset", "FCLK_RESET0_N must be released"),
    "no bitstream": ({"lines": [1] * 7}, "bitstream", "drives GPIO lines 54 to 57 with 0101, and they read 1111"),
    "not locked": ({"lines": [0, 1, 0, 1, 0, 0, 0]}, "NPU clock", "clocking wizard must be locked"),
    "in reset": ({"lines": [0, 1, 0, 1, 1, 0, 1]}, "NPU reset", "NPU must be out of reset"),
    "no calibration": ({"lines": [0, 1, 0, 1, 1, 1, 0]}, "calibration", "memory of the logic must be calibrated"),
    "bus silent": ({"silent": True}, "registers", "the bus is silent there (all ones)"),
    "wrong build": ({"build": 0x0BAD_0BAD}, "registers", "that of the bundle, and it is 0x0bad0bad"),
    "small buffer": ({"buffer": (PL, 1 << 13)}, "memory", "bytes for the bundle's program and slots, and it has 8192"),
}


@pytest.mark.parametrize("name", CASES)
def test_doctor_explains_each_step(make: Make, name: str) -> None:
    changes, step, said = CASES[name]
    done = fluidnpu(make(**{"buffer": (PL, 1 << 22), **changes}), *DOCTOR)
    assert "HANG" not in done.stderr
    assert "SIGBUS" not in done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (1 if step else 0), done.stderr
    steps = {one["name"]: one for one in report["steps"]}
    failed = [one for one in report["steps"] if one["passed"] is False]
    assert [one["name"] for one in failed] == [step] * bool(step)
    assert said in (steps[step]["said"] if step else " ".join(one["said"] for one in steps.values()))
    assert not step or report["error"] == f"{step}: {steps[step]['said']}"


def test_serving_stops_at_the_same_checks(make: Make) -> None:
    """One sentence and exit code 1, before the access that would halt the processor."""
    done = fluidnpu(make(system={0xF800_0178: 1}), *SERVE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("fluidnpu: FCLK0 must run, and it is off (bit 0 of 0xf8000178)")


def test_a_zcu104_is_checked_by_its_own_registers(make: Make) -> None:
    narrow = make("zcu104", "ps", buffer=(PS, 1 << 22), system={0xFD38_0014: 1})
    done = fluidnpu(narrow, *DOCTOR)
    assert "memory port 0 must be" in done.stderr
    done = fluidnpu(make("zcu104", "ps", buffer=(PS, 1 << 22), system={0xFF5E_00C0: 15 << 8 | 1 << 16}), *DOCTOR)
    assert "pl_clk0 must run, and it is off (bit 24 of 0xff5e00c0)" in done.stderr


# -- the Pythons of boards' images, with the board's wheel and its requirements alone --

PYTHONS = {"3.10": ["numpy==1.21.6"], "3.11": [], "3.12": [], "3.13": []}  # NumPy of PYNQ v3's image, else any


def python_of(version: str) -> str | None:
    """An interpreter of that version on the path, or among pyenv's."""
    found = shutil.which(f"python{version}")
    places = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for candidate in (*(map(str, places)), *([found] if found else [])):
        works = subprocess.run(
            [candidate, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True, text=True
        )
        if works.stdout.strip() == version:
            return candidate
    return None


@pytest.mark.long
@pytest.mark.parametrize("version", PYTHONS)
def test_a_board_serves_on_each_python(make: Make, version: str, tmp_path: Path) -> None:
    """A new environment takes a bundle's wheel as install.sh does; then the board is checked and serves."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    name, wheel = board_wheel()
    (tmp_path / name).write_bytes(wheel)
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    inside = tmp_path / "venv" / "bin"
    done = subprocess.run(
        [inside / "pip", "install", "-q", tmp_path / name, *PYTHONS[version]], capture_output=True, text=True
    )
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("the package index is not reachable")
    assert done.returncode == 0, done.stderr
    listed = subprocess.run([inside / "pip", "list", "--format=json"], capture_output=True, text=True, check=True)
    parts = {part["name"].lower() for part in json.loads(listed.stdout)}
    assert not parts & {"onnx", "matplotlib", "numba", "jinja2", "scipy", "torch", "pynq"}
    board = make("zc706", "pl", buffer=(PL, 1 << 22))
    filled = [word.format(folder=tmp_path) for word in SERVE]
    clean = {"PYTHONPATH": ""}
    assert board.run([str(inside / "fluidnpu"), "doctor", "--board", str(tmp_path / "bundle")], clean).returncode == 0
    served = board.run([str(inside / "fluidnpu"), *filled, "--json"], clean)
    assert served.returncode == 0, served.stderr
    assert json.loads(served.stdout)["accuracy"] == 1.0


def test_the_boards_wheel_serves_by_itself(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked, it is the whole of fluidnpu that a board has; and it is the same each time."""
    name, wheel = board_wheel()
    with monkeypatch.context() as installed:  # beside a checkout the metadata of its installation are read
        installed.setattr(wheels, "_CHECKOUT", False)
        requirements = wheels._requirements()
    assert requirements == wheels._requirements()
    assert board_wheel() == (name, wheel)
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        archive.extractall(tmp_path / "site")
        names = archive.namelist()
        needed = archive.read(next(one for one in names if one.endswith("METADATA"))).decode()
    assert {one.partition("/")[0].partition("-")[0] for one in names} == {"fluidnpu"}
    assert not [one for one in names if one.endswith((".sv", ".j2", ".onnx", ".cpp"))]
    base = re.findall(r"Requires-Dist: ([\w-]+)(?!.*extra ==)", needed)
    assert base == ["numpy", "click", "rich", "lazy-loader", "tomli"]
    assert {"uvicorn", "grpcio"} < set(re.findall(r'Requires-Dist: ([\w-]+).* extra == "serve"', needed))
    inside = {path for path in (ROOT / "host").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {f"fluidnpu/{path.relative_to(ROOT)}" for path in inside} <= set(names)  # pages and schemas, too
    board = make("zc706", "pl", buffer=(PL, 1 << 22))
    filled = [word.format(folder=tmp_path) for word in SERVE]
    done = board.run([sys.executable, "-c", BOARD_ONLY, *filled, "--json"], {"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"] == 1.0


def test_doctor_off_a_board_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOARD_ONLY, "doctor", "--board"],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "must be compatible with 'xlnx,zynq-7000'" in done.stderr
