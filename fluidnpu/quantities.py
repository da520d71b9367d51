"""The quantities of our screens and of `--json`: one word, one unit and one meaning each.

Screens head their columns with the words, `--json` rounds its numbers by the digits, and
`docs/reference/quantities.md` prints the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

DIGITS = 6  # significant digits of a number whose quantity has no others


@dataclass(frozen=True, kw_only=True)
class QuantityRow:
    """One quantity: `unit`; `fields`, the names of JSON that carry it, `*` for any beginning; a `meaning`.

    `formula`: in the words of other quantities, empty where the meaning has it all. `digits`: significant
    ones in JSON.
    """

    unit: str
    fields: tuple[str, ...]
    meaning: str
    formula: str = ""
    digits: int = DIGITS


QUANTITIES = {
    "frames/s": QuantityRow(
        unit="1/s",
        fields=("frames_per_second",),
        meaning="images a second, batch after batch, each through the whole network (nobody leaves early)",
        formula="1000 B / (ms a batch)",
    ),
    "ms a batch": QuantityRow(
        unit="ms",
        fields=("batch_ms",),
        meaning="time from the first cycle of a batch to its last, through the whole network",
    ),
    "requests/s": QuantityRow(
        unit="1/s",
        fields=("capacity_per_s",),
        meaning="predicted capacity: answers a second at the exit rates, by the policy, while the queue never runs dry",
        formula="largest long-run rate of the latency table",
    ),
    "arrivals/s": QuantityRow(
        unit="1/s",
        fields=("rate_per_s", "true_rate_per_s", "solved_for_per_s"),
        meaning="requests a second that come, answered or not",
    ),
    "planned requests/s": QuantityRow(
        unit="1/s",
        fields=("value", "bound", "planned_per_s", "rate_per_s"),
        meaning="requests a second that a plan of a fleet carries within the objective, its headroom taken off",
    ),
    "measured/s": QuantityRow(
        unit="1/s",
        fields=("measured_per_s",),
        meaning="samples of the ensemble a second that simulated NPUs took for a finite set of them, links left out",
    ),
    "goodput": QuantityRow(
        unit="1/s",
        fields=("goodput_per_s",),
        meaning="answers within their objective a second, from the first arrival to the last",
    ),
    "load": QuantityRow(
        unit="0..1",
        fields=("least_load",),
        meaning="share of the time that the NPU works with every run at its best batch; at 1 no policy keeps up",
        formula="(arrivals/s) x least NPU time of a request",
    ),
    "mean GOP/s": QuantityRow(
        unit="GOP/s",
        fields=("mean_gops",),
        meaning="GOP/s averaged over batch sizes by the weights of the search",
        formula="sum(weight x GOP/s) / sum(weight)",
    ),
    "peak GOP/s": QuantityRow(
        unit="GOP/s",
        fields=("peak_gops",),
        meaning="GOP/s with every multiplier busy in every cycle: the roof that no other GOP/s passes",
        formula="2 x multipliers x clock",
    ),
    "GOP/s": QuantityRow(
        unit="GOP/s",
        fields=("gops_by_batch", "*_gops"),
        meaning="thousand million operations a second; a multiply-accumulate is two",
        formula="2 MACs x (frames/s)",
    ),
    "busy MAC eff.": QuantityRow(
        unit="%",
        fields=("busy_mac_efficiency_pct",),
        meaning="multiply-accumulates done over those that the array could do while it runs",
        formula="GOP/s / (peak GOP/s)",
        digits=5,
    ),
    "wall MAC eff.": QuantityRow(
        unit="%",
        fields=("wall_utilisation_pct",),
        meaning="multiply-accumulates done over those that the array could do in the whole time",
        formula="busy MAC eff. x NPU busy",
        digits=5,
    ),
    "average ms": QuantityRow(
        unit="ms", fields=("average_ms",), meaning="mean time from a request's arrival to its answer"
    ),
    "p99 ms": QuantityRow(
        unit="ms",
        fields=("p50_ms", "p95_ms", "p99_ms"),
        meaning="99 of 100 requests are answered within this time",
    ),
    "SLO missed": QuantityRow(
        unit="%",
        fields=("violations_pct",),
        meaning="share of requests answered after their objective, or shed",
        digits=5,
    ),
    "anytime": QuantityRow(
        unit="%",
        fields=("anytime_pct",),
        meaning="share of requests answered with an exit they had passed, since the next was too far to be in time",
        digits=5,
    ),
    "shed": QuantityRow(
        unit="%",
        fields=("shed_pct",),
        meaning="share of requests refused, since they could not be in time",
        digits=5,
    ),
    "left early": QuantityRow(
        unit="0..1",
        fields=("early",),
        meaning="share of samples that an exit before the last answers, since they pass its threshold",
        formula="1 - rate of the last exit",
    ),
    "NPU busy": QuantityRow(
        unit="%", fields=("busy_pct",), meaning="share of the time in which the NPU runs at all", digits=5
    ),
    "mean batch": QuantityRow(
        unit="requests", fields=("mean_batch",), meaning="mean number of requests in a run of the NPU"
    ),
    "accuracy": QuantityRow(
        unit="0..1; % in fields that end in _pct",
        fields=("accuracy", "*_accuracy", "accuracy_pct"),
        meaning="share of right answers; requests that were shed have no part in it",
    ),
    "points lost": QuantityRow(
        unit="% points",
        fields=("accuracy_lost_points", "cost_points"),
        meaning="points of accuracy that requests lose by leaving earlier than the exit rule says",
    ),
    "MMAC": QuantityRow(
        unit="10^6 MACs; MACs in JSON",
        fields=("macs",),
        meaning="million multiply-accumulates of one sample up to there",
    ),
    "share": QuantityRow(
        unit="0..1",
        fields=("share",),
        meaning="part of the whole: of a network's multiply-accumulates, of the requests, or of the samples",
    ),
    "rate": QuantityRow(
        unit="0..1", fields=("rate", "exit_rates", "rates"), meaning="share of samples that leaves at this exit"
    ),
    "threshold": QuantityRow(
        unit="of the exit's check",
        fields=("threshold", "thresholds"),
        meaning="confidence above which a sample leaves at this exit; the last exit takes the rest",
        digits=9,  # such a number is handed on to other commands, and single precision needs nine
    ),
    "time share": QuantityRow(
        unit="0..1", fields=("weight",), meaning="part of a device's time that a job of a plan has"
    ),
    "cost an hour": QuantityRow(
        unit="of the fleet file",
        fields=("cost_micros",),
        meaning="sum of the costs that the fleet file gives its devices; in JSON a millionth of it",
    ),
    "longest ms": QuantityRow(
        unit="ms; ns in JSON",
        fields=("latency_ns",),
        meaning="planned time of a sample at the most, queues of bunched arrivals left out",
    ),
    "compute": QuantityRow(
        unit="0..1",
        fields=("compute",),
        meaning="share of the cycles that the network would need if every multiplier always worked",
    ),
    "tiles": QuantityRow(
        unit="0..1",
        fields=("tiles",),
        meaning="share of the cycles lost since layers do not fill the array, as depthwise layers and thin ones do not",
    ),
    "memory": QuantityRow(
        unit="0..1",
        fields=("memory",),
        meaning="share of the cycles in which the array waits for inputs, weights or outputs, or is set up",
    ),
    "difference": QuantityRow(
        unit="%",
        fields=("difference_pct",),
        meaning="GOP/s of the built design over those of the published one",
        formula="100 (GOP/s built / GOP/s published - 1)",
        digits=5,
    ),
    "gap": QuantityRow(
        unit="%",
        fields=("gap_pct",),
        meaning="no design, or plan, that was left out can be better by more",
        digits=5,
    ),
    "takes": QuantityRow(
        unit="%", fields=("percent",), meaning="part of the device's DSPs, RAM, LUTs or flip-flops", digits=5
    ),
}

# Numbers whose word is the field's own.
OTHERS = {
    "scale": QuantityRow(
        unit="", fields=("scale",), meaning="factor of the preprocessing, which other commands are given", digits=9
    ),
    "percentage": QuantityRow(unit="%", fields=("*_pct",), meaning="any other share", digits=5),
    "milliseconds": QuantityRow(unit="ms", fields=("*_ms",), meaning="any other time"),
    "nanoseconds": QuantityRow(unit="ns", fields=("*_ns", "ns"), meaning="any other time, in whole numbers"),
}


def quantity_of(field: str) -> str | None:
    """Give the word of the quantity that a JSON field carries; None for a name, a text or a plain count.

    >>> quantity_of("frames_per_second"), quantity_of("exit_pct"), quantity_of("network")
    ('frames/s', 'percentage', None)
    """
    fits = (word for word, row in (QUANTITIES | OTHERS).items() for name in row.fields if fnmatchcase(field, name))
    return next(fits, None)


def round_floats(value: Any, field: str = "") -> Any:
    """Round every float of a JSON value to the digits of its quantity; what is not finite becomes None.

    An object with a `digest` and a `schema` is the content of a file and stays as it is. So do whole numbers.

    >>> round_floats({"batch_ms": [0.25889612], "busy_pct": {"mean": 12.345678, "low": math.nan}, "batch": 2})
    {'batch_ms': [0.258896], 'busy_pct': {'mean': 12.346, 'low': None}, 'batch': 2}
    """
    if isinstance(value, Mapping):
        if "schema" in value and "digest" in value:
            return dict(value)
        # The numbers of an interval are of the quantity that the interval is of.
        return {
            key: round_floats(item, field if key in ("mean", "low", "high") else key) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [round_floats(item, field) for item in value]
    if not isinstance(value, float):
        return value
    word = quantity_of(field)
    return significant(value, DIGITS if word is None else (QUANTITIES | OTHERS)[word].digits)


def significant(value: float, digits: int) -> float | None:
    """Round to significant digits; None for what is not finite.

    >>> significant(29166.6667, 4), significant(0.00123456, 3), significant(math.inf, 3)
    (29170.0, 0.00123, None)
    """
    if not math.isfinite(value):
        return None
    near = float(f"{value:.{digits}g}")
    return near if math.isfinite(near) else value  # the largest floats would be rounded up to infinity


def plain(value: float, digits: int = 5) -> str:
    """Write a number to some significant digits and without exponent; whole parts are never cut.

    >>> plain(29166.6667, 4), plain(475624.3), plain(0.0012345678, 3), plain(3000.0)
    ('29167', '475624', '0.00123', '3000')
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
