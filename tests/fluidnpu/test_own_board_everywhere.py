"""A board of one's own goes through every command, and after `build` its file is not asked for again."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluidnpu import host
from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.commands.helpers import board_power
from fluidnpu.dse import Calibration, Design, DramModel
from fluidnpu.hls import ProjectError, render_project
from fluidnpu.host import devices, serving
from fluidnpu.host.devices import board_target
from fluidnpu.host.serving import model as serving_model
from fluidnpu.host.serving.options import profile_of
from fluidnpu.models import shipped_file
from fluidnpu.scheduler.exits import PowerModel

BOARD = """schema = 1
name = "bench7020"
title = "A bench of our own (Zynq-7000 XC7Z020)"
part = "xc7z020clg400-1"
board_part = "example.org:bench7020:part0:1.0"
family = "zynq7000"
dsp = 220
ramb36 = 140
uram288 = 0
lut = 53_200
ff = 106_400
clock_hz = 100_000_000
axi_ports = 4
axi_port_bits = 64
dsp_columns = [[60, 3], [20, 2]]

[dram.half]
bytes_per_s = 2_100_000_000
side = "ps"
sustained_pct = 60

[dram.both]
bytes_per_s = 4_200_000_000
side = "ps"
stripes = 2

[power]
idle_w = 1.5
active_w = 2.25

[sensors.supply]
chip = "ina219"
address = 0x41
covers = "board"
"""
UTILISATION = """| Device : xc7z020clg400-1
| Instance | Module | Total LUTs | Logic LUTs | LUTRAMs | SRLs | FFs | RAMB36 | RAMB18 | DSP Blocks |
| system_wrapper | (top) | 30000 | 28000 | 1500 | 500 | 40000 | 100 | 10 | 216 |
"""
CALM = ("--rate", 300, "--slo", "20ms", "--requests", 20)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def done(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


@dataclass(frozen=True, kw_only=True)
class Road:
    """What the commands made of a board's file that has gone since, and what they said meanwhile."""

    folder: Path
    memory: str
    images: Path
    verified: str
    checked: str

    @property
    def bundle(self) -> host.Bundle:
        return host.Bundle.read(self.folder / "project" / "bundle")

    def board(self) -> Path:
        """Return the file, written again for a command that names it."""
        (self.folder / "again.toml").write_text(BOARD)
        return self.folder / "again.toml"


