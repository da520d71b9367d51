"""The findings of the demo's page, each a sentence made of numbers, true for whatever they are."""

from __future__ import annotations

from collections.abc import Sequence

from fluidnpu.dse import Exploration
from fluidnpu.scheduler.comparison import Carried

ALIKE = 0.05  # ratios nearer to one are not called more or fewer

LEAST_POINTS = 0.05  # of accuracy that are told


def board_names(designs: Sequence[Exploration]) -> list[str]:
    """Give the boards' names as their makers write them."""
    return [design.board.name.upper() for design in designs]


def rate(per_s: float) -> str:
    """Write requests a second, rounded to tens.

    >>> rate(7463.2)
    '7,460'
    """
    return f"{round(per_s, -1):,.0f}"


def listed(names: Sequence[str]) -> str:
    """List names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def headline(board: str, default: Carried, without: Carried) -> str:
    """Say what the default policy carries, beside the same policy without early exits."""
    ratio = default.interval.mean / without.interval.mean
    beside = f"{ratio:.1f} times as many as" if ratio > 1 + ALIKE else "as many as"
    beside = f"only {ratio:.2f} times as many as" if ratio < 1 - ALIKE else beside
    return f"A {board} answers {rate(default.interval.mean)} images a second in time, {beside} without early exits"


def exits_finding(name: str, leave: float, time_share: float) -> str:
    """Say how many images leave at the first exit, and after which share of the network's time."""
    return f"{100 * leave:.0f} of 100 images leave at {name}, after {100 * time_share:.0f} % of the network's time"


def price_finding(last_accuracy: float, accuracy: float) -> str:
    """Say what leaving early does to accuracy, beside the last exit for all; accuracies are shares."""
    points = 100 * (last_accuracy - accuracy)
    if abs(points) < LEAST_POINTS:
        return "Leaving early costs no accuracy"
    return f"Leaving early {'costs' if points > 0 else 'gains'} {abs(points):.1f} points of accuracy"


def loads_finding(rows: Sequence[Carried], default: Carried) -> str:
    """Say which policies carry most, and how far the default is from that; ties are told as ties."""
    best = max(rows, key=lambda row: row.interval.mean)
    tied = [row for row in rows if row is best or row.ties(best)]
    if len(tied) == len(rows):
        return "All policies carry the same load within the intervals"
    most = f"{listed([row.policy for row in tied])} {'tie and carry' if len(tied) > 1 else 'carries'} most"
    low, high = (rate(f(row.interval.mean for row in tied)) for f in (min, max))
    if default in tied:
        return f"{most}, {low if low == high else f'{low} to {high}'} requests a second"
    less = 100 * (1 - default.interval.mean / best.interval.mean)
    return f"{most}, {rate(best.interval.mean)} requests a second; {default.policy}, the default, {less:.1f} % fewer"


def merge_finding(merged: bool) -> str:
    """Say what the timeline shows."""
    if not merged:
        return "In this run no batch was halted and refilled"
    return "A batch that lost images at an exit is halted, and goes on together with newer images"


def designs_finding(designs: Sequence[Exploration]) -> str:
    """Say how full the multipliers are, and what limits one image alone."""
    full = [
        f"{one.fitted_resources['dsp']['percent']:.0f} % of the multipliers of the {name}"
        for one, name in zip(designs, board_names(designs), strict=True)
    ]
    walls = [one.walls(1) for one in designs]
    limits = list(dict.fromkeys(wall.first for wall in walls if wall is not None))
    if not limits:
        return f"The designs use {listed(full)}"
    return f"The designs use {listed(full)}; one image alone is limited by {listed(limits)}"
