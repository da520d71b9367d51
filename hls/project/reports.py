"""Reports of Vivado HLS and Vivado read back: csynth.xml, report_utilization, report_timing_summary. Text in, numbers out.

The formats follow public documentation (UG902 for the synthesis report, UG906 and UG835 for the other two) and published examples;
no report of a project of ours has been read yet. Whatever is missing or of another device is refused in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from fluidnpu.boards import Board
from fluidnpu.dse import Calibration, Design, Point, Target, fit
from fluidnpu.dse.resources import Measure

from ..core.banks import hls_ultra_banks
from ..core.render import row_distance
from ..errors import ReportError

MOST_BYTES = 1 << 26
CSYNTH = "hls/fluidnpu_core/solution1/syn/report/csynth.xml"
ARRAY = "hls/fluidnpu_core/solution1/syn/report/run_array_csynth.xml"
UTILISATION = "build/utilization.rpt"
TIMING = "build/timing.rpt"
PERIOD_TOLERANCE = 0.01  # an MMCM does not meet a period to the picosecond


@dataclass(frozen=True, kw_only=True)
class HlsReport:
    """Estimates of the HLS tool; a latency is None where it depends on data, the interval where the function is no pipeline."""

    part: str
    target_ns: float
    estimated_ns: float
    resources: Mapping[str, int]
    best_cycles: int | None
    worst_cycles: int | None
    interval: int | None = None


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Primitives of the whole design after place and route; a RAMB36 counts as two RAMB18."""

    device: str
    resources: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Worst setup slack, and the period of every clock."""

    device: str
    slack_ns: float
    periods_ns: Mapping[str, float]


_HLS_NAMES = {"BRAM_18K": "ramb18", "DSP48E": "dsp", "DSP": "dsp", "FF": "ff", "LUT": "lut", "URAM": "uram288"}


def parse_csynth(text: str, what: str = "csynth.xml") -> HlsReport:
    """The XML report of csynth_design."""
    if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
        raise ReportError(f"{what} must be plain XML without a document type, and it has one")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise ReportError(f"{what} must be XML, and it is not: {str(error)[:120]}") from None

    def find(path: str) -> str:
        found = root.findtext(path)
        if found is None:
            raise ReportError(f"{what} must hold {path}, and it does not")
        return found.strip()

    resources = {}
    for element in root.findall("AreaEstimates/Resources/*"):
        if element.tag in _HLS_NAMES:
            resources[_HLS_NAMES[element.tag]] = _whole(element.text, element.tag, what)
    latency = "PerformanceEstimates/SummaryOfOverallLatency"
    return HlsReport(
        part=find("UserAssignments/Part"),
        target_ns=_number(find("UserAssignments/TargetClockPeriod"), "the target period", what),
        estimated_ns=_number(
            find("PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod"), "the estimated period", what
        ),
        resources=resources,
        best_cycles=_cycles(root.findtext(f"{latency}/Best-caseLatency")),
        worst_cycles=_cycles(root.findtext(f"{latency}/Worst-caseLatency")),
        interval=_cycles(
            root.findtext(f"{latency}/PipelineInitiationInterval") or root.findtext(f"{latency}/Interval-max")
        ),
    )


def _whole(text: str | None, name: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,12}", (text or "").strip()):
        raise ReportError(f"{name} in {what} must be a whole number, not '{(text or '')[:40]}'")
    return int((text or "").strip())


def _number(text: str, name: str, what: str) -> float:
    if not re.fullmatch(r"-?\d{1,12}(\.\d+)?", text):
        raise ReportError(f"{name} in {what} must be a number, not '{text[:40]}'")
    return float(text)


def _cycles(text: str | None) -> int | None:
    """A latency; the tool writes words such as "undef" where it depends on data."""
    text = (text or "").strip()
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


# Columns of the hierarchical table, and rows of the flat one.
_COLUMNS = {"Total LUTs": ("lut", 1), "FFs": ("ff", 1), "RAMB36": ("ramb18", 2), "RAMB18": ("ramb18", 1), "URAM": ("uram288", 1),
            "DSP48 Blocks": ("dsp", 1), "DSP Blocks": ("dsp", 1)}  # fmt: skip
_ROWS = {"Slice LUTs": ("lut", 1), "CLB LUTs": ("lut", 1), "Slice Registers": ("ff", 1), "CLB Registers": ("ff", 1),
         "RAMB36/FIFO": ("ramb18", 2), "RAMB18": ("ramb18", 1), "URAM": ("uram288", 1), "DSPs": ("dsp", 1)}  # fmt: skip


def parse_utilization(text: str, what: str = "utilization.rpt") -> Utilisation:
    """The text of report_utilization, with or without -hierarchical: the whole design's primitives."""
    table = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.lstrip().startswith("|")
    ]
    resources: dict[str, int] = {}

    def add(name: str, times: int, cell: str, label: str) -> None:
        resources[name] = resources.get(name, 0) + times * _whole(cell, label, what)

    header = next((row for row in table if row[0] == "Instance" and "Total LUTs" in row), None)
    if header is not None:
        top = next((row for row in table if len(row) == len(header) and row[1] == "(top)"), None)
        if top is None:
            raise ReportError(f"{what} must have a row of the whole design, marked (top), and it has none")
        for label, cell in zip(header, top, strict=True):
            if label in _COLUMNS:
                add(*_COLUMNS[label], cell, label)
    else:
        seen = set()
        for row in table:
            label = row[0].rstrip("*")
            if label in _ROWS and len(row) > 2 and label not in seen:
                seen.add(label)
                add(*_ROWS[label], row[1], label)
    if not {"lut", "ff", "dsp"} <= set(resources):
        raise ReportError(f"{what} must be the text of report_utilization with LUTs, registers and DSPs, and it is not")
    return Utilisation(device=_device(text, what), resources=resources)


