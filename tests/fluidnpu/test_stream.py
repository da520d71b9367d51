"""`fluidnpu stream` as operators and their scripts meet it: counts, remarks, and the end when something goes
wrong.
"""

import errno
import json
import os
import re
import signal
import tempfile
from contextlib import nullcontext
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from refusals import refused

from fluidnpu.cli import main
from fluidnpu.host import Bundle, Driver, SimulatedNpu, devices
from fluidnpu.host.devices import opening
from fluidnpu.host.devices.physical.checkup import CheckupTarget
from fluidnpu.host.devices.physical.places import Places
from fluidnpu.host.devices.pynq.bitstream import write_simulated_bitstream
from fluidnpu.models import shipped_file, shipped_images
from fluidnpu.scheduler.policies import REGISTRY

CALM = ("--rate", 3000, "--slo", "2ms")
OVERLOAD = ("--rate", 300_000, "--slo", "2ms")


@pytest.fixture(scope="module")
def project(few_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "project"
    build(folder, "--data", str(few_images))
    return folder


def build(folder: Path, *words: str) -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        plain = ("build", str(model), "--board", "zc706", "--model", "paper", "--out", str(folder))
        assert CliRunner().invoke(main, [*plain, *words]).exit_code == 0


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["stream", *map(str, words)])


def found(*words: object) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, (result.output, result.exception)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    report: dict[str, Any] = json.loads(result.stdout, parse_constant=refuse)
    return report


# -- what is counted and said --------------------------------------------------------------------------------


def test_the_first_images_only(project: Path) -> None:
    one = found(project, *CALM, "--requests", 40)
    assert (one["requests"], one["answered"], one["missed_interrupts"], one["device"]) == (40, 40, 0, "simulated")
    assert one["accuracy"] > 0.8
    refused(run(project, *CALM, "--requests", 1001), "--requests must be at most 1000", "1001")


def test_accuracy_is_of_the_answered(project: Path) -> None:
    words = (project, *OVERLOAD, "--policy", "greedy:shed=1:anytime=5%")
    one = found(*words)
    assert 0 < one["answered"] < 1000
    assert one["answered"] == round(1000 - 10 * one["shed_pct"])
    assert one["accuracy"] > 0.8
    text = run(*words).stdout
    for said in ("shed", f"{one['shed_pct']:.1f} %", "anytime", "no part in the accuracy", "exit they had passed"):
        assert said in text
    assert "shed" not in run(project, *CALM, "--requests", 40).stdout


def test_nobody_answered_is_null_and_a_dash(project: Path) -> None:
    words = (project, "--rate", 3000, "--slo", "1us", "--policy", "serial:shed=1", "--requests", 20)
    one = found(*words)
    assert (one["answered"], one["shed_pct"]) == (0, 100)
    for key in ("accuracy", "average_ms", "p50_ms", "p95_ms", "p99_ms"):
        assert one[key] is None
    text = run(*words).stdout
    assert "nan" not in text
    assert "100.0 %" in text


def test_an_overload_is_said(project: Path) -> None:
    some = ("--requests", 300)
    assert found(project, *OVERLOAD, *some)["unstable"]
    assert "unstable: the backlog grew" in run(project, *OVERLOAD, *some).stdout
    assert "unstable" not in run(project, *CALM, *some).stdout


def test_help_names_every_policy() -> None:
    text = " ".join(run("--help").stdout.split()).replace("- ", "-")  # a name may be broken at its hyphen
    assert all(name in text for name in REGISTRY)


# -- devices that fail ---------------------------------------------------------------------------------------


class Numb(SimulatedNpu):
    """Works, but its interrupt never rises."""

    def wait_interrupt(self, deadline_ns: int) -> bool:
        super().wait_interrupt(deadline_ns)
        return False


class Broken(SimulatedNpu):
    """Its bus fails from a register access on."""

    left = 600

    def read(self, offset: int) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(offset)


class Absent(SimulatedNpu):
    """Nothing answers."""

    def read(self, offset: int) -> int:
        return 0xFFFF_FFFF


