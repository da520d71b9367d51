"""The study's figures as SVG text: modes over the rate, the burst, lifetimes over idle power."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.canvas import INK, PALETTE, WIDTH, new_figure, to_svg
from ..drawing.charts import Panel, Value, curves, looks
from .modes import MODES
from .settings import IDLE_W, RATES, SLO_MS

Body = Mapping[str, Any]
DRAWN = tuple(mode for mode in MODES if mode != "full")  # its latency is off every scale


def study_figures(study: Body) -> dict[str, str]:
    """Draw every figure."""
    parts = study["parts"]
    return {"Figs. 11, 12": rates(parts["modes"]), "Fig. 10": lifetimes(parts["Fig. 10"]["lifetimes"])}


def rates(modes: Body) -> str:
    """Draw accuracy and response times over the request rate."""

    def value(mode: str, rate: float, key: str) -> Value:
        mean, low, high = modes[f"{mode}, {rate:g}"][key]
        return None if mean is None else (mean, mean if low is None else low, mean if high is None else high)

    keys = ("accuracy_pct", "average_ms", "p99_ms")
    lines = {mode: [(float(r), {key: value(mode, r, key) for key in keys}) for r in RATES] for mode in DRAWN}
    panels = (
        Panel(title="accuracy (%)", key="accuracy_pct"),
        Panel(title="mean response (ms)", key="average_ms", logarithmic=True),
        Panel(title="p99 response (ms)", key="p99_ms", logarithmic=True, line_at=SLO_MS, line_name=f"{SLO_MS} ms"),
    )
    return curves(lines, panels, "requests a second", look=looks(DRAWN), columns=3)


def lifetimes(energy: Body) -> str:
    """Draw how much longer a battery lasts than under the whole network, over idle power (modelled)."""
    figure, axes = new_figure(WIDTH, 3.2, len(energy["ratios"]))
    for axis, (rate, rows) in zip(axes, energy["ratios"].items(), strict=True):
        for index, (policy, row) in enumerate(rows.items()):
            axis.plot(IDLE_W, row, color=PALETTE[index], marker="o", markersize=3, label=policy)
        axis.set_xlabel("idle power (W), where work adds 5 W", fontsize=9, color=INK)
        axis.set_title(f"lifetime over the whole network's, {rate} (modelled)", fontsize=10, color=INK, loc="left")
        axis.legend(frameon=False, fontsize=9)
    return to_svg(figure)