def parse_timing(text: str, what: str = "timing.rpt") -> Timing:
    """The text of report_timing_summary: the design's worst negative slack and its clocks."""
    lines = text.splitlines()
    found = next((i for i, line in enumerate(lines) if line.split()[:2] == ["WNS(ns)", "TNS(ns)"]), None)
    row = [line.split() for line in lines[found + 1 : found + 4] if line.strip()] if found is not None else []
    values = next((cells for cells in row if not cells[0].startswith("---")), None)
    if values is None:
        raise ReportError(f"{what} must hold the design timing summary of report_timing_summary, and it does not")
    clock = re.compile(r"^\s*(\S+)\s+\{[^}]*\}\s+([\d.]+)\s+[\d.]+\s*$")
    periods = {m[1]: _number(m[2], f"the period of {m[1]}", what) for m in map(clock.match, lines) if m}
    return Timing(device=_device(text, what), slack_ns=_number(values[0], "WNS", what), periods_ns=periods)


def _device(text: str, what: str) -> str:
    found = re.search(r"^\|\s*Device\s*:\s*(\S+)", text, flags=re.MULTILINE)
    if not found:
        raise ReportError(f"{what} must name its device, and it does not")
    return found[1]


def _check_device(device: str, board: Board, what: str) -> None:
    """Vivado writes a part with or without "xc", dashes and speed grade."""

    def plain(name: str) -> str:
        return name.lower().removeprefix("xc").replace("-", "")

    if not plain(device) or not plain(board.part).startswith(plain(device)):
        raise ReportError(f"{what} must be of {board.name}'s {board.part}, and it is of {device}")


