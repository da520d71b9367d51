"""The page of one exploration (`dse --report`): speed, exits, layers, roofline, device, other designs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fluidnpu.dse import Exploration
from fluidnpu.dse.hardware import predicted_clock, told_clock
from fluidnpu.dse.resources import ram_bits
from fluidnpu.scheduler.comparison import design_capacity
from fluidnpu.studies.drawing import inline_figure, inline_panels, page_template

from .. import words
from ..quantities import plain
from .device_pictures import USES, clock_ruler, floorplan, slice_columns, slices_beside, uses_of
from .figures import WALLS, RoofPoint, heat_map, pareto_front, roofline, speed_panels
from .layer_times import layer_times, roof_of, shown_times
from .unchecked import list_unchecked

ALTERNATIVES = 12  # rows of the table beside the Pareto front
RESOURCES = {"dsp": "DSP", "ramb18": "BRAM", "uram288": "URAM", "lut": "LUT", "ff": "FF"}
WORDS = (
    "array",
    "batch",
    "frames/s",
    "requests/s",
    "ms a batch",
    "limited by",
    *WALLS,
    "GOP/s",
    "busy MAC eff.",
    "exit",
    "rate",
    "DSP",
    "RAM",
    "FBCB",
    "row block B_R",
    "lanes",
)


def render_design_report(exploration: Exploration, *, explained: Sequence[str] = (), published: bool = False) -> str:
    """Render the page as HTML text.

    `explained`: sentences on how the design was found, beside its notes. `published`: the publication has a
    design for this network and board, so that the page compares with it.
    """
    board, design = exploration.board, exploration.design
    batches = sorted({1, design.b_max})
    columns, predicted = slice_columns(exploration), predicted_clock(board)
    clock = told_clock(board, design.facts)
    rates, resources = full_batch_rates(exploration), _resource_rows(exploration)
    return page_template(__package__, "design.html.j2").render(
        exploration=exploration,
        design=design,
        board=board,
        tiles=list(_tiles(exploration, clock, resources)),
        speed=inline_panels(speed_panels({board.name: exploration.batch_ms}, _walls(exploration))),
        waste=exploration.waste(exploration.b_max),
        rates=rates,
        exits=_exit_rows(exploration),
        layers=[(batch, shown_times(layer_times(exploration, batch))) for batch in batches],
        limits=WALLS,
        limits_key=[(name, colour, None) for name, colour in WALLS.items()],
        roofs=inline_panels(dict(_roof(exploration, batch) for batch in batches)),
        rows=_layer_rows(exploration),
        plan=inline_figure(plan_map(exploration), "Use of the array by layer and batch size"),
        resources=resources,
        resources_key=list(dict.fromkeys((use, colour, None) for row in resources for use, colour, *_ in row["uses"])),
        floorplan=floorplan(columns) if columns else "",
        uses=uses_of(columns),
        floorplan_note=_floorplan_note(exploration),
        ruler=clock_ruler(board, predicted) if predicted else "",
        predicted=predicted,
        clock=clock,
        map=_memory_map(exploration),
        front=_front(exploration),
        alternatives=_alternatives(exploration),
        unchecked=list_unchecked(exploration),
        notes=list(dict.fromkeys((*exploration.notes, *explained))),
        words=words.explain_words(WORDS),
        published=published,
    )


def full_batch_rates(exploration: Exploration) -> tuple[float, ...]:
    """Return the requests a second at the exit rates where every batch is full, for each size of batch.

    Empty without rates, with one exit, and for several networks.
    """
    design = exploration.design
    if design.exit_rates is None or design.stages == 1 or exploration.question.mix:
        return ()
    reach = _reach(design.exit_rates)
    return tuple(
        1e9 * batch / sum(share * row[batch - 1] for share, row in zip(reach, design.latency.ns, strict=True))
        for batch in range(1, design.b_max + 1)
    )


def _reach(rates: Sequence[float]) -> list[float]:
    """Return the share of samples that reach each exit."""
    return [sum(rates[stage:]) for stage in range(len(rates))]


def _exit_rows(exploration: Exploration) -> list[dict[str, Any]]:
    """Return a row an exit: shares of samples that leave and reach it, and times up to it."""
    design = exploration.design
    rates = design.exit_rates
    shown = [("-", "-")] * design.stages
    if rates is not None:
        shown = [
            (f"{100 * rate:.1f} %", f"{100 * reach:.1f} %") for rate, reach in zip(rates, _reach(rates), strict=True)
        ]
    return [
        {
            "name": name,
            "leave": leave,
            "reach": reach,
            "to_here_ms": design.latency.between(0, stage, 1) / 1e6,
            "stage_ns": design.latency.ns[stage],
        }
        for stage, (name, (leave, reach)) in enumerate(zip(design.exits, shown, strict=True))
    ]


def _tiles(exploration: Exploration, clock: str, resources: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the figures that stand first: (value, meaning)."""
    most, walls, design = exploration.b_max, exploration.walls(exploration.b_max), exploration.design
    yield f"{exploration.frames_per_second[-1]:,.0f}", f"frames/s, whole network, batches of {most}"
    if design.stages > 1 and (capacity := design_capacity(design)) is not None:
        yield f"{capacity:,.0f}", "requests/s at the exit rates, predicted capacity"
    yield f"{plain(exploration.batch_ms[0], 3)} ms", "one image through the whole network"
    if walls is not None:
        yield walls.first, f"limits batches of {most}: {100 * getattr(walls, walls.first):.0f} % of the cycles"
    value, _, origin = clock.partition(" (")
    yield value, f"clock: {origin.rstrip(')')}"
    fullest = max(resources, key=lambda row: float(row["percent"]))
    yield f"{fullest['percent']:.0f} %", f"of {fullest['name']}, the fullest resource of the device"


