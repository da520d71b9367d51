"""What the demo prints: network, designs, the load that each policy carries, and the images served."""

from __future__ import annotations

import textwrap

from rich.console import Console

from fluidnpu.scheduler.comparison import Carried

from ... import show
from ...reports.demo import DemoResult
from ...reports.demo_findings import exits_finding, headline, loads_finding, price_finding

WIDTH, BAR = 78, 40  # columns of a line, and of the longest bar


def print_result(screen: Console, demo: DemoResult) -> None:
    """Print the outcome of a run, within 80 columns."""
    design, answers, count = demo.designs[0].design, demo.answers, len(demo.images)
    screen.print()
    screen.print(
        show.table(
            "Designs (simulated)",
            ("board", "array", "frames/s", f"B = {design.b_max}", "ms", "limited by", "DSP", "BRAM"),
            _designs(demo),
            left=2,
        )
    )
    if design.model == "paper":
        screen.print(
            "[dim]cycles of the publication's model, which knows no waiting: those of our RTL need Numba\\n"
            "(pip install 'fluidnpu\\[design]')[/]"
        )
    screen.print(
        f"C simulation of the HLS C++ for {design.board}: {demo.csim.mismatches} mismatches in {demo.csim.outputs:,} outputs"
    )
    slo = f"{demo.slo_ns / 1e6:.2f} ms"
    screen.print(f"\n[bold]Requests/s of which 99 % are answered within {slo}[/] ({design.board}, simulated)")
    most = max(row.interval.mean for row in demo.carried)
    for exits, title in ((False, "every image goes to the last exit"), (True, "easy images leave early")):
        screen.print(f"[dim]{title}[/]")
        for row in demo.carried:
            if row.exits == exits:
                screen.print(_bar(row, most))
    ms = [design.latency.between(0, stage, 1) for stage in range(design.stages)]
    shares = [float((answers.exits == stage).mean()) for stage in range(design.stages)]
    without = demo.row(demo.default.policy, exits=False)
    for finding in (
        headline(design.board.upper(), demo.default, without),
        loads_finding([row for row in demo.carried if row.exits], demo.default),
        exits_finding(design.exits[0], shares[0], ms[0] / ms[-1]),
        price_finding(answers.last_accuracy, answers.accuracy),
    ):
        screen.print(textwrap.fill(finding, WIDTH, initial_indent="- ", subsequent_indent="  "))
    metric = next(m for m in demo.metrics if m.policy == demo.default.policy)
    screen.print(
        f"\n[bold]{count} images served by {metric.policy} at {demo.rate_per_s:.0f}/s[/] (simulated {design.board}, its driver)"
    )
    left = ", ".join(f"{name} {100 * share:.1f} %" for name, share in zip(design.exits, shares, strict=True))
    screen.print(
        f"left at {left}\n{100 - metric.violations_pct:.1f} % in time, p99 {metric.p99_ms:.2f} ms, average "
        f"{metric.average_ms:.2f} ms, batches of {metric.mean_batch:.1f}\n"
        f"accuracy {100 * answers.accuracy:.2f} % (last exit for all {100 * answers.last_accuracy:.2f} %, float "
        f"{100 * answers.float_accuracy:.2f} %)\n{count}/{count} answers equal the golden model's"
    )


def _designs(demo: DemoResult) -> list[tuple[str, ...]]:
    """Give a row a board."""
    rows: list[tuple[str, ...]] = []
    for one in demo.designs:
        resources, walls = one.fitted_resources, one.walls(1)
        rows.append(
            (
                one.board.name,
                show.point(one.design),
                f"{one.frames_per_second[0]:.0f}",
                f"{one.frames_per_second[-1]:.0f}",
                f"{one.batch_ms[0]:.3f}",
                "-" if walls is None else walls.first,
                f"{resources['dsp']['percent']:.0f} %",
                f"{resources['ramb18']['percent']:.0f} %",
            )
        )
    return rows


def _bar(row: Carried, most: float) -> str:
    """Draw what a policy carries."""
    found = row.interval
    bar = "█" * max(1, round(BAR * found.mean / most))
    return f"  {row.policy:<8}[{'cyan' if row.exits else 'dim'}]{bar:<{BAR}}[/] {round(found.mean, -1):>7,.0f} ± {found.half:.0f}"
