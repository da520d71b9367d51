"""Figures of one comparison of policies: latencies and batch sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluidnpu.studies.drawing import HALF, INK, Look, logarithmic, new_figure, to_svg

OBJECTIVE_SHOWN = 3  # times the longest latency, up to which the objective is on the picture


def latency_distribution(samples: Mapping[str, Sequence[float]], slo_ms: float, look: Mapping[str, Look]) -> str:
    """Draw the share of requests that take longer than x, a line a policy; its height at the objective:
    violations. An objective far beyond all latencies is left out.
    """
    figure, (axis,) = new_figure(*HALF)
    longest = 0.0
    for name, values in samples.items():
        ordered = sorted(values)
        n = len(ordered)
        longest = max(longest, ordered[min(n - 1, int(0.999 * n))])
        xs, ys = ordered[:: max(1, n // 1500)], range(0, n, max(1, n // 1500))
        axis.plot(
            xs, [100 * (n - y) / n for y in ys], look[name].dashes, color=look[name].colour, label=name, linewidth=1.5
        )
    axis.set_yscale("log")
    axis.set_ylim(0.1, 110)
    near = slo_ms < OBJECTIVE_SHOWN * longest
    axis.set_xlim(0, 1.1 * max(longest, slo_ms if near else 0))
    if near:
        axis.axvline(slo_ms, color=INK, linewidth=0.8, linestyle="--")
        where = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": 8}
        axis.annotate("objective", (slo_ms, 0.12), color=INK, rotation=90, **where)
    logarithmic(axis.yaxis)
    axis.set_xlabel("latency (ms)", fontsize=9, color=INK)
    axis.set_title("requests that take longer (%)", fontsize=10, color=INK, loc="left")
    axis.legend(frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)


def batch_bars(shares: Mapping[str, Sequence[float]], look: Mapping[str, Look]) -> str:
    """Draw the batch sizes that ran, in per cent of a policy's runs: a group of bars a batch size."""
    figure, (axis,) = new_figure(*HALF)
    width = 0.8 / max(len(shares), 1)
    for k, (name, values) in enumerate(shares.items()):
        xs = [b + (k - (len(shares) - 1) / 2) * width for b in range(1, len(values) + 1)]
        axis.bar(xs, values, width=width, color=look[name].colour, label=name)
    sizes = len(next(iter(shares.values())))
    axis.set_xticks(range(1, sizes + 1))
    axis.grid(False, axis="x")
    axis.set_xlabel("batch size", fontsize=9, color=INK)
    axis.set_title("runs by batch size (% of each policy's runs)", fontsize=10, color=INK, loc="left")
    axis.legend(frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)
