"""The page of one exploration (`dse --report`): roofline, utilisation by layer and batch, Pareto front,
memory.
"""

from __future__ import annotations

from typing import Any

from fluidnpu.dse import Exploration
from fluidnpu.dse.resources import ram_bits
from fluidnpu.studies.drawing import inline_figure, page_template

from .figures import heat_map, pareto_front, roofline, shares, speed_panels

ALTERNATIVES = 12  # rows of the table beside the Pareto front


def render_design_report(exploration: Exploration) -> str:
    """Render the page as HTML text."""
    board, design = exploration.board, exploration.design
    words = exploration.words_per_cycle * board.clock_hz / 1e9
    per_word = (
        "operations per word on the busiest port"
        if design.model == "paper"
        else "operations per word that memory must move"
    )
    roofs = []
    for batch in sorted({1, design.b_max}):
        layers = [
            (layer.name, exploration.layer_operations_per_word(index, batch), exploration.layer_gops(index)[batch - 1])
            for index, layer in enumerate(design.layers)
        ]
        roofs.append(inline_figure(roofline(layers, design.peak_gops, words, per_word, f"Roofline at batch {batch}")))
    front, figure = exploration.front, "bounds of the exact model" if design.model == "exact" else "paper model"
    return page_template(__package__, "design.html.j2").render(
        exploration=exploration,
        design=design,
        board=board,
        speed=inline_figure(speed_panels({board.name: exploration.batch_ms}, _walls(exploration))),
        waste=exploration.waste(exploration.b_max),
        roofs=roofs,
        plan=inline_figure(plan_map(exploration)),
        rows=_layer_rows(exploration, words),
        front=inline_figure(
            pareto_front(
                [_corner(row) for row in front.rows()],
                _chosen(exploration),
                f"{len(front)} of {front.candidates} designs that none beats in all of these ({figure}; ringed: the design to build): weighted GOP/s",
            )
        ),
        alternatives=_alternatives(exploration),
        map=_memory_map(exploration),
        memory=inline_figure(
            shares(_memory(exploration), "On-chip resources of the built design, per cent of the device")
        ),
    )


def plan_map(exploration: Exploration) -> str:
    """Draw layers by batch sizes: the array's use in the design's cycle model, with the k and B_R that the
    FBCB holds.
    """
    design = exploration.design
    values, cells = [], []
    for index, row in enumerate(design.plans):
        values.append(list(exploration.layer_efficiency_pct(index)))
        cells.append(
            [
                "merged"
                if design.layers[index].merged
                else _plan_text(design.mode(index, batch).name, plan.k.value, plan.b_r)
                for batch, plan in enumerate(row, 1)
            ]
        )
    title = f"{exploration.board.name}: share of peak (colour), k and B_R (text) by layer and batch size"
    return heat_map(values, [layer.name for layer in design.layers], cells, title)


def _plan_text(mode: str, k: str, b_r: int) -> str:
    if mode.endswith("POOL"):
        return "pool"
    return f"k={k} B_R={b_r}" + (" lanes" if mode == "LANES" else "")


def _corner(row: dict[str, Any]) -> tuple[float, float, float, float, float]:
    return row["latency_1_ms"], row["memory_bits"] / 1e6, row["lut"] / 1e3, row["objective_gops"], row["dsp"]


def _chosen(exploration: Exploration) -> tuple[float, float, float, float, float]:
    """Give the same of the design to build, by its own model."""
    latency = 2e-6 * exploration.workload.macs / exploration.fitted_gops[0]
    memory = ram_bits(exploration.fit.ramb18, exploration.fit.uram288) / 1e6
    return latency, memory, exploration.fit.lut.value / 1e3, exploration.objective_gops, exploration.fit.dsp


def _alternatives(exploration: Exploration) -> list[dict[str, Any]]:
    """List designs of the front and, in its place among them, the design to build with its own figures."""
    design, chosen = exploration.design, _chosen(exploration)
    row = {"t_r": design.t_r, "t_p": design.t_p, "t_c": design.t_c, "latency_1_ms": chosen[0], "dsp": chosen[4]}
    row |= {"memory_bits": 1e6 * chosen[1], "lut": round(1e3 * chosen[2]), "objective_gops": chosen[3]}
    shape = ("t_r", "t_p", "t_c")
    others = [one for one in exploration.front.rows(limit=ALTERNATIVES) if any(one[k] != row[k] for k in shape)]
    rows = [{**one, "chosen": False} for one in others] + [{**row, "chosen": True}]
    return sorted(rows, key=lambda one: -float(one["objective_gops"]))


def _walls(exploration: Exploration) -> dict[str, list[tuple[float, float, float]]]:
    """Give the shares of the three walls at every batch size; empty where they were not counted."""
    found = [exploration.walls(batch) for batch in range(1, exploration.b_max + 1)]
    shares = [(one.compute, one.tiles, one.memory) for one in found if one is not None]
    return {exploration.board.name: shares} if shares else {}


def _layer_rows(exploration: Exploration, gwords_per_s: float) -> list[dict[str, Any]]:
    """Give each layer that computes, and its place under the roof at the smallest and the largest batch."""
    rows, design = [], exploration.design
    for index, layer in enumerate(design.layers):
        if layer.macs and not layer.merged:
            places = []
            for batch in sorted({1, design.b_max}):
                intensity = exploration.layer_operations_per_word(index, batch)
                roof = min(design.peak_gops, intensity * gwords_per_s)
                bound = "array" if intensity * gwords_per_s >= design.peak_gops else "memory"
                gops = exploration.layer_gops(index)[batch - 1]
                places.append({"intensity": intensity, "gops": gops, "roof_pct": 100 * gops / roof, "bound": bound})
            rows.append({"layer": layer, "places": places})
    return rows


def _memory_map(exploration: Exploration) -> list[tuple[str, str, str]]:
    """List the contents of each memory: (memory, use, size)."""
    design, fit = exploration.design, exploration.fit
    rows = []
    depth = f"{design.t_r} rows of {design.acc_bits * design.array.chain_columns} bits"
    if fit.uram_banks:
        rows.append(("UltraRAM", f"{fit.uram_banks} accumulator banks of {depth}", f"{fit.uram288} URAM288"))
    for use, count in fit.parts.items():
        banks = f"{fit.ramb_banks} accumulator banks of {depth}" if use == "accumulators" else _use(use)
        if count:
            rows.append(("block RAM", banks, f"{count} RAMB18"))
    weights = sum(layer.p * layer.c * layer.groups for layer in design.layers if layer.macs)
    outputs = sum(layer.r * layer.c * layer.groups for layer in design.layers)
    rows.append(("DRAM", "weights, before padding to tiles", f"{design.word_bytes * weights / 2**20:.1f} MiB"))
    rows.append(
        (
            "DRAM",
            "outputs of all layers, each sample in a slot of its own",
            f"{design.word_bytes * outputs / 2**20:.1f} MiB a sample",
        )
    )
    return rows


def _use(name: str) -> str:
    """Write a part's name for readers."""
    return name.replace("_", " ").replace("fbcb", "FBCB")


def _memory(exploration: Exploration) -> dict[str, dict[str, float]]:
    resources = exploration.fitted_resources
    parts = {"DSP": {"PE array": resources["dsp"]["percent"]}}
    available = resources["ramb18"]["available"]
    parts["RAMB18"] = {_use(name): 100 * count / available for name, count in exploration.fit.parts.items()}
    if "uram288" in resources:
        parts["URAM288"] = {"accumulators": resources["uram288"]["percent"]}
    parts |= {name.upper(): {"estimate": resources[name]["percent"]} for name in ("lut", "ff")}
    return parts