@pytest.fixture(scope="module", params=["half", "both"])
def road(request: pytest.FixtureRequest, few_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Road:
    folder = tmp_path_factory.mktemp(request.param)
    file, design = folder / "bench.toml", folder / "design.json"
    file.write_text(BOARD)
    on = ("--board", file)
    checked = done("check", file, "--json")
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        words = ("--cycles", "paper", "--b-max", 2, "--core", "rtl", "--memory", request.param)
        done("dse", model, *on, *words, "--out", design)
        verified = done("verify", model, *on, "--design", design, "--batches", 1, "--data", few_images, "--json")
        made = ("--design", design, "--core", "rtl", "--data", few_images)
        done("build", model, *on, *made, "--out", folder / "project")
    file.unlink()
    return Road(folder=folder, memory=request.param, images=few_images, verified=verified, checked=checked)


def test_the_bundle_has_the_whole_board(road: Road) -> None:
    board = load_board(road.board())
    assert json.loads(road.checked)["digest"] == board.digest
    assert Design.loads((road.folder / "design.json").read_text()).facts == road.bundle.design.facts == board
    assert json.loads(road.verified)["mismatches"] == 0


def test_the_rtl_runs_behind_its_memory(road: Road) -> None:
    design, board = road.bundle.design, load_board(road.board())
    assert design.dram == DramModel.of(board, road.memory, clock_hz=design.clock_hz)
    share, ports = {"half": (0.60 * 2.1e9, (0, 1, 2)), "both": (0.75 * 4.2e9, (0, 1, 2))}[road.memory]
    assert design.dram.total_words == pytest.approx(share / 2 / design.clock_hz)
    assert (design.dram.links, design.dram.latency_cycles) == (ports, 25)


def test_its_energies_are_modelled(road: Road) -> None:
    words = ("stream", road.folder / "project", *CALM, "--data", road.images, "--json")
    served = json.loads(done(*words).splitlines()[-1])
    assert served["power_modelled_w"] == [1.5, 2.25]
    assert served["energy_mj_modelled"] > 0
    assert json.loads(done(*words, "--power", "2,6").splitlines()[-1])["power_modelled_w"] == [2.0, 6.0]
    other = road.folder / "other.toml"
    other.write_text(BOARD.replace("active_w = 2.25", "active_w = 2.5"))
    assert json.loads(done(*words, "--power", other).splitlines()[-1])["power_modelled_w"] == [1.5, 2.5]
    profile = profile_of(road.bundle.design)
    assert profile.energy_nj == tuple(2.25 * ns for ns in profile.alone_ns)


def test_its_power_is_measured_where_it_has_sensors(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the front door and by the server; what the meter reads is tested with the sensors."""
    bundle, asked = road.bundle, []
    for place in (devices, serving_model):
        monkeypatch.setattr(place, "find_meter", lambda board: asked.append(board))
    board_power.board_power(None, bundle, "pynq")
    options = serving.ModelOptions(device="pynq")
    serving_model.Model("one", road.folder / "project" / "bundle", options)._meter(bundle.design)
    assert asked == [load_board(road.board())] * 2
    assert asked[0].sensors[0].address == 0x41


def test_a_device_needs_no_address(road: Road) -> None:
    target = board_target(road.bundle)
    assert (target.family, target.registers, target.board) == ("zynq7000", 0x43C0_0000, load_board(road.board()))


def test_a_processor_that_takes_its_place_has_no_board(road: Road) -> None:
    worker = road.folder / "worker"
    done("measure", road.folder / "project", "--seconds", 0.001, "--worker", worker)
    design = host.Bundle.read(worker).design
    assert (design.is_measured, design.facts) == (True, None)
    words = ("stream", worker, "--device", "cpu", "--rate", 10, "--slo", "1s", "--requests", 2, "--data", road.images)
    assert "energy" not in done(*words)


def test_criteria_over_its_energy_are_simulated(road: Road) -> None:
    words = ("simulate", road.folder / "design.json", "--rate", 100, "--slo", "20ms", "--policy", "serial")
    said = done(*words, "--requests", 30, "--criteria", "energy > 1mJ", "--seeds", 2)
    assert "on bench7020" in said
    bare = road.folder / "bare.json"
    facts = replace(load_board(road.board()), power=None)
    bare.write_text(Design.loads((road.folder / "design.json").read_text()).on(facts).dumps())
    assert run("simulate", bare, *words[2:], "--criteria", "energy > 1mJ").exit_code == 2


def test_a_fleet_of_it_is_planned(road: Road) -> None:
    fleet = road.folder / "fleet.toml"
    fleet.write_text(
        'schema = 1\nname = "benches"\n[networks.resnet8]\nexit_rates = [0.5, 0.25, 0.25]\n[links.lan]\nbytes_per_s = 100_000_000\n[types.board]\n'
        'memory_bytes = 500_000_000\nnetworks.resnet8.bundle = "project/bundle"\n[[devices]]\ntype = "board"\ncount = 2\n'
    )
    assert json.loads(done("place", fleet, "--json"))["value"] > 0


def test_its_reports_are_imported(road: Road) -> None:
    (road.folder / "project" / "build").mkdir(exist_ok=True)
    (road.folder / "project" / "build" / "utilization.rpt").write_text(UTILISATION)
    done("import-reports", road.folder / "project")
    record = road.folder / "project" / "calibration.json"
    assert Calibration.loads(record.read_text(), "record").board == "bench7020"
    words = ("--board", road.board(), "--cycles", "paper", "--b-max", 2, "--core", "rtl", "--memory", road.memory)
    scaled = road.folder / "scaled.json"
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        done("dse", model, *words, "--calibration", record, "--out", scaled)
    assert Design.loads(scaled.read_text()).facts == load_board(road.board())  # not the smaller one of the search


def test_a_board_that_has_changed_since_is_refused(road: Road) -> None:
    """But for what no search asks: sensors and watts are as they are now, and it is the same design."""
    file = road.folder / "new.toml"
    words = ("--design", road.folder / "design.json", "--core", "rtl", "--data", road.images, "--out")
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        file.write_text(BOARD.replace("lut = 53_200", "lut = 60_000"))
        result = run("build", model, "--board", file, *words, road.folder / "never")
        assert (result.exit_code, "it was made for other lut: explore again" in result.stderr) == (2, True)
        file.write_text(BOARD.replace("0x41", "0x42"))
        done("build", model, "--board", file, *words, road.folder / "sensed")
        file.write_text(BOARD.replace("active_w = 2.25", "active_w = 2.75"))
        done("build", model, "--board", file, *words, road.folder / "measured")
    sensed, measured = (host.Bundle.read(road.folder / name / "bundle").design for name in ("sensed", "measured"))
    assert sensed.known_facts.sensors[0].address == 0x42
    assert sensed.digest == road.bundle.design.digest
    assert PowerModel.of(measured) == PowerModel(idle_w=1.5, active_w=2.75)
    assert measured.digest == road.bundle.design.digest


def test_a_project_is_for_the_facts_that_its_design_carries(road: Road) -> None:
    with pytest.raises(ProjectError, match="must carry the facts of board 'bench7020' as they came"):
        render_project(road.bundle.design, None, replace(load_board(road.board()), lut=60_000))


def test_a_project_of_before_says_what_it_lacks(road: Road) -> None:
    """It serves, without energies; what needs the board asks for its file."""
    bundle, folder = road.bundle, road.folder / "before"
    old = replace(bundle.design, facts=None, schema=3)
    host.Bundle(design=old, program=replace(bundle.program, design_digest=old.digest)).write(folder / "bundle")
    (folder / "build").mkdir(exist_ok=True)
    (folder / "build" / "utilization.rpt").write_text(UTILISATION)
    said = " ".join(done("stream", folder, *CALM, "--data", road.images).split())
    lacks = "must carry the facts of its board 'bench7020'"
    assert f"energy is not modelled: the design of 'resnet8_fashion_mnist' {lacks}" in said
    assert PowerModel.of(host.Bundle.read(folder / "bundle").design) is None
    result = run("import-reports", folder)
    assert (result.exit_code, lacks in result.stderr, "--board FILE.toml" in result.stderr) == (2, True, True)
    done("import-reports", folder, "--board", road.board())
    assert run("import-reports", folder, "--board", "zc706").exit_code == 2
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        (folder / "design.json").write_text(old.dumps())
        words = ("--design", folder / "design.json", "--core", "rtl", "--data", road.images, "--out", folder / "new")
        done("build", model, "--board", road.board(), *words)
    assert host.Bundle.read(folder / "new" / "bundle").design == bundle.design
