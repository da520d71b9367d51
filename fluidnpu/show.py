"""Results on a terminal: rich tables and progress bars.

Text goes to standard error when `--json` owns standard output.

rich is imported where it is used, so that help answers at once.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fluidnpu import dse, scheduler
from fluidnpu.scheduler import comparison, simulation

from .quantities import round_floats
from .words import explain_words

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group, RenderableType
    from rich.table import Table

PIPE_COLUMNS = 160  # where neither a terminal nor COLUMNS says how wide a line may be
RAMS = {"BRAM": "ramb18", "URAM": "uram288"}  # short names of the kinds of RAM
GAP = 2  # columns between two columns of a table
DOTS, LABEL = 20, 50  # of a line of progress: its dots, and columns for its words
LEAST_PROSE = 16  # columns that a column of sentences needs


class ProgressStep(Protocol):
    """Moves a progress bar: steps done, steps in all, and other words for what is going on."""

    def __call__(self, done: int, total: int, say: str = "") -> None:
        """Move the bar."""


def console(as_json: bool = False) -> Console:
    """Open standard output for people, or standard error when a script reads standard output."""
    from rich.console import Console

    screen = Console(stderr=as_json, highlight=False)
    fixed = os.environ.get("COLUMNS", "").isdigit()
    return screen if screen.is_terminal or fixed else Console(stderr=as_json, highlight=False, width=PIPE_COLUMNS)


def emit(report: dict[str, Any], *, sort: bool = True) -> None:
    """Print one object on one line of standard output, its keys sorted unless their order says something.

    Numbers are rounded as the table of quantities says; one that is not finite, such as the mean of nothing,
    is null.
    """
    print(json.dumps(round_floats(report), sort_keys=sort, allow_nan=False))


@contextmanager
def progress(out: Console, label: str) -> Iterator[ProgressStep]:
    """Show a bar that vanishes when done; nothing where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class RunningClock(ProgressColumn):
        """Time since the bar began; rich's own clock stops at the last step, behind which work may go on."""

        def render(self, task: Task) -> Text:
            return Text(str(timedelta(seconds=int(task.elapsed or 0))), style="progress.elapsed")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RunningClock())
    with Progress(*columns, console=out, transient=True, disable=not (out.is_terminal and out.is_interactive)) as bar:
        task = bar.add_task(label, total=None)

        def step(done: int, total: int, say: str = "") -> None:
            bar.update(task, completed=done, total=total, description=say or label)

        yield step


@contextmanager
def dotted(out: Console, label: str) -> Iterator[ProgressStep]:
    """Print a line a step: its label, a dot a twentieth of it, its seconds; in a log, too."""
    began, shown = time.monotonic(), 0

    def put(text: str, end: str = "") -> None:
        out.print(text, end=end)
        out.file.flush()

    def step(done: int, total: int, say: str = "") -> None:
        nonlocal shown
        due = min(DOTS, DOTS * done // max(total, 1))
        put("." * (due - shown))
        shown = max(shown, due)

    put(f"{label:<{LABEL}}")
    try:
        yield step
    except BaseException:
        put("", end="\n")
        raise
    put(f"{'.' * (DOTS - shown)}{time.monotonic() - began:5.0f} s", end="\n")


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, prose: Sequence[int] = ()
) -> Group:
    """Make a title over a table whose first `left` columns are names and whose others are numbers.

    Only columns of sentences, `prose`, are wrapped. Where the others do not fit side by side, the table goes
    on below, the names once more at the left.
    """
    from rich.console import Group
    from rich.text import Text

    return Group(Text(title, style="bold"), Folded(columns, rows, left, frozenset(prose)))


class Folded:
    """A table that folds into several below one another where it is wider than the screen."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, prose: frozenset[int] = frozenset()
    ) -> None:
        self.columns, self.rows, self.left, self.prose = columns, rows, left, prose

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for number, part in enumerate(self.parts(options.max_width)):
            if number:
                yield ""
            yield self._table(part)

    def parts(self, width: int) -> list[list[int]]:
        """Give the columns of each table, so that none is wider than `width`.

        >>> rows = [("a", "1" * 20, "2" * 20, "3")]
        >>> Folded(("name", "x", "y", "z"), rows, 1).parts(32)
        [[0, 1], [0, 2, 3]]
        """
        names = list(range(min(self.left, len(self.columns))))
        # Names that leave no room for a number stay on the first table alone; the first one tells the rows.
        again = names if self._width(names) <= width // 2 else names[:1]
        parts, part = [], list(names)
        for index in range(len(names), len(self.columns)):
            if self._width([*part, index]) > width and (len(part) > len(again)):
                parts.append(part)
                part = list(again)
            part.append(index)
        return [*parts, part]

    def _width(self, indices: Sequence[int]) -> int:
        from rich.text import Text

        widths = [
            LEAST_PROSE
            if index in self.prose
            else max(
                Text.from_markup(text).cell_len for text in (self.columns[index], *(row[index] for row in self.rows))
            )
            for index in indices
        ]
        return sum(widths) + GAP * max(0, len(widths) - 1)

    def _table(self, indices: Sequence[int]) -> Table:
        from rich.table import Table

        made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0))
        for index in indices:
            justify: Literal["left", "right"] = "left" if index < self.left or index in self.prose else "right"
            made.add_column(self.columns[index], justify=justify, no_wrap=index not in self.prose, overflow="fold")
        for row in self.rows:
            made.add_row(*(row[index] for index in indices))
        return made


def explain(out: Console, columns: Sequence[str]) -> None:
    """Print a sentence for each word of a screen that has one."""
    out.print()
    out.print(table("What the words mean", ("word", "meaning"), explain_words(columns), left=2, prose=(1,)))


def design_report(exploration: dse.Exploration, *, front: bool = True) -> dict[str, Any]:
    """Give an exploration in plain JSON types, with the predicted capacity of its design or of each part."""
    report = exploration.to_json(front=front)
    report["capacity_per_s"] = comparison.design_capacity(exploration.design)
    for row, part in zip(report.get("mix", ()), exploration.parts, strict=True):
        row["capacity_per_s"] = comparison.design_capacity(part.design)
    return report


def design_table(explorations: Sequence[dse.Exploration]) -> Group:
    """Show the design to build and what it reaches, a row a board."""
    rows = []
    for exploration in explorations:
        design, resources, walls = exploration.design, exploration.fitted_resources, exploration.walls(1)
        rows.append(
            (
                exploration.board.name,
                point(design),
                str(design.word_bits),
                f"{exploration.frames_per_second[0]:.0f}",
                f"{exploration.frames_per_second[-1]:.0f}",
                f"{exploration.batch_ms[0]:.3f}",
                "-" if walls is None else walls.first,
                f"{resources['dsp']['percent']:.0f} %",
                *(f"{ram[kind]['percent']:.0f} %" if kind in (ram := memories(resources)) else "-" for kind in RAMS),
            )
        )
    model, b_max = explorations[0].design.model, explorations[0].b_max
    frames = ("frames/s, B = 1", f"B = {b_max}")
    columns = ("board", "array", "bits", *frames, "ms, B = 1", "limited by", "DSP", *RAMS)
    return table(f"Designs (by the {model} model, simulated)", columns, rows, left=2)


def point(design: dse.Design) -> str:
    """Write the array of a design."""
    return f"<{design.t_r}, {design.t_p}, {design.t_c}>"


def memories(resources: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Give RAM kinds by their short names."""
    return {kind: resources[key] for kind, key in RAMS.items() if key in resources}


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
