"""Reports of a built project against predictions; a calibration scales estimates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hand_made_reports import csynth, hierarchical, timing

from fluidnpu.boards import load_board
from fluidnpu.dse import (
    Calibration,
    Design,
    DesignError,
    Point,
    Target,
    apply_calibration,
    build_design,
    calibrated_board,
    explore,
    fit,
)
from fluidnpu.dse.resources import Measure
from fluidnpu.hls import ReportError
from fluidnpu.hls.project import import_reports
from fluidnpu.models.zoo import random_network

BOARD = load_board("zc706")


@pytest.fixture(scope="module")
def design() -> Design:
    return build_design(random_network(3).workload, BOARD, Point(t_r=512, t_p=7, t_c=4), core="rtl", b_max=2)


def project(folder: Path, **files: str) -> Path:
    places = {
        "csynth": "hls/fluidnpu_core/solution1/syn/report/csynth.xml",
        "array": "hls/fluidnpu_core/solution1/syn/report/run_array_csynth.xml",
        "utilisation": "build/utilization.rpt",
        "timing": "build/timing.rpt",
    }
    for name, text in files.items():
        path = folder / places[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_the_array_is_a_pipeline_that_is_not_too_deep(design: Design, tmp_path: Path) -> None:
    """T_P = 7: rows of sums come back after 16 cycles at the earliest."""
    one = "<PipelineInitiationInterval>1</PipelineInitiationInterval>"
    rows = {
        m.quantity: m
        for m in import_reports(project(tmp_path, array=csynth(worst="15", interval=one)), design, BOARD).measures
    }
    assert rows["array_latency_cycles"].reported == 15
    assert rows["array_interval_cycles"].ratio == 1.0
    two = "<Interval-min>2</Interval-min><Interval-max>2</Interval-max>"
    rows = {
        m.quantity: m
        for m in import_reports(project(tmp_path, array=csynth(worst="15", interval=two)), design, BOARD).measures
    }
    assert rows["array_interval_cycles"].ratio == 2.0
    with pytest.raises(
        ReportError,
        match=r"run_array_csynth\.xml' must tell of a pipeline of less than 16 cycles, .* and it has 16: such a core",
    ):
        import_reports(project(tmp_path, array=csynth(worst="16")), design, BOARD)


def test_a_record_has_predicted_and_reported_side_by_side(design: Design, tmp_path: Path) -> None:
    folder = project(tmp_path, csynth=csynth(), utilisation=hierarchical(), timing=timing())
    record = import_reports(folder, design, BOARD)
    rows = {(m.stage, m.quantity): m for m in record.measures}
    assert rows["route", "dsp"].predicted == design.macs_per_cycle == 28
    assert rows["route", "dsp"].ratio == 1.0
    assert rows["hls", "dsp"].ratio == pytest.approx(30 / 28)
    target = Target(board=BOARD, layers=len(design.layers), b_max=2, core="hls")
    need = fit(Point(t_r=design.t_r, t_p=7, t_c=4), target, buffer_words=design.buffer_words)
    assert rows["route", "ramb18"].predicted == need.ramb18
    assert rows["route", "lut"].ratio == 12000 / need.lut.value
    assert rows["route", "ff"].ratio == 15000 / need.ff.value
    assert rows["hls", "lut"].ratio is None
    assert rows["route", "clock_mhz"].reported == pytest.approx(1e3 / 6.0)
    assert rows["hls", "best_latency_cycles"].reported == 41
    assert ("hls", "worst_latency_cycles") not in rows
    assert Calibration.loads(record.dumps()) == record


@pytest.mark.parametrize("memory", ["ps", "pl"])
def test_what_is_predicted_is_what_the_exploration_says(memory: str, tmp_path: Path) -> None:
    found = explore(random_network(3).workload, BOARD, b_max=2, memory=memory, model="paper", core="rtl")
    record = import_reports(project(tmp_path, utilisation=hierarchical()), found.design, BOARD)
    predicted = {m.quantity: m.predicted for m in record.measures}
    said = {name: found.fitted_resources[name]["used"] for name in ("dsp", "ramb18", "lut", "ff")}
    assert {name: predicted[name] for name in said} == said


def test_any_report_may_be_missing_but_not_all(design: Design, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="it holds none"):
        import_reports(tmp_path, design, BOARD)
    record = import_reports(project(tmp_path, timing=timing()), design, BOARD)
    assert [(m.stage, m.quantity) for m in record.measures] == [("route", "clock_mhz")]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"csynth": csynth(part="xczu7ev-ffvc1156-2-e")}, "must be of zc706"),
        ({"csynth": "<profile>"}, "must be XML"),
        ({"csynth": "<profile/>"}, "must hold UserAssignments/Part"),
        ({"csynth": '<!DOCTYPE p [<!ENTITY a "b">]><profile/>'}, "document type"),
        ({"csynth": csynth().replace(">30<", ">many<")}, "DSP48E"),
        ({"utilisation": hierarchical(device="7z020clg400-1")}, "must be of zc706"),
        ({"utilisation": ""}, "must be the text of report_utilization"),
        ({"utilisation": hierarchical().replace("(top)", "(other)")}, r"marked \(top\)"),
        ({"utilisation": hierarchical().replace("12000", "1.5e4")}, "whole number"),
        ({"utilisation": hierarchical().replace("Device", "Gadget")}, "name its device"),
        ({"timing": timing(period=10.0)}, "whose clock has 6.667 ns"),
        ({"timing": "WNS"}, "design timing summary"),
        ({"timing": timing().replace("0.667 ", "NA ")}, "WNS"),
    ],
)
def test_other_designs_and_damaged_reports_are_refused(
    design: Design, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    with pytest.raises(ReportError, match=words) as caught:
        import_reports(project(tmp_path, **files), design, BOARD)
    assert "\n" not in str(caught.value)


def record_of(design: Design, **reported: float) -> Calibration:
    rows = tuple(
        Measure(stage="route", quantity=name, predicted=100.0, reported=value) for name, value in reported.items()
    )
    return Calibration(
        design=design.digest,
        network="n",
        board="zc706",
        clock_hz=design.clock_hz,
        t_r=512,
        t_p=7,
        t_c=2,
        measures=rows,
    )


ESTIMATES = {"lut": 2000.0, "ff": 3000.0}


def test_scaling_is_by_the_ratio(design: Design) -> None:
    found = apply_calibration(record_of(design, lut=110.0, ff=150.0), BOARD, ESTIMATES)
    assert found.resources["lut"]["used"] == pytest.approx(2200.0)
    assert found.resources["ff"]["used"] == pytest.approx(4500.0)
    assert "none are scaled" in apply_calibration(record_of(design, clock_mhz=75.0), BOARD, ESTIMATES).notes[0]
    too_many = apply_calibration(record_of(design, lut=20_000.0), BOARD, ESTIMATES)
    assert any("needs 400000 LUT, and zc706 has 218600" in note for note in too_many.notes)


def test_the_board_gets_the_clock_that_was_met_and_never_a_faster_one(design: Design) -> None:
    slow, (note,) = calibrated_board(record_of(design, clock_mhz=75.0), BOARD)
    assert slow.clock_hz == 75_000_000
    assert note == (
        "the search counts at 75.0 MHz, not at the board file's 150: the built design asked for 100 MHz and met 75.0, "
        "with a worst setup slack of -3.333 ns"
    )
    # The tools were content with a lower clock than the file's.
    low, (note,) = calibrated_board(replace(record_of(design, clock_mhz=120.0), clock_hz=100_000_000), BOARD)
    assert low == BOARD
    assert note == "the built design asked for 100 MHz, which says nothing about the board file's 150"
    assert calibrated_board(record_of(design, clock_mhz=400.0), BOARD) == (BOARD, ())
    assert calibrated_board(record_of(design, lut=100.0), BOARD) == (BOARD, ())


def test_a_build_that_missed_its_clock_is_refused_unless_it_is_asked_for(design: Design, tmp_path: Path) -> None:
    folder = project(tmp_path, timing=timing(slack=-0.833))
    with pytest.raises(
        ReportError,
        match=r"must meet its clock, and the built design asked for 149\.993 MHz and met 133\.3, with a worst setup "
        r"slack of -0\.833 ns: --missed-timing imports it as one of the lower clock$",
    ):
        import_reports(folder, design, BOARD)
    record = import_reports(folder, design, BOARD, missed_timing=True)
    assert calibrated_board(record, BOARD)[0].clock_hz == pytest.approx(1e9 / 7.5, abs=1)
    assert Calibration.loads(record.dumps()).missed_timing == record.missed_timing
    for slack in (0.0, 0.667):
        assert not import_reports(project(tmp_path, timing=timing(slack=slack)), design, BOARD).missed_timing


def test_records_of_other_boards_and_damaged_ones_are_refused(design: Design) -> None:
    with pytest.raises(DesignError, match="zcu104"):
        apply_calibration(record_of(design, lut=1.0), load_board("zcu104"), ESTIMATES)
    good = record_of(design, lut=1.0).dumps()
    for wrong, words in (
        ("{", "import-reports"),
        ("[]", "an object, and it is none"),
        ("{}", "import-reports` writes, and it is not: it has no 'schema'"),
        (good.replace('"schema": 1', '"schema": 9'), "schema 1"),
        (good.replace('"reported": 1.0', '"reported": -1'), "at least 0"),
        (good.replace('"reported": 1.0', '"reported": NaN'), "at least 0"),
        (good.replace('"t_p": 7', '"t_p": 0'), "t_p"),
    ):
        with pytest.raises(DesignError, match=words):
            Calibration.loads(wrong)
