"""The answer to a question: the published optimum, and the design to build by RAM primitives."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from fluidnpu.boards import Board
from fluidnpu.models import Workload

from ..design import Design, Stack
from ..hardware.dram import faster_memories
from ..hardware.roofline import layer_words
from ..hardware.space import Point
from ..paper.model import gops, layer_ticks, memory_words
from ..paper.search import Ranking
from ..question import Question
from ..resources.fit import Fit
from .front import ParetoFront, front
from .memory import fitting
from .placing import price_of_columns
from .walls import Walls, walls, waste


@dataclass(frozen=True, kw_only=True, eq=False)
class Exploration:
    """The answer to `question`, as `fluidnpu dse` prints it.

    `ranking` holds the points of the `paper` model. `fitted_gops[b - 1]` are GOP/s of the design by its own
    model at batch b. `layer_cycles`: of every layer at every batch size, where the `exact` model counted
    them. `arrays` can be built, `evaluated` of them were counted by the `exact` model, and none of the others
    can be more than `gap_pct` per cent better. `notes` are sentences for the reader; `cautions`, the first of
    them, are of what nobody asked for: another memory than the board's first, and chains that no columns were
    held against. `part_gops`: of each network of a mix.
    """

    question: Question
    ranking: Ranking
    fitted_gops: tuple[float, ...]
    design: Design
    fit: Fit
    notes: tuple[str, ...]
    cautions: tuple[str, ...] = ()
    layer_cycles: tuple[tuple[int, ...], ...] | None = None
    arrays: int = 0
    evaluated: int = 0
    gap_pct: float = 0.0
    part_gops: tuple[tuple[float, ...], ...] = ()

    @property
    def parts(self) -> tuple[Exploration, ...]:
        """The answer for each network of a mix, alone on the array of all; empty for a network alone."""
        slices, at = [], 0
        for index, (work, _) in enumerate(self.question.mix):
            cycles = None if self.layer_cycles is None else self.layer_cycles[at : at + len(work.layers)]
            at += len(work.layers)
            slices.append(
                replace(
                    self,
                    question=replace(
                        self.question, workload=work, mix=(), lanes=self.question.lanes if work.filters else None
                    ),
                    design=self.design.part(index),
                    fitted_gops=self.part_gops[index],
                    layer_cycles=cycles,
                    part_gops=(),
                )
            )
        return tuple(slices)

    @property
    def workload(self) -> Workload:
        """The workload of the question."""
        return self.question.workload

    @property
    def board(self) -> Board:
        """The board of the question."""
        return self.question.board

    @property
    def b_max(self) -> int:
        """Largest batch size."""
        return self.question.b_max

    @property
    def objective(self) -> str:
        """Objective of the search."""
        return self.question.objective

    @property
    def core(self) -> str:
        """The core whose accumulators fit."""
        return self.question.core

    @property
    def faster_memories(self) -> list[str]:
        """Names of the board's memories that arrays fit with and that move more words a cycle."""
        faster = faster_memories(self.board, self.design.memory)
        return [name for name in fitting(self.question) if name in faster] if faster else []

    def price_of_columns(self) -> str:
        """Say what the columns of DSP slices cost; takes as long as counting two arrays."""
        if self.layer_cycles is None:
            return "what columns of DSP slices cost is counted by the exact model (--cycles exact)"
        return price_of_columns(self.question, self.fit)

    @property
    def published(self) -> Point:
        """The optimum of the `paper` model."""
        return self.ranking.best

    @property
    def published_gops(self) -> tuple[float, ...]:
        """GOP/s of the published optimum by the `paper` model at each batch size."""
        return tuple(float(x) for x in self.ranking.gops[:, int(self.ranking.order[0])])

    @property
    def difference_pct(self) -> tuple[float, ...]:
        """Per cent of its GOP/s by which the built design exceeds the published point, at each batch size."""
        return tuple(100 * (new / old - 1) for new, old in zip(self.fitted_gops, self.published_gops, strict=True))

    @property
    def published_resources(self) -> dict[str, dict[str, float]]:
        """DSPs and memory bits of the published point as Table I counts them: used, available, percent."""
        return {
            "dsp": _share(self.published.dsp, self.board.dsp),
            "memory_bits": _share(self.published.memory_bits, self.board.paper_memory_bits),
        }

    @property
    def fitted_resources(self) -> dict[str, dict[str, float]]:
        """Primitives of the design: used, available, percent; estimates have `low` and `high`, too."""
        shares = {"dsp": _share(self.fit.dsp, self.board.dsp), "ramb18": _share(self.fit.ramb18, self.board.ramb18)}
        if self.board.uram288:
            shares["uram288"] = _share(self.fit.uram288, self.board.uram288)
        for name, need, available in (("lut", self.fit.lut, self.board.lut), ("ff", self.fit.ff, self.board.ff)):
            shares[name] = _share(need.value, available) | {"low": need.low, "high": need.high}
        return shares

    @property
    def built(self) -> Point:
        """The point of the built design."""
        return self.fit.point

    @property
    def frames_per_second(self) -> tuple[float, ...]:
        """Images a second at each batch size, each through the whole network, by the design's own model.

        Of a mix, images of all networks in their shares.
        """
        return tuple(1e9 * value / (2 * self.question.macs) for value in self.fitted_gops)

    @property
    def batch_ms(self) -> tuple[float, ...]:
        """Milliseconds of a whole batch at each batch size, by the design's own model."""
        return tuple(1e3 * b / value for b, value in enumerate(self.frames_per_second, 1))

    def walls(self, batch: int) -> Walls | None:
        """Divide the cycles of a batch among the walls.

        None where the `exact` model did not count them, and of a mix, whose `parts` have their own.
        """
        return (
            None if self.layer_cycles is None or self.question.mix else walls(self.design, self._cycles(batch), batch)
        )

    def layer_walls(self, layer: int, batch: int) -> Walls | None:
        """Divide the cycles of one layer of a batch among the walls.

        None as `walls`, and of a layer that takes none, since another computes it.
        """
        if self.layer_cycles is None or self.question.mix or not self.layer_cycles[layer][batch - 1]:
            return None
        return walls(self.design, self._cycles(batch), batch, only=(layer,))

    def waste(self, batch: int) -> list[str]:
        """Sentences on layers that leave the array empty; none where the `exact` model did not count."""
        return [] if self.layer_cycles is None or self.question.mix else waste(self.design, self._cycles(batch), batch)

    def _cycles(self, batch: int) -> list[int]:
        return [row[batch - 1] for row in self.layer_cycles or ()]

    def layer_gops(self, layer: int) -> tuple[float, ...]:
        """GOP/s of the built design on one layer at each batch size; 0 for pools and what is merged."""
        shape, words = self.design.layers[layer], self.design.out_words
        if not shape.macs or shape.merged:
            return (0.0,) * self.b_max
        if self.layer_cycles is not None:
            every = enumerate(self.layer_cycles[layer], 1)
            return tuple(2e-9 * b * shape.macs * self.board.clock_hz / cycles for b, cycles in every)
        plans = enumerate(self.design.plans[layer], 1)
        lowered = self.design.lowered(layer)
        ticks = (layer_ticks(lowered, self.built, batch, words, plan.k) for batch, plan in plans)
        return tuple(gops(shape.macs, batch, t, self.board.clock_hz, words) for batch, t in enumerate(ticks, 1))

    def layer_efficiency_pct(self, layer: int) -> tuple[float, ...]:
        """Per cent of the array's peak that one layer reaches at each batch size; 0 as `layer_gops`."""
        return tuple(100 * value / self.design.peak_gops for value in self.layer_gops(layer))

    def layer_operations_per_word(self, layer: int, batch: int) -> float:
        """Operations (two a MAC) over words: the place of a layer on the roofline; 0 as `layer_gops`.

        The words are those on the busiest of the `paper` model's three ports; under the `exact` model those
        that must cross the memory's pins.
        """
        shape, plan = self.design.layers[layer], self.design.plans[layer][batch - 1]
        if shape.merged:
            return 0.0
        if self.layer_cycles is not None:
            return 2 * batch * shape.macs / layer_words(shape, batch)
        point = self.built.stacked() if plan.k is Stack.TWO else self.built
        if not shape.macs or point is None:
            return 0.0
        lowered = self.design.lowered(layer)
        return 2 * batch * shape.macs / (lowered.groups * memory_words(lowered, point, batch))

    @property
    def words_per_cycle(self) -> float:
        """Words that memory moves in a cycle at its best: the roof over `layer_operations_per_word`."""
        return (
            self.design.out_words
            if self.layer_cycles is None
            else self.question.dram.awake_words(self.question.word_bytes)
        )

    @property
    def objective_gops(self) -> float:
        """GOP/s of the design to build, weighted over batch sizes as the search weighted them."""
        return sum(w * value for w, value in zip(self.ranking.weights, self.fitted_gops, strict=True))

    @cached_property
    def front(self) -> ParetoFront:
        """The Pareto front of buildable designs; takes a second, by the `exact` model half a minute."""
        return front(self.question)

    def to_json(self, *, front: bool = True) -> dict[str, Any]:
        """Plain JSON types; without the Pareto front, which takes long, if told so.

        All at the top is of the design to build; `paper_optimum` is the best point of the `paper` model.
        """
        pareto = {"pareto_points": len(self.front), "pareto": self._pareto()} if front else {}
        return pareto | {
            "network": self.workload.name,
            "board": self.board.name,
            "model": self.design.model,
            "b_max": self.b_max,
            "objective": self.objective,
            "core": self.core,
            "weights": list(self.ranking.weights),
            "t_r": self.design.t_r,
            "t_p": self.design.t_p,
            "t_c": self.design.t_c,
            "word_bits": self.design.word_bits,
            "memory": self.design.memory,
            "port_bits": self.design.port_bits,
            "stripes": self.design.stripes,
            "buffer_words": self.design.buffer_words,
            "filter_lanes": self.fit.lanes,
            "peak_gops": self.design.peak_gops,
            "gops_by_batch": list(self.fitted_gops),
            "frames_per_second": list(self.frames_per_second),
            "batch_ms": list(self.batch_ms),
            "exit_rates": None if self.design.exit_rates is None else list(self.design.exit_rates),
            "walls": [asdict(walls) for b in range(1, self.b_max + 1) if (walls := self.walls(b))],
            "resources": self.fitted_resources,
            "ramb18_by_use": dict(self.fit.parts),
            "latency_ns": [list(row) for row in self.design.latency.ns],
            "digest": self.design.digest,
            "paper_optimum": {
                "t_r": self.published.t_r,
                "t_p": self.published.t_p,
                "t_c": self.published.t_c,
                "peak_gops": 2 * self.published.dsp * self.board.clock_hz / 1e9,
                "gops_by_batch": list(self.published_gops),
                "resources": self.published_resources,
                "points": len(self.ranking),
                "difference_pct": list(self.difference_pct),
            },
            **({"mix": self._mix()} if self.question.mix else {}),
            "search": {"arrays": self.arrays, "evaluated": self.evaluated, "gap_pct": self.gap_pct},
            "notes": list(self.notes),
        }

    def _pareto(self) -> list[dict[str, Any]]:
        """Rows of the front; `mean_gops` is the mean over batch sizes by the weights, below the roof."""
        total = sum(self.ranking.weights)
        rows = self.front.rows(limit=32)
        for row in rows:
            row["mean_gops"] = row.pop("objective_gops") / total
        return rows

    def _mix(self) -> list[dict[str, Any]]:
        return [
            {
                "network": part.workload.name,
                "share": share,
                "frames_per_second": list(part.frames_per_second),
                "batch_ms": list(part.batch_ms),
                "latency_ns": [list(row) for row in part.design.latency.ns],
            }
            for part, (_, share) in zip(self.parts, self.question.mix, strict=True)
        ]


def _share(used: int, available: int) -> dict[str, float]:
    return {"used": used, "available": available, "percent": 100 * used / available}
