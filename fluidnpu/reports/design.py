"""The page of one exploration (`dse --report`): roofline, utilisation by layer and batch, Pareto front,
memory.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from fluidnpu.dse import Exploration, ram_bits
from fluidnpu.studies.drawing import page_template

from .figures import heat_map, pareto_front, roofline, shares, throughput_bars

ALTERNATIVES = 12  # rows of the table beside the Pareto front


def render_design_report(found: Exploration) -> str:
    """Render the page as HTML text."""
    board, design = found.board, found.design
    words = found.words_per_cycle * board.clock_hz / 1e9
    per_word = (
        "operations per word on the busiest port"
        if design.model == "paper"
        else "operations per word that memory must move"
    )
    roofs = []
    for batch in sorted({1, design.b_max}):
        layers = [
            (layer.name, found.layer_operations_per_word(index, batch), found.layer_gops(index)[batch - 1])
            for index, layer in enumerate(design.layers)
        ]
        roofs.append(Markup(roofline(layers, design.peak_gops, words, per_word, f"Roofline at batch {batch}")))
    front, figure = found.front, "bounds of the exact model" if design.model == "exact" else "paper model"
    return page_template(__package__, "design.html.j2").render(
        found=found,
        design=design,
        board=board,
        throughput=Markup(throughput_bars({board.name: found.fitted_gops}, {board.name: design.peak_gops})),
        roofs=roofs,
        plan=Markup(plan_map(found)),
        rows=_layer_rows(found, words),
        front=Markup(
            pareto_front(
                [_corner(row) for row in front.rows()],
                _chosen(found),
                f"{len(front)} of {front.candidates} designs that none beats in all of these ({figure}; ringed: the design to build): weighted GOP/s",
            )
        ),
        alternatives=front.rows(limit=ALTERNATIVES),
        map=_memory_map(found),
        memory=Markup(shares(_memory(found), "On-chip resources of the built design, per cent of the device")),
    )


def plan_map(found: Exploration) -> str:
    """Draw layers by batch sizes: the array's use in the design's cycle model, with the k and B_R that the
    FBCB holds.
    """
    design = found.design
    values, cells = [], []
    for index, row in enumerate(design.plans):
        values.append(list(found.layer_efficiency_pct(index)))
        cells.append(
            [_plan_text(design.mode(index, batch).name, plan.k.value, plan.b_r) for batch, plan in enumerate(row, 1)]
        )
    title = f"{found.board.name}: share of peak (colour), k and B_R (text) by layer and batch size"
    return heat_map(values, [layer.name for layer in design.layers], cells, title)


def _plan_text(mode: str, k: str, b_r: int) -> str:
    if mode.endswith("POOL"):
        return "pool"
    return f"k={k} B_R={b_r}" + (" lanes" if mode == "LANES" else "")


def _corner(row: dict[str, Any]) -> tuple[float, float, float, float, float]:
    return row["latency_1_ms"], row["memory_bits"] / 1e6, row["lut"] / 1e3, row["objective_gops"], row["dsp"]


def _chosen(found: Exploration) -> tuple[float, float, float, float, float]:
    """Give the same of the design to build, by its own model."""
    latency = 2e-6 * found.workload.macs / found.fitted_gops[0]
    memory = ram_bits(found.fit.ramb18, found.fit.uram288) / 1e6
    return latency, memory, found.fit.lut.value / 1e3, found.objective_gops, found.fit.dsp


def _layer_rows(found: Exploration, gwords_per_s: float) -> list[dict[str, Any]]:
    """Give each layer that computes, and its place under the roof at the smallest and the largest batch."""
    rows, design = [], found.design
    for index, layer in enumerate(design.layers):
        if layer.macs:
            places = []
            for batch in sorted({1, design.b_max}):
                intensity = found.layer_operations_per_word(index, batch)
                roof = min(design.peak_gops, intensity * gwords_per_s)
                bound = "array" if intensity * gwords_per_s >= design.peak_gops else "memory"
                gops = found.layer_gops(index)[batch - 1]
                places.append({"intensity": intensity, "gops": gops, "roof_pct": 100 * gops / roof, "bound": bound})
            rows.append({"layer": layer, "places": places})
    return rows


def _memory_map(found: Exploration) -> list[tuple[str, str, str]]:
    """List the contents of each memory: (memory, use, size)."""
    design, fit = found.design, found.fit
    rows = []
    depth = f"{design.t_r} rows of {design.acc_bits} bits"
    if fit.uram_banks:
        rows.append(("UltraRAM", f"{fit.uram_banks} accumulator banks of {depth}", f"{fit.uram288} URAM288"))
    for use, count in fit.parts.items():
        banks = f"{fit.ramb_banks} accumulator banks of {depth}" if use == "accumulators" else _use(use)
        if count:
            rows.append(("block RAM", banks, f"{count} RAMB18"))
    weights = sum(layer.p * layer.c * layer.groups for layer in design.layers if layer.macs)
    outputs = sum(layer.r * layer.c * layer.groups for layer in design.layers)
    rows.append(("DRAM", "weights, before padding to tiles", f"{2 * weights / 2**20:.1f} MiB"))
    rows.append(
        ("DRAM", "outputs of all layers, each sample in a slot of its own", f"{2 * outputs / 2**20:.1f} MiB a sample")
    )
    return rows


def _use(name: str) -> str:
    """Write a part's name for readers."""
    return name.replace("_", " ").replace("fbcb", "FBCB")


def _memory(found: Exploration) -> dict[str, dict[str, float]]:
    resources = found.fitted_resources
    parts = {"DSP": {"PE array": resources["dsp"]["percent"]}}
    available = resources["ramb18"]["available"]
    parts["RAMB18"] = {_use(name): 100 * count / available for name, count in found.fit.parts.items()}
    if "uram288" in resources:
        parts["URAM288"] = {"accumulators": resources["uram288"]["percent"]}
    parts |= {name.upper(): {"estimate": resources[name]["percent"]} for name in ("lut", "ff")}
    return parts
