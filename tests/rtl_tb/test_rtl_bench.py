"""Benches by hand: how each test ended, where log and waveform are; arrays of any design; nonsense in one
sentence.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fluidnpu.dse import Design
from fluidnpu.dse.testing import tiny_design
from fluidnpu.rtl_tb import ParameterError
from fluidnpu.rtl_tb.common.sources import sources
from fluidnpu.rtl_tb.data_plane.environment.jobs import bench_design
from fluidnpu.rtl_tb.simulation import bench
from fluidnpu.rtl_tb.simulation.model import BenchRun, CaseRun, RtlModel
from fluidnpu.rtl_tb.simulation.setups import BenchSetup, parameters_of, setup
from fluidnpu.rtl_tb.simulation.units import FREE, UNITS, WHOLE

# As a search for a small board of one's own may find: odd widths, narrow ports, no split trees.
OWN: Design = bench_design(
    {
        "t_r": 40,
        "t_p": 5,
        "t_c": 12,
        "b_max": 3,
        "stackable": 1,
        "split": 0,
        "weight_slots": 2,
        "out_words": 8,
        "port_bytes": 8,
    }
)
BROKEN = sources()["common_fifo.sv"].replace("level_q != LevelWidth'(Depth)", "level_q < LevelWidth'(Depth - 1)")


@pytest.mark.long
def test_a_queue_of_another_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["common_fifo", "Width=4", "Depth=3"]) == 0
    first, passed, total, log = capsys.readouterr().out.splitlines()
    assert first == "common_fifo Width=4 Depth=3"
    assert passed.split() == ["PASS", passed.split()[1], "s", "it_is_a_queue"]
    assert total.startswith("1 of 1 tests passed; built in ")
    assert "it_is_a_queue" in Path(log.removeprefix("log: ")).read_text()


def test_a_failure_says_why_and_how_to_see_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = (
        CaseRun(name="good", passed=True, seconds=0.5),
        CaseRun(name="bad", passed=False, seconds=1.25, message="AssertionError: a\nb"),
    )
    runs = [
        BenchRun(cases=cases, log=Path("log.txt")),
        BenchRun(cases=cases, log=Path("log.txt"), waveform=Path("dump.fst")),
    ]
    monkeypatch.setattr(bench, "play", lambda *_, **__: runs.pop(0))
    monkeypatch.setattr(RtlModel, "build", lambda _: Path())
    for waves in ([], ["--waves"]):
        assert bench.main(["common_fifo", *waves]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[1:5] == ["PASS      0.50 s  good", "FAIL      1.25 s  bad", "      AssertionError: a", "      b"]
    assert out[5].startswith("1 of 2 tests passed")
    assert out[7] == "for a waveform of the failure: --waves --tests '^bad$'"
    assert out[-1] == "waveform: dump.fst"


@pytest.mark.long
def test_a_broken_queue_leaves_its_waveform(capsys: pytest.CaptureFixture[str]) -> None:
    model = RtlModel(
        top="common_fifo", parameters={"Width": 4, "Depth": 3}, waves=True, override={"common_fifo.sv": BROKEN}
    )
    done = bench.report(BenchSetup(model=model), seed=1, tests=None)
    assert done.failed == ("it_is_a_queue",)
    assert "assert" in done.cases[0].message
    assert done.waveform is not None
    assert done.waveform.stat().st_size > 500
    assert not done.waveform.with_suffix(".vcd").exists()
    assert f"waveform: {done.waveform}" in capsys.readouterr().out


REFUSED = [
    ("", "MODULE must be given"),
    ("fluidnpu_nothing", "MODULE must be a module with a bench, not 'fluidnpu_nothing'"),
    ("fluidnpu_sequencr", "did you mean fluidnpu_sequencer?"),
    ("axi_read_master", "axi_read_master is met in that of axi_masters_top"),
    ("core_pool", "core_pool is met in that of fluidnpu_core"),
    ("common_fifo Dept=3", "a parameter of common_fifo must be one of Width, Depth, Shown, not Dept"),
    ("common_fifo Depth", "a parameter must be NAME=NUMBER, such as Depth=3, not Depth"),
    ("common_fifo Depth=-1", "must be NAME=NUMBER, such as Depth=3, not Depth=-1"),
    ("common_fifo Depth=1.5", "not Depth=1.5"),
    ("common_fifo =3", "not =3"),
    ("common_fifo Depth=99999999999", "a parameter must be less than 2147483648, not Depth=99999999999"),
    ("common_fifo Depth=3 Depth=4", "a parameter must be given once, not Depth twice"),
    ("common_fifo Depth=0", "a queue needs Width >= 1 and Depth >= 1 (common_fifo)"),
    ("fluidnpu_batching_engine BMax=17", "BMax must lie in 1..16 (fluidnpu_batching_engine)"),
    ("fluidnpu_planner TP=5", "t_p must be even and t_r at least 2 when trees split, not 5"),
    (
        "fluidnpu_data_plane TP=5 InWords=8",
        "InWords of fluidnpu_data_plane must be 10 with the other parameters, not 8",
    ),
    ("fluidnpu_data_plane BMax=99", "b_max must lie in 1..16, not 99"),
    ("fluidnpu_data_plane PortBytes=12", "port_bits must be a power of two of at least 32, not 96"),
    ("common_fifo --tests (", "--tests must be a regular expression"),
    ("common_fifo --tests nothing", "--tests must match one of it_is_a_queue, not nothing"),
    ("common_fifo --seed -1", "--seed must be a number of 32 bits, not -1"),
    ("common_fifo --seed x", "invalid int value: 'x'"),
    ("common_fifo --design no_such_file", "no_such_file could not be read: No such file or directory"),
    ("common_fifo --design .", ". could not be read: Is a directory"),
    ("common_fifo --design pyproject.toml", "pyproject.toml must be a design file of `fluidnpu dse`"),
    ("common_fifo --design tests/rtl_tb/../../docs/pictures/demo.svg", "must be a design file of `fluidnpu dse`"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED, ids=[arguments or "nothing" for arguments, _ in REFUSED])
def test_what_cannot_be_run_is_refused(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parent.parent.parent)
    with pytest.raises(SystemExit) as end:
        bench.main(arguments.split())
    assert end.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("python -m fluidnpu.rtl_tb.simulation.bench: error: ")
    assert sentence in last


def test_a_file_that_is_no_text_is_no_design(tmp_path: Path) -> None:
    (tmp_path / "design.json").write_bytes(bytes(range(256)))
    with pytest.raises(ParameterError, match="could not be read: it is no text"):
        bench.read_design(str(tmp_path / "design.json"))


@pytest.mark.parametrize("top", UNITS)
def test_the_parameters_are_the_modules(top: str) -> None:
    assert set(UNITS[top]) <= set(parameters_of(top))
    assert setup(top).model.parameters.items() >= UNITS[top].items()


@pytest.mark.parametrize("top", [*UNITS, *WHOLE])
def test_a_design_gives_the_parameters_of_every_module(top: str) -> None:
    if top in ("common_fifo", "common_reset", "fluidnpu_counters"):
        with pytest.raises(ParameterError, match="a design says nothing of them"):
            setup(top, {}, OWN)
        return
    ready = setup(top, {}, OWN)
    wanted = OWN.rtl_parameters() | {"PortWords": 4, "DataBytes": 8, "BeatWords": 8}
    for name, value in ready.model.parameters.items():
        if name in wanted and name not in ("Layers", "Sets", "BuildId"):
            assert value == wanted[name], name
    if top not in FREE:
        assert json.loads(ready.env["SIZES"])["t_p"] == 5


def test_a_parameter_changes_the_array_of_a_design() -> None:
    ready = setup("fluidnpu_planner", {"TP": 9}, OWN)
    assert (ready.model.parameters["TP"], json.loads(ready.env["SIZES"])["t_p"]) == (9, 9)
    assert ready.model.parameters["TC"] == 12


@pytest.mark.long
@pytest.mark.parametrize("top", ["fluidnpu_window_segments", "fluidnpu_data_plane", "fluidnpu_core"])
def test_the_bench_of_a_design_passes(top: str, tmp_path: Path) -> None:
    (tmp_path / "design.json").write_text(OWN.dumps())
    some = ["--tests", "one_plain|random_layers|any_handshake|segments"]
    assert bench.main([top, "--design", str(tmp_path / "design.json"), *some]) == 0


def test_the_list_has_every_bench(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*UNITS, *WHOLE]
    assert lines[0].split()[1:] == ["Width=8", "Depth=5"]


def test_a_design_with_stripes_sets_the_ports_of_the_striped_masters() -> None:
    striped = replace(tiny_design(), port_bits=256, stripes=2, array=tiny_design().changed(port_bits=256).array)
    assert setup("axi_striped_masters_top", {}, striped).model.parameters["Ports"] == 2