def import_reports(project: Path | str, design: Design, board: Board) -> Calibration:
    """The record of what the tools reported of a built project; any of the reports may be missing, not all.

    Predicted are what `dse.fit` counts and estimates for the NPU, and the clock that the design asks for; reported is the whole bitstream,
    interconnects included.
    """
    folder = Path(project)
    core = "hls" if (folder / "hls").is_dir() else "rtl"
    utilisation = partial(_utilisation_measures, core=core)
    readers = (
        (CSYNTH, _hls_measures),
        (ARRAY, _array_measures),
        (UTILISATION, utilisation),
        (TIMING, _timing_measures),
    )
    present = [(folder / name, reader) for name, reader in readers if (folder / name).is_file()]
    if not present:
        raise ReportError(
            f"'{folder}' must hold a report after `make bitstream`: {CSYNTH}, {UTILISATION} or {TIMING}; it holds none"
        )
    measures: list[Measure] = []
    for path, reader in present:
        if path.stat().st_size > MOST_BYTES:
            raise ReportError(f"'{path}' must be at most {MOST_BYTES >> 20} MiB, and it is larger")
        measures += reader(path.read_text(encoding="utf-8", errors="replace"), f"'{path}'", design, board)
    return Calibration(
        design=design.digest,
        network=design.network,
        board=design.board,
        clock_hz=design.clock_hz,
        t_r=design.t_r,
        t_p=design.t_p,
        t_c=design.t_c,
        measures=tuple(measures),
    )


def _hls_measures(text: str, what: str, design: Design, board: Board) -> list[Measure]:
    report = parse_csynth(text, what)
    _check_device(report.part, board, what)
    rows = [
        _measure("hls", name, count, design.macs_per_cycle if name == "dsp" else None)
        for name, count in report.resources.items()
    ]
    rows.append(_measure("hls", "clock_mhz", 1e3 / max(report.estimated_ns, 1e-3), design.clock_hz / 1e6))
    cycles = (("best_latency_cycles", report.best_cycles), ("worst_latency_cycles", report.worst_cycles))
    return rows + [_measure("hls", name, count, None) for name, count in cycles if count is not None]


def _array_measures(text: str, what: str, design: Design, board: Board) -> list[Measure]:
    """The process that multiplies: one beat a cycle is what the latency table counts on, and a pipeline too deep would read sums too soon."""
    report = parse_csynth(text, what)
    _check_device(report.part, board, what)
    most = row_distance(design, hls_ultra_banks(design, board))
    if report.worst_cycles is not None and report.worst_cycles >= most:
        raise ReportError(
            f"{what} must tell of a pipeline of less than {most} cycles, after which rows of sums are read again, and it has {report.worst_cycles}: "
            "such a core computes with stale sums"
        )
    rows = (("array_interval_cycles", report.interval, 1.0), ("array_latency_cycles", report.worst_cycles, None))
    return [_measure("hls", name, count, predicted) for name, count, predicted in rows if count is not None]


def _utilisation_measures(text: str, what: str, design: Design, board: Board, *, core: str) -> list[Measure]:
    report = parse_utilization(text, what)
    _check_device(report.device, board, what)
    point = Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    need = fit(point, Target.of(design, board, core), buffer_words=design.buffer_words)
    predicted = {
        "dsp": need.dsp,
        "ramb18": need.ramb18,
        "uram288": need.uram288,
        "lut": need.lut.value,
        "ff": need.ff.value,
    }
    return [_measure("route", name, count, predicted.get(name)) for name, count in report.resources.items()]


def _timing_measures(text: str, what: str, design: Design, board: Board) -> list[Measure]:
    report = parse_timing(text, what)
    _check_device(report.device, board, what)
    wanted = 1e9 / design.clock_hz
    period = min(report.periods_ns.values(), key=lambda one: abs(one - wanted), default=0.0)
    if abs(period - wanted) > PERIOD_TOLERANCE * wanted:
        raise ReportError(
            f"{what} must be of the design, whose clock has {wanted:.3f} ns, and its clocks have {sorted(report.periods_ns.values())[:8]}"
        )
    return (
        [_measure("route", "clock_mhz", 1e3 / (period - report.slack_ns), design.clock_hz / 1e6)]
        if period > report.slack_ns
        else []
    )


def _measure(stage: str, quantity: str, reported: float, predicted: float | None) -> Measure:
    return Measure(
        stage=stage,
        quantity=quantity,
        reported=float(reported),
        predicted=None if predicted is None else float(predicted),
    )
