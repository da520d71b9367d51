"""The report of one exploration: roofline, utilisation by layer and batch, Pareto front, memory. One self-contained HTML file."""

from __future__ import annotations

from markupsafe import Markup

from dse import Exploration

from .figures import pareto_front, roofline, shares, throughput_bars
from .report import plan_map, template


def render_design_report(found: Exploration) -> str:
    """The report as HTML text."""
    board, design = found.board, found.design
    words = board.paper_words_per_cycle * board.clock_hz / 1e9
    roofs = []
    for batch in sorted({1, design.b_max}):
        layers = [
            (layer.name, found.layer_operations_per_word(index, batch), found.layer_gops(index)[batch - 1])
            for index, layer in enumerate(design.layers)
        ]
        roofs.append(Markup(roofline(layers, design.peak_gops, words, f"Roofline at batch {batch}")))
    front = found.pareto()
    best = front[0]
    return template("design.html.j2").render(
        found=found,
        design=design,
        board=board,
        throughput=Markup(throughput_bars({board.name: found.fitted_gops}, {board.name: design.peak_gops})),
        roofs=roofs,
        plan=Markup(plan_map(found)),
        front=Markup(
            pareto_front(
                [(row["latency_1_ms"], row["objective_gops"], row["dsp"]) for row in front],
                (best["latency_1_ms"], best["objective_gops"]),
                f"Pareto front of the paper model, {len(front)} of {len(found.ranking)} designs: objective (sum of GOP/s over batch sizes)",
            )
        ),
        memory=Markup(shares(_memory(found), "On-chip resources of the built design, per cent of the device")),
    )


def _memory(found: Exploration) -> dict[str, dict[str, float]]:
    resources = found.fitted_resources
    parts = {"DSP": {"PE array": resources["dsp"]["percent"]}}
    available = resources["ramb18"]["available"]
    parts["RAMB18"] = {name: 100 * count / available for name, count in found.fit.parts.items()}
    if "uram288" in resources:
        parts["URAM288"] = {"accumulators": resources["uram288"]["percent"]}
    return parts
