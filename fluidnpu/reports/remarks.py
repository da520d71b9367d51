"""Remarks on a comparison of policies, without which a reader would misread its numbers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fluidnpu.scheduler import Serving
    from fluidnpu.scheduler.comparison import Comparison

SHORT = 2000  # requests a seed below which a slowly growing backlog may go unseen


def remarks(comparison: Comparison) -> list[str]:
    """Say how the numbers were made, and give warnings about load, table and length of the run."""
    runs = next(iter(comparison.metrics.values()))
    seeds, counted = len(runs), runs[0].requests
    lines = [
        f"{comparison.truth.traffic} traffic, {seeds} seed{'s' * (seeds > 1)} of {comparison.requests} requests, the "
        f"first {comparison.requests - counted} of them served but not counted"
        + (
            "; ± is the 95 % interval over seeds, in brackets where it ends at what can be"
            if seeds > 1
            else "; one seed gives no interval"
        )
    ]
    load = comparison.true_load
    lines.append(
        f"with every run at its most efficient batch the NPU would be busy {100 * load:.3g} % of the time"
        + (": no policy that answers everyone in full keeps up" if load >= 1 else "")
    )
    if comparison.coverage:
        lines.append(comparison.coverage)
    lines += falling(comparison.serving)
    if counted < SHORT and not all(map(comparison.unstable, comparison.metrics)):
        lines.append(f"with fewer than {SHORT} requests a seed a slowly growing backlog may go unseen")
    lines += [f"{name}: {note}" for name in comparison.metrics if (note := comparison.note(name))]
    return lines


def falling(serving: Serving) -> list[str]:
    """Point out batches that are quicker than smaller ones: true of a measured table perhaps, more likely a
    mistake.
    """
    places = [
        f"stage {stage} at batch {b} and {b + 1}"
        for stage, row in enumerate(serving.latency.ns, 1)
        for b, (ns, more) in enumerate(itertools.pairwise(row), 1)
        if more < ns
    ]
    return [f"in the latency table a larger batch is quicker: {', '.join(places)}"] if places else []
