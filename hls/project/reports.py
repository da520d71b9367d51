"""Parsers of Vivado's reports: csynth.xml, report_utilization, report_timing_summary. Text in, numbers out.

The formats follow public documentation (UG902 for the synthesis report, UG906 and UG835 for the other two)
and published examples; no report of a project of ours has been read yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from ..errors import ReportError


@dataclass(frozen=True, kw_only=True)
class HlsReport:
    """Estimates of the HLS tool.

    A latency is None when it depends on data, the interval when the function is not pipelined.
    """

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
    """The worst setup slack and the period of every clock."""

    device: str
    slack_ns: float
    periods_ns: Mapping[str, float]


_HLS_NAMES = {"BRAM_18K": "ramb18", "DSP48E": "dsp", "DSP": "dsp", "FF": "ff", "LUT": "lut", "URAM": "uram288"}


def parse_csynth(text: str, what: str = "csynth.xml") -> HlsReport:
    """Parse the XML report of csynth_design. Raises ReportError, which calls it `what`, when it is
    malformed.
    """
    if "<!" in text.replace("<!--", ""):
        raise ReportError(f"{what} must be plain XML without a document type, and it has one")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise ReportError(f"{what} must be XML, and it is not: {str(error)[:120]}") from None

    def find(path: str) -> str:
        text = root.findtext(path)
        if text is None:
            raise ReportError(f"{what} must hold {path}, and it does not")
        return text.strip()

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
    """Parse the text of report_utilization, also with -hierarchical. Raises ReportError when it is
    malformed.
    """
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
    """Parse the text of report_timing_summary. Raises ReportError when it is malformed."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.split()[:2] == ["WNS(ns)", "TNS(ns)"]), len(lines))
    rows = [line.split() for line in lines[head + 1 : head + 4] if line.strip()]
    values = next((cells for cells in rows if not cells[0].startswith("---")), None)
    if values is None:
        raise ReportError(f"{what} must hold the design timing summary of report_timing_summary, and it does not")
    clock = re.compile(r"^\s*(\S+)\s+\{[^}]*\}\s+([\d.]+)\s+[\d.]+\s*$")
    periods = {m[1]: _number(m[2], f"the period of {m[1]}", what) for m in map(clock.match, lines) if m}
    return Timing(device=_device(text, what), slack_ns=_number(values[0], "WNS", what), periods_ns=periods)


def _device(text: str, what: str) -> str:
    device = re.search(r"^\|\s*Device\s*:\s*(\S+)", text, flags=re.MULTILINE)
    if not device:
        raise ReportError(f"{what} must name its device, and it does not")
    return device[1]