def _roof(exploration: Exploration, batch: int) -> tuple[str, str]:
    """Draw the layers under their roofs at a batch size: (title, SVG)."""
    design = exploration.design
    gwords_per_s = exploration.words_per_cycle * design.clock_hz / 1e9
    words_counted = "on the busiest port" if design.model == "paper" else "that memory must move"
    times = layer_times(exploration, batch)
    total = sum(time.ms for time in times)
    points = [
        RoofPoint(
            name=time.name,
            per_word=per_word,
            gops=exploration.layer_gops(time.index)[batch - 1],
            limit=time.limit,
            share=time.ms / total,
        )
        for time in times
        if (per_word := exploration.layer_operations_per_word(time.index, batch))
    ]
    title = f"Roofline at batch {batch}"
    slope = f"memory {plain(gwords_per_s, 3)} Gwords/s"
    return title, roofline(points, design.peak_gops, gwords_per_s, f"operations a word {words_counted}", slope, title)


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


def _front(exploration: Exploration) -> Any:
    """Draw the Pareto front with the design to build."""
    front = exploration.front
    figure = "bounds of the exact model" if exploration.design.model == "exact" else "paper model"
    title = (
        f"{len(front)} of {front.candidates} designs that none beats in all of these ({figure}; ringed: this design)"
    )
    weight = sum(exploration.ranking.weights)
    drawn = pareto_front([_corner(row, weight) for row in front.rows()], _chosen(exploration), title)
    return inline_figure(drawn, "Pareto front: mean GOP/s against latency, memory and LUTs")


def _corner(row: dict[str, Any], weight: float) -> tuple[float, float, float, float, float]:
    mean_gops = row["objective_gops"] / weight
    return row["latency_1_ms"], row["memory_bits"] / 1e6, row["lut"] / 1e3, mean_gops, row["dsp"]


def _chosen(exploration: Exploration) -> tuple[float, float, float, float, float]:
    """Return the same of the design to build, by its own model."""
    latency = 2e-6 * exploration.workload.macs / exploration.fitted_gops[0]
    memory = ram_bits(exploration.fit.ramb18, exploration.fit.uram288) / 1e6
    mean_gops = exploration.objective_gops / sum(exploration.ranking.weights)
    return latency, memory, exploration.fit.lut.value / 1e3, mean_gops, exploration.fit.dsp


def _alternatives(exploration: Exploration) -> list[dict[str, Any]]:
    """List designs of the front and, in its place among them, the design to build with its own figures."""
    design, chosen, weight = exploration.design, _chosen(exploration), sum(exploration.ranking.weights)
    row = {"t_r": design.t_r, "t_p": design.t_p, "t_c": design.t_c, "latency_1_ms": chosen[0], "dsp": chosen[4]}
    row |= {"memory_bits": 1e6 * chosen[1], "lut": round(1e3 * chosen[2]), "mean_gops": chosen[3]}
    shape = ("t_r", "t_p", "t_c")
    others = [other for other in exploration.front.rows(limit=ALTERNATIVES) if any(other[k] != row[k] for k in shape)]
    rows = [{**other, "mean_gops": other["objective_gops"] / weight, "chosen": False} for other in others]
    return sorted([*rows, {**row, "chosen": True}], key=lambda row: -float(row["mean_gops"]))


def _walls(exploration: Exploration) -> dict[str, list[tuple[float, float, float]]]:
    """Return the shares of the three walls at every batch size; empty where they were not counted."""
    counted = [exploration.walls(batch) for batch in range(1, exploration.b_max + 1)]
    rows = [(walls.compute, walls.tiles, walls.memory) for walls in counted if walls is not None]
    return {exploration.board.name: rows} if rows else {}


def _layer_rows(exploration: Exploration) -> list[dict[str, Any]]:
    """Return each layer that computes, and its place under the roof at the smallest and the largest batch."""
    rows, design = [], exploration.design
    for index, layer in enumerate(design.layers):
        if layer.macs and not layer.merged:
            places = []
            for batch in sorted({1, design.b_max}):
                roof, bound = roof_of(exploration, index, batch)
                gops = exploration.layer_gops(index)[batch - 1]
                intensity = exploration.layer_operations_per_word(index, batch)
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


def _resource_rows(exploration: Exploration) -> list[dict[str, Any]]:
    """Return a row a resource of the device: what is available, taken, and by which uses."""
    fit, rows = exploration.fit, []
    rams = {_use(use): count for use, count in fit.parts.items()}
    small = sum(rams.pop(use) for use in set(rams) - set(USES))
    uses = {
        "dsp": {"array": fit.array.slices, **slices_beside(exploration)},
        "ramb18": {**rams, "other": small},
        "uram288": {"accumulators": fit.uram288},
    }
    for key, share in exploration.fitted_resources.items():
        parts = uses.get(key, {"estimate": share["used"]})
        shares = [(use, USES[use], count, 100 * count / share["available"]) for use, count in parts.items() if count]
        rows.append({"name": RESOURCES[key], "uses": shares, **share})
    return rows


def _floorplan_note(exploration: Exploration) -> str:
    """Say what the picture of the columns shows, and what it does not."""
    board = exploration.board
    if not board.dsp_columns:
        return f"The file of board '{board.name}' has no columns of DSP slices (dsp_columns)."
    below = "Under a column: slices in use, and how many it has. Board files have no columns of block RAM."
    if exploration.core == "hls":
        return f"{below} The tool chooses the places of the HLS core's slices; each column shows the share of all."
    return f"{below} Places are those that the search counts with (ADR 39), not those of a placer."
