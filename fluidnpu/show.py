"""Results on a terminal: rich tables and progress bars.

Text goes to standard error when `--json` owns standard output.

rich is imported where it is used, so that help answers at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fluidnpu import dse, scheduler
from fluidnpu.scheduler import simulation

if TYPE_CHECKING:
    from rich.console import Console, Group

PIPE_COLUMNS = 160  # where no terminal says how wide it is
Step = Callable[[int, int], None]  # (done, in all)


def console(as_json: bool = False) -> Console:
    """Open standard output for people, or standard error when a script reads standard output."""
    from rich.console import Console

    screen = Console(stderr=as_json, highlight=False)
    return screen if screen.is_terminal else Console(stderr=as_json, highlight=False, width=PIPE_COLUMNS)


def emit(report: dict[str, Any], *, sort: bool = True) -> None:
    """Print one object on one line of standard output, its keys sorted unless their order says something.

    A number that is not finite, such as the mean of nothing, is null.
    """
    print(json.dumps(_finite(report), sort_keys=sort, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress(out: Console, label: str) -> Iterator[Step]:
    """Show a bar that vanishes when done; nothing where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not (out.is_terminal and out.is_interactive)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Group:
    """Make a title over a table whose first `left` columns are names and whose others are numbers."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for index, name in enumerate(columns):
        made.add_column(name, justify="left" if index < left else "right")
    for row in rows:
        made.add_row(*row)
    return Group(Text(title, style="bold"), made)


def design_table(explorations: Sequence[dse.Exploration]) -> Group:
    """Show the published point, the design that fits, and the use of its array, a row a board."""
    rows = []
    for one in explorations:
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
    model, b_max = explorations[0].design.model, explorations[0].b_max
    columns = (
        "board",
        "published",
        "built",
        "DSP",
        "memory",
        f"GOP/s, B = 1 .. {b_max}",
        "busy MAC eff.",
        "vs published" if model == "paper" else "vs published (paper model)",
    )
    return table(f"Designs ({model} model, simulated)", columns, rows, left=3)


def _memories(resources: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Give RAM kinds by their short names."""
    return {kind: resources[key] for kind, key in (("BRAM", "ramb18"), ("URAM", "uram288")) if key in resources}


def serving_table(
    title: str, served: Sequence[scheduler.Metrics], extra: Mapping[str, Sequence[str]] | None = None
) -> Group:
    """Show latency, violations and efficiency, a row a policy; `extra` adds columns."""
    extra = extra or {}
    rows = []
    for index, m in enumerate(served):
        efficiency = number(m.busy_mac_efficiency_pct, ".1f", " %")
        latencies = (number(m.average_ms, ".3f"), number(m.p99_ms, ".3f"))
        row = (m.policy, *latencies, f"{m.violations_pct:.1f} %", f"{m.mean_batch:.2f}")
        rows.append((*row, efficiency, f"{m.busy_pct:.1f} %", *(column[index] for column in extra.values())))
    columns = ("policy", "average ms", "p99 ms", "SLO missed", "mean batch", "busy MAC eff.", "NPU busy", *extra)
    return table(title, columns, rows)


def number(value: float | None, form: str, unit: str = "") -> str:
    """Write a number, or a dash where there is none.

    >>> number(12.34, ".1f", " %"), number(math.nan, ".1f", " %"), number(None, ".1f")
    ('12.3 %', '-', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value:{form}}{unit}"


def plus_minus(value: simulation.Interval, digits: int | None = None) -> str:
    """Write `12.3 ± 0.4`, with three significant digits of the mean at least, and no half where there is one
    seed.

    Where the interval ends at what the quantity can be, both ends are written.

    >>> plus_minus(simulation.Interval(0.34567, 0.012)), plus_minus(simulation.Interval(118.31, 7.1))
    ('0.346 ± 0.012', '118.3 ± 7.1')
    >>> plus_minus(simulation.Interval(0.5, 9.75, least=0.0, most=100.0), 1)
    '0.5 (0.0 to 10.2)'
    """
    if not math.isfinite(value.mean):
        return "-"
    if digits is None:
        digits = min(6, max(1, 2 - math.floor(math.log10(abs(value.mean))))) if value.mean else 1
    if not math.isfinite(value.half):
        return f"{value.mean:.{digits}f}"
    if value.mean - value.half < value.low or value.mean + value.half > value.high:
        return f"{value.mean:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"
    return f"{value.mean:.{digits}f} ± {value.half:.{digits}f}"
