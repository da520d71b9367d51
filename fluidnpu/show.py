"""How results look on a terminal: rich tables and progress bars. Text goes to standard error when `--json` owns standard output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dse import Exploration
from scheduler import Metrics

Step = Callable[[int, int], None]  # (done, in all)


def console(as_json: bool = False) -> Console:
    """Where people read: standard output, or standard error when a script reads standard output."""
    return Console(stderr=as_json, highlight=False, soft_wrap=not Console().is_terminal)


def emit(report: dict[str, Any]) -> None:
    """One object on standard output."""
    print(json.dumps(report, sort_keys=True))


@contextmanager
def progress(out: Console, label: str) -> Iterator[Step]:
    """A bar that vanishes when done; nothing where no terminal looks on."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """A table whose first `left` columns are names and whose others are numbers."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
        padding=(0, 2, 0, 0),
    )
    for index, name in enumerate(columns):
        made.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def design_table(found: Sequence[Exploration]) -> Table:
    """The published point, the design that fits, and how well the array is used, a row a board."""
    rows = []
    for one in found:
        design, resources = one.design, one.fitted_resources
        efficiency = [100 * g / design.peak_gops for g in one.fitted_gops]
        memory = " + ".join(
            f"{r['used']:.0f}/{r['available']:.0f} {name.upper()}" for name, r in resources.items() if name != "dsp"
        )
        rows.append(
            (
                one.board.name,
                str(one.published),
                f"<{design.t_r}, {design.t_p}, {design.t_c}>",
                f"{resources['dsp']['used']:.0f}/{resources['dsp']['available']:.0f}",
                memory,
                f"{one.fitted_gops[0]:.1f}..{one.fitted_gops[-1]:.1f} of {design.peak_gops:.1f}",
                f"{efficiency[0]:.0f}..{efficiency[-1]:.0f} %",
                f"{min(one.difference_pct):+.2f} %",
            )
        )
    b_max = found[0].b_max
    columns = (
        "board",
        "published <T_R, T_P, T_C>",
        "built",
        "DSP",
        "memory",
        f"GOP/s, B = 1..{b_max}",
        "busy MAC eff.",
        "against published",
    )
    return table("Designs (paper model, simulated)", columns, rows)


def serving_table(title: str, found: Sequence[Metrics], extra: dict[str, Sequence[str]] | None = None) -> Table:
    """Latency, violations and efficiency, a row a policy; `extra` adds columns."""
    extra = extra or {}
    rows = []
    for index, m in enumerate(found):
        busy = "" if m.busy_mac_efficiency_pct is None else f"{m.busy_mac_efficiency_pct:.1f} %"
        exits = " / ".join(f"{x:.1f}" for x in m.exit_pct)
        row = [
            m.policy,
            f"{m.average_ms:.3f}",
            f"{m.p99_ms:.3f}",
            f"{m.violations_pct:.1f} %",
            f"{m.mean_batch:.2f}",
            busy,
            f"{m.busy_pct:.1f} %",
            exits,
        ]
        rows.append((*row, *(column[index] for column in extra.values())))
    columns = (
        "policy",
        "average ms",
        "p99 ms",
        "SLO violations",
        "mean batch",
        "busy MAC eff.",
        "NPU busy",
        "exits %",
        *extra,
    )
    return table(title, columns, rows)
