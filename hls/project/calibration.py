"""Import of the tools' reports of a built project into a calibration record. Reads files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fluidnpu.boards import Board
from fluidnpu.dse import Calibration, Design, Point, Target, fit
from fluidnpu.dse.resources import Measure

from ..core.banks import hls_ultra_banks
from ..core.render import row_distance
from ..errors import ReportError
from .reports import parse_csynth, parse_timing, parse_utilization

MOST_BYTES = 1 << 26
CSYNTH = "hls/fluidnpu_core/solution1/syn/report/csynth.xml"
ARRAY = "hls/fluidnpu_core/solution1/syn/report/run_array*_csynth.xml"  # a static function's name may get a suffix
UTILISATION = "build/utilization.rpt"
TIMING = "build/timing.rpt"
PERIOD_TOLERANCE = 0.01  # an MMCM does not meet a period to the picosecond


def import_reports(project: Path | str, design: Design, board: Board, *, missed_timing: bool = False) -> Calibration:
    """Record predicted and reported numbers of a built project; some reports may be missing, not all.

    Predicted are the resources that `dse.fit` counts and estimates for the NPU, and the design's clock;
    reported is the whole bitstream, interconnects included. Raises ReportError for a report that is
    malformed, of another design, or of a build that missed its clock, unless `missed_timing` takes that as
    well.
    """
    folder = Path(project)
    core = "hls" if (folder / "hls").is_dir() else "rtl"
    readers = (
        (CSYNTH, _hls_measures),
        (ARRAY, _array_measures),
        (UTILISATION, partial(_utilisation_measures, core=core)),
        (TIMING, _timing_measures),
    )
    present = [(path, reader) for name, reader in readers for path in sorted(folder.glob(name)) if path.is_file()]
    if not present:
        raise ReportError(
            f"'{folder}' must hold a report after `make bitstream`: {CSYNTH}, {UTILISATION} or {TIMING}; it holds none"
        )
    measures: list[Measure] = []
    for path, reader in present:
        if path.stat().st_size > MOST_BYTES:
            raise ReportError(f"'{path}' must be at most {MOST_BYTES >> 20} MiB, and it is larger")
        measures += reader(path.read_text(encoding="utf-8", errors="replace"), f"'{path}'", design, board)
    record = Calibration(
        design=design.digest,
        network=design.network,
        board=design.board,
        clock_hz=design.clock_hz,
        t_r=design.t_r,
        t_p=design.t_p,
        t_c=design.t_c,
        measures=tuple(measures),
    )
    if record.missed_timing and not missed_timing:
        raise ReportError(
            f"the build in '{folder}' must meet its clock, and {record.missed_timing}: "
            "--missed-timing imports it as one of the lower clock"
        )
    return record


def _check_device(device: str, board: Board, what: str) -> None:
    """Compare parts; Vivado writes one with or without "xc", dashes and speed grade."""

    def plain(name: str) -> str:
        return name.lower().removeprefix("xc").replace("-", "")

    if not plain(device) or not plain(board.part).startswith(plain(device)):
        raise ReportError(f"{what} must be of {board.name}'s {board.part}, and it is of {device}")


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
    """The interval and depth of the array's pipeline.

    The latency table assumes an interval of one beat a cycle; a pipeline too deep would read stale sums.
    """
    report = parse_csynth(text, what)
    _check_device(report.part, board, what)
    most = row_distance(design, hls_ultra_banks(design, board))
    if report.worst_cycles is not None and report.worst_cycles >= most:
        raise ReportError(
            f"{what} must tell of a pipeline of less than {most} cycles, after which rows of sums are read again, and it "
            f"has {report.worst_cycles}: such a core computes with stale sums"
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
    """The clock met beside the one asked, which is the design's within what a clock generator can make."""
    report = parse_timing(text, what)
    _check_device(report.device, board, what)
    wanted = 1e9 / design.clock_hz
    period = min(report.periods_ns.values(), key=lambda period: abs(period - wanted), default=0.0)
    if abs(period - wanted) > PERIOD_TOLERANCE * wanted:
        raise ReportError(
            f"{what} must be of the design, whose clock has {wanted:.3f} ns, "
            f"and its clocks have {sorted(report.periods_ns.values())[:8]}"
        )
    if period <= report.slack_ns:
        return []
    return [_measure("route", "clock_mhz", 1e3 / (period - report.slack_ns), 1e3 / period)]


def _measure(stage: str, quantity: str, reported: float, predicted: float | None) -> Measure:
    return Measure(
        stage=stage,
        quantity=quantity,
        reported=float(reported),
        predicted=None if predicted is None else float(predicted),
    )
