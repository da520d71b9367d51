"""How results look on a terminal: rich tables and progress bars. Text goes to standard error when `--json` owns standard output."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from fluidnpu.dse import Exploration
from fluidnpu.scheduler import Interval, Metrics

PIPE_COLUMNS = 160  # where no terminal says how wide it is
Step = Callable[[int, int], None]  # (done, in all)


def console(as_json: bool = False) -> Console:
    """Where people read: standard output, or standard error when a script reads standard output."""
    found = Console(stderr=as_json, highlight=False)
    return found if found.is_terminal else Console(stderr=as_json, highlight=False, width=PIPE_COLUMNS)


def emit(report: dict[str, Any]) -> None:
    """One object on standard output; what is no finite number, such as the mean of nothing, is null."""
    print(json.dumps(_finite(report), sort_keys=True, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress(out: Console, label: str) -> Iterator[Step]:
    """A bar that vanishes when done; nothing where no terminal looks on."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not (out.is_terminal and out.is_interactive)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Group:
    """A title over a table whose first `left` columns are names and whose others are numbers."""
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for index, name in enumerate(columns):
        made.add_column(name, justify="left" if index < left else "right")
    for row in rows:
        made.add_row(*row)
    return Group(Text(title, style="bold"), made)


def design_table(found: Sequence[Exploration]) -> Group:
    """The published point, the design that fits, and how well the array is used, a row a board."""
    rows = []
    for one in found:
        design, resources = one.design, one.fitted_resources
        first, last = one.fitted_gops[0], one.fitted_gops[-1]
        rows.append(
            (
                one.board.name,
                str(one.published),
                f"<{design.t_r}, {design.t_p}, {design.t_c}>",
                f"{resources['dsp']['percent']:.1f} %",
                ", ".join(f"{r['percent']:.1f} % {kind}" for kind, r in _memories(resources).items()),
                f"{first:.1f} .. {last:.1f}",
                f"{100 * first / design.peak_gops:.1f} .. {100 * last / design.peak_gops:.1f} %",
                f"{min(one.difference_pct):+.2f} %",
            )
        )
    b_max = found[0].b_max
    columns = (
        "board",
        "published",
        "built",
        "DSP",
        "memory",
        f"GOP/s, B = 1 .. {b_max}",
        "busy MAC eff.",
        "vs published" if found[0].design.model == "paper" else "vs published (paper model)",
    )
    return table(f"Designs ({found[0].design.model} model, simulated)", columns, rows, left=3)


def _memories(resources: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """RAM kinds by their short names."""
    return {kind: resources[key] for kind, key in (("BRAM", "ramb18"), ("URAM", "uram288")) if key in resources}


def serving_table(title: str, found: Sequence[Metrics], extra: Mapping[str, Sequence[str]] | None = None) -> Group:
    """Latency, violations and efficiency, a row a policy; `extra` adds columns."""
    extra = extra or {}
    rows = []
    for index, m in enumerate(found):
        efficiency = number(m.busy_mac_efficiency_pct, ".1f", " %")
        latencies = (number(m.average_ms, ".3f"), number(m.p99_ms, ".3f"))
        row = (m.policy, *latencies, f"{m.violations_pct:.1f} %", f"{m.mean_batch:.2f}")
        rows.append((*row, efficiency, f"{m.busy_pct:.1f} %", *(column[index] for column in extra.values())))
    columns = ("policy", "average ms", "p99 ms", "SLO missed", "mean batch", "busy MAC eff.", "NPU busy", *extra)
    return table(title, columns, rows)


def number(value: float | None, form: str, unit: str = "") -> str:
    """The number, or a dash where there is none.

    >>> number(12.34, ".1f", " %"), number(math.nan, ".1f", " %"), number(None, ".1f")
    ('12.3 %', '-', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:{form}}{unit}"


def plus_minus(value: Interval, digits: int | None = None) -> str:
    """`12.3 ± 0.4`, with three significant digits of the mean at least; without the half where there is only one seed.

    >>> plus_minus(Interval(0.34567, 0.012)), plus_minus(Interval(118.31, 7.1))
    ('0.346 ± 0.012', '118.3 ± 7.1')
    """
    if not math.isfinite(value.mean):
        return "-"
    if digits is None:
        digits = min(6, max(1, 2 - math.floor(math.log10(abs(value.mean))))) if value.mean else 1
    half = f" ± {value.half:.{digits}f}" if math.isfinite(value.half) else ""
    return f"{value.mean:.{digits}f}{half}"