def played_by(device: type[SimulatedNpu], project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """The words that serve through this device, as one in /dev/mem."""
    npu = device(Bundle.read(project / "bundle").design)
    monkeypatch.setattr(opening, "open_npu", lambda *_: nullcontext(npu))
    return project, *CALM, "--device", "devmem", "--reserved", "0x30000000:16MiB"


def test_devmem_serves(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = played_by(SimulatedNpu, project, monkeypatch)
    assert found(*words, "--requests", 40)["accuracy"] == found(project, *CALM, "--requests", 40)["accuracy"]


def test_power_is_measured_on_a_board_and_says_so(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ZC706 with PMBus in a look-alike of its sensors: modelled with two watts, and measured beside."""
    chip = tmp_path / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    files = {"name": "ucd90120", "in1_label": "vout1", "in1_input": 1000, "curr9_label": "iout9", "curr9_input": 2500}
    for file, text in files.items():
        (chip / file).write_text(f"{text}\n")
    find, places = devices.find_meter, Places(classes=tmp_path)
    monkeypatch.setattr(devices, "find_meter", lambda board: find(board, places))
    monkeypatch.setattr(devices, "measure_power", partial(devices.measure_power, seconds=0.02))
    words = (*played_by(SimulatedNpu, project, monkeypatch), "--requests", 40)
    plain = found(*words)
    assert not [key for key in plain if "measured" in key or "modelled" in key]  # rails are not paired, and no watts
    refused(run(*words, "--power", "measured"), "--power measured must find a power sensor", "pair them")
    assert found(*words, "--power", "2,6")["energy_mj_modelled"] > 0
    board = tmp_path / "mine.toml"
    text = resources.files("fluidnpu.boards").joinpath("zc706.toml").read_text(encoding="utf-8")
    board.write_text(text.replace('covers = "rails"', 'covers = "rails"\nrails = [["vout1", "iout9"]]'))
    one = found(*words, "--power", board)
    assert (one["power_w_measured"], one["power_measured_of"]) == (2.5, "rails")
    assert one["energy_mj_measured"] > 0
    assert one["power_modelled_w"] == [2.5, 2.5]  # measured before, on a sensor that does not move
    said = run(*words, "--power", board).stdout
    for line in ("watts measured before: [power] idle_w = 2.50", "energy modelled:", "power measured: 2.50 W of some"):
        assert line in said
    simulated = found(project, *CALM, "--requests", 40, "--power", "2,6")
    assert simulated["energy_mj_modelled"] > 0
    assert "power_w_measured" not in simulated
    refused(run(project, *CALM, "--power", "measured"), "the device 'simulated' is no board")


@pytest.mark.parametrize("memory", ["ps", "pl"])
def test_the_projects_readme_says_how(
    memory: str, few_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands run as they stand, on a board without PYNQ and, where PYNQ reaches the memory, with."""
    build(tmp_path, "--b-max", "1", "--memory", memory, "--data", str(few_images))
    text = (tmp_path / "README.md").read_text()
    commands = [
        words.split()
        for words in re.findall(r"""^\$ sudo .*fluidnpu(?:\)")? stream bundle ([^'\n]*)""", text, re.MULTILINE)
    ]
    asked: list[tuple[int, bool, object]] = []
    npu = SimulatedNpu(Bundle.read(tmp_path / "bundle").design)

    def opened(target: CheckupTarget, reserved: object, places: object) -> nullcontext[SimulatedNpu]:
        asked.append((target.registers, target.in_logic, reserved))
        return nullcontext(npu)

    monkeypatch.setattr(opening, "open_npu", opened)
    monkeypatch.setattr(opening, "open_overlay", lambda bit: npu)
    for name in ("fluidnpu.bit", "fluidnpu.hwh"):
        (tmp_path / "bundle" / name).touch()
    assert [words[1] for words in commands] == (["pynq", "devmem"] if memory == "ps" else ["devmem"])
    for words in commands:
        assert found(tmp_path / "bundle", *words, "--requests", 5)["answered"] == 5
    assert asked == [(0x43C0_0000, memory == "pl", None)]


def test_missing_interrupts_are_counted_and_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*played_by(Numb, project, monkeypatch), "--requests", 10)
    one = found(*words)
    assert one["answered"] == 10
    assert one["missed_interrupts"] == sum(one["batches"])
    assert "jobs ended without an interrupt" in run(*words).stdout


def test_a_device_that_dies_is_no_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(*played_by(Broken, project, monkeypatch))
    refused(result, "the device failed while reading", "Input/output error", "requests were answered before", code=1)
    answered = int(result.stderr.split("; ")[-1].split(" of 1000 ")[0])
    assert 10 < answered < 600


def test_a_bus_that_reads_all_ones(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(run(*played_by(Absent, project, monkeypatch)), "the device does not answer", "0xffffffff", code=1)


def test_a_machine_that_is_no_board(project: Path) -> None:
    words = (project, *CALM, "--device", "devmem")
    refused(run(*words, "--reserved", "0x30000000:16MiB"), "must be compatible with 'xlnx,zynq-7000'", code=1)
    for wrong in ("0x30000000", "0x30000000:16", "here:16MiB", "0x30000000:-1MiB"):
        refused(run(*words, "--reserved", wrong), "--reserved must", "0x30000000")
    refused(run(*words, "--registers", "there"), "--registers must", "'there'")
    refused(run(project, *CALM, "--registers", "0x43c00000"), "for the device 'devmem' alone")


def test_pynq_without_a_board(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("pynq", reason="PYNQ is an extra: pip install 'fluidnpu[board]'")
    bundle = Bundle.read(project / "bundle")
    bundle.write(tmp_path)
    write_simulated_bitstream(tmp_path, bundle.design, family="zynq7000")
    refused(run(tmp_path, *CALM, "--device", "pynq"), "on a board, and it cannot: No Devices Found", code=1)


def test_an_array_is_no_archive(project: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", shipped_images(2).images)
    refused(
        run(project, *CALM, "--data", tmp_path / "plain.npy"),
        "plain.npy must be an .npz with arrays",
        "or a folder of images",
    )


# -- stopped in the middle -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_in_the_middle(
    number: signal.Signals, code: int, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with what was reached, nothing left behind, and signals are as they were."""
    run_stage, before, jobs = Driver.run_stage, signal.getsignal(signal.SIGTERM), 0

    def run_some(driver: Driver, stage: int, **options: Any) -> object:
        nonlocal jobs
        jobs += 1
        if jobs == 50:
            assert list(tmp_path.iterdir())
            os.kill(os.getpid(), number)
        return run_stage(driver, stage, **options)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Driver, "run_stage", run_some)
    interrupted = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a job in the background starts with it ignored
    try:
        result = run(project, *CALM, "--json")
    finally:
        signal.signal(signal.SIGINT, interrupted)
    refused(result, "stopped by", "of 1000 requests were answered before", code=code)
    assert " of 1000 requests were answered before" in json.loads(result.stdout)["error"]
    assert 20 < int(result.stderr.split("; ")[-1].split(" of ")[0]) < 100
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before
