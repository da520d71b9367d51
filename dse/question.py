"""The question that a search answers, validated once: a workload, a board, and the designs to choose from.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.models import LayerShape
>>> work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=288, c=64),))
>>> question = Question(workload=work, board=load_board("zc706"), b_max=2, objective="latency", model="paper")
>>> question.batch_weights, question.batches
((1.0, 0.0), (1,))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from fluidnpu.boards import Board, Dram
from fluidnpu.models import LayerShape, Workload
from fluidnpu.models.graph import FilterPair

from .design import B_MAX_LIMIT, CORES, Design
from .errors import DesignError
from .hardware.array import WORD_BITS, acc_bits_for, stream_words
from .hardware.clock import at_predicted_clock
from .hardware.dram import DramModel
from .hardware.filtering import Filterings, filterings
from .hardware.pooling import Poolings, poolings

MODELS = ("exact", "paper")  # cycles of our RTL, and the publication's
LANES = (8, 16, 24, 32, 64)  # of a filter, that a search looks at where a network has pairs (ADR 70)
MOST_LANES = 128  # that may be asked for
OBJECTIVES = ("throughput", "latency")  # the sum of w_b GOP/s over batch sizes, or time at b = 1
# A quick search counts as many arrays as have this many multiply-accumulates to count, batches 1..b_max each.
QUICK_MACS, QUICK_MOST = 4_000_000_000, 8

Progress = Callable[[int, int], None]  # (steps done, steps in all)
_T = TypeVar("_T")


def check_b_max(b_max: int) -> None:
    """Raises DesignError unless b_max is a whole number in 1..B_MAX_LIMIT."""
    if not isinstance(b_max, int) or isinstance(b_max, bool) or not 1 <= b_max <= B_MAX_LIMIT:
        raise DesignError(f"b_max must be a whole number in 1..{B_MAX_LIMIT}, not {b_max!r}")


def check_weights(weights: Sequence[float] | None, b_max: int) -> tuple[float, ...]:
    """The weights w_b of Eq. 2 for b = 1..b_max, all one when None. Raises DesignError."""
    if weights is None:
        return (1.0,) * b_max
    if len(weights) != b_max:
        raise DesignError(f"there must be one weight for each of {b_max} batch sizes, not {len(weights)}")
    if any(not math.isfinite(w) or w < 0 for w in weights) or not any(weights):
        raise DesignError(f"weights must be finite, at least zero and not all zero, not {list(weights)}")
    return tuple(float(w) for w in weights)


def check_windows(workload: Workload) -> None:
    """Raises DesignError unless the window of every layer is known: a layer table has none."""
    lost = next((layer.name for layer in workload.layers if layer.window is None), None)
    if lost is not None:
        raise DesignError(
            f"the exact model needs the window of every layer, and '{lost}' has none: "
            "give the network as ONNX, or ask for the paper's model"
        )
    check_macs(workload)


def check_macs(workload: Workload) -> None:
    """Raises DesignError unless there is a multiply-accumulate to search for."""
    if not workload.macs:
        raise DesignError(f"'{workload.name}' must have at least one GEMM layer to search for, and it has none")


def side_by_side(works: Sequence[Workload]) -> Workload:
    """The layers and exits of several workloads, one after another, with stages numbered consecutively."""
    layers: list[LayerShape] = []
    filters: list[FilterPair] = []
    exits: tuple[str, ...] = ()
    for work in works:
        at = len(layers)
        filters += [replace(pair, producer=pair.producer + at, depthwise=pair.depthwise + at) for pair in work.filters]
        layers += [replace(layer, stage=layer.stage + len(exits)) for layer in work.layers]
        exits += work.exits
    name = "+".join(work.name for work in works)
    return Workload(name=name, layers=tuple(layers), exits=exits, filters=tuple(filters))


@dataclass(frozen=True, kw_only=True)
class Target:
    """A place for an NPU, its array left open: board, memory, core and the other sizes in on-chip RAM.

    `memory`: of the board's, the one that tensors live in, its first by default. `core`: one of CORES. The
    FBCB has `layers` times `b_max` words. `poolings`: of the layers whose outputs pass a pool; `filterings`
    likewise, in a filter of `lanes` lanes. `lanes` 0: beats of outputs are as wide as the memory's ports;
    others are the width of a beat even if no layer passes a filter. `activation`: some layer uses an
    activation unit.
    """

    board: Board
    memory: str | None = None
    core: str = CORES[0]
    b_max: int = 8
    layers: int = 0
    poolings: Poolings = ()
    filterings: Filterings = ()
    lanes: int = 0
    activation: bool = False
    acc_bits: int = 48
    word_bits: int = 16
    stackable: bool = True

    def __post_init__(self) -> None:
        if self.core not in CORES:
            raise DesignError(f"core must be 'hls' or 'rtl', not {self.core!r}")

    @classmethod
    def of(cls, design: Design, board: Board, core: str = CORES[0]) -> Target:
        """The place that a design was made for; its beats keep their width where it merges no pair."""
        usual = not design.has_filter and design.out_words == stream_words(board, design.memory)
        return cls(
            board=board,
            memory=design.memory,
            core=core,
            b_max=design.b_max,
            layers=design.hardware_layers,
            poolings=design.hardware_poolings,
            filterings=design.hardware_filterings,
            lanes=0 if usual else design.out_words,
            activation=design.activation is not None,
            acc_bits=design.acc_bits,
            word_bits=design.word_bits,
            stackable=design.stackable,
        )

    @property
    def bare(self) -> Target:
        """The same place for an NPU without a filter, which the smallest array leaves the least room for."""
        return replace(self, filterings=(), lanes=0)

    @property
    def ports(self) -> Dram:
        """The memory with the width of its ports. Raises BoardFileError."""
        return self.board.memory(self.memory)

    @property
    def out_words(self) -> int:
        """Words of a beat of outputs."""
        return self.lanes or stream_words(self.board, self.memory)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A workload, a board, and the designs to choose from. Raises DesignError or BoardFileError.

    `weights`: w_b of Eq. 2, b_max of them, all one by default. `objective`: "throughput", weighted over batch
    sizes, or "latency" of a single sample, which is throughput at b = 1 alone. `model`: "exact" or "paper".
    `memory`: the one of the board that tensors live in, by default its first, and of an answer the first that
    an array fits with. `core`: the one whose accumulators must fit, "hls" or "rtl". `evaluations`: arrays
    that the exact model evaluates at most, by default those of a quick search. With the model "exact" the
    board's clock becomes the predicted one where that is lower (`at_predicted_clock`); `facts` is the board
    as it came, which the design carries. The defaults are those of the command line.

    `lanes`: of the filter in which depthwise layers are merged with those before (ADR 70); 0: there is none;
    by default a search with the model "exact" looks at 0 and LANES for networks with such pairs.

    `bits`: of a word, 16 or 8 (ADR 75).

    `mix`: networks with their shares of requests, for one array that serves them all; `workload` then has
    their layers one after another (`of_mix`). Work and time are those of a request on average.
    """

    workload: Workload
    board: Board
    b_max: int = 8
    weights: tuple[float, ...] | None = None
    objective: str = OBJECTIVES[0]
    model: str = MODELS[0]
    memory: str | None = None
    core: str = CORES[0]
    acc_bits: int = 48
    evaluations: int | None = None
    lanes: int | None = None
    bits: int = 16
    mix: tuple[tuple[Workload, float], ...] = ()
    facts: Board = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mix and self.workload != side_by_side([work for work, _ in self.mix]):
            raise DesignError("the workload of a mix must be its networks side by side")
        if self.model not in MODELS:
            raise DesignError(f"model must be 'exact' or 'paper', not {self.model!r}")
        if self.model == "paper":  # which knows no pool but on its own
            object.__setattr__(self, "workload", self.workload.unmerged)
            object.__setattr__(self, "mix", tuple((work.unmerged, share) for work, share in self.mix))
        if type(self.bits) is not int or self.bits not in WORD_BITS:
            raise DesignError(f"bits of a word must be 16 or 8, not {self.bits!r}")
        if self.bits != 16 and self.model == "paper":
            raise DesignError("words must have 16 bits for the paper's model, which knows no others, not 8")
        self._check_lanes()
        _ = self.target  # looks at the core
        if self.objective not in OBJECTIVES:
            raise DesignError(f"objective must be 'throughput' or 'latency', not {self.objective!r}")
        if self.objective == "latency" and self.weights is not None:
            raise DesignError(
                "weights of batch sizes must not be given with the objective 'latency', which is that of b = 1 alone"
            )
        object.__setattr__(self, "facts", self.board)
        self.board.memory(self.memory)  # raises where there is no such memory
        if self.model == "exact":
            check_windows(self.workload)
            object.__setattr__(self, "board", at_predicted_clock(self.board))
        check_b_max(self.b_max)
        check_weights(self.weights, self.b_max)
        if self.evaluations is not None and self.evaluations < 1:
            raise DesignError(f"evaluations must be at least 1, not {self.evaluations}")

    def _check_lanes(self) -> None:
        if self.lanes is None:
            return
        if not isinstance(self.lanes, int) or isinstance(self.lanes, bool) or not 0 <= self.lanes <= MOST_LANES:
            raise DesignError(f"lanes of a filter must lie in 0..{MOST_LANES}, not {self.lanes!r}")
        if self.lanes and not self.workload.filters:
            why = "the paper's model knows no filter" if self.model == "paper" else "it has none"
            raise DesignError(
                f"lanes of a filter need a depthwise layer of '{self.workload.name}' that can be merged with the one "
                f"before, and {why}"
            )

    def with_lanes(self, lanes: int) -> Question:
        """The same question of NPUs with a filter of some lanes, or without one at 0."""
        return replace(self, lanes=lanes, board=self.facts)

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return self.bits // 8

    @property
    def of_lanes(self) -> tuple[Question, ...]:
        """The question with each number of lanes that a search tries, or itself where there is no choice."""
        if self.lanes is not None or not self.workload.filters:
            return (self,)
        return tuple(self.with_lanes(lanes) for lanes in (0, *LANES))

    @property
    def pairs(self) -> tuple[FilterPair, ...]:
        """The pairs of layers that the NPU's filter may merge; none without a filter."""
        return self.workload.filters if self.lanes else ()

    @classmethod
    def of_mix(cls, mix: Sequence[tuple[Workload, float]], board: Board, **more: Any) -> Question:
        """The question of one array for several networks; shares are scaled to sum to one.

        Raises DesignError or BoardFileError.
        """
        names, shares = [work.name for work, _ in mix], [share for _, share in mix]
        if len(mix) < 2 or len(set(names)) != len(names):
            raise DesignError(f"a mix must be of two networks or more with names of their own, not of {names}")
        if any(not math.isfinite(share) or share <= 0 for share in shares):
            raise DesignError(f"the shares of a mix must be above zero, not {shares}")
        scaled = tuple((work, share / sum(shares)) for work, share in mix)
        return cls(workload=side_by_side([work for work, _ in mix]), board=board, mix=scaled, **more)

    @cached_property
    def most_evaluations(self) -> int:
        """Arrays that the exact model counts at most; a quick search counts more of a smaller network.

        It depends on nothing but the question, so that the answer does not depend on the machine.
        """
        if self.evaluations is not None:
            return self.evaluations
        counted = max(1, self.workload.macs * self.b_max * (self.b_max + 1) // 2)
        return max(1, min(QUICK_MOST, QUICK_MACS // counted))

    @cached_property
    def macs(self) -> float:
        """Multiply-accumulates of a request: of the one network, or on average of the mix."""
        if not self.mix:
            return self.workload.macs
        return sum(share * work.macs for work, share in self.mix)

    @cached_property
    def layer_shares(self) -> tuple[float, ...]:
        """For each layer the share of requests that run it."""
        if not self.mix:
            return (1,) * len(self.workload.layers)
        return tuple(share for work, share in self.mix for _ in work.layers)

    def weighed(self, cost: Callable[[Any], _T], layers: Sequence[Any] | None = None) -> _T:
        """The cost of a request: that of all layers, or on average that of the networks of the mix.

        `layers`: something in the place of each of the workload's.
        """
        every = self.workload.layers if layers is None else layers
        if not self.mix:
            return cost(every)
        total: Any = 0  # numbers and arrays alike
        at = 0
        for work, share in self.mix:
            own_cost: Any = cost(every[at : at + len(work.layers)])
            total = total + share * own_cost
            at += len(work.layers)
        return total  # type: ignore[no-any-return]

    @cached_property
    def target(self) -> Target:
        """The place for the NPU."""
        return Target(
            board=self.board,
            memory=self.memory,
            core=self.core,
            b_max=self.b_max,
            layers=len(self.workload.layers),
            poolings=poolings(self.workload.layers),
            filterings=filterings(self.workload.filtered([pair.producer for pair in self.pairs])),
            lanes=self.lanes or 0,
            activation=any(layer.activation or layer.residual_spread for layer in self.workload.layers),
            acc_bits=min(self.acc_bits, acc_bits_for(self.bits)),
            word_bits=self.bits,
        )

    @cached_property
    def batch_weights(self) -> tuple[float, ...]:
        """The weight of each batch size 1..b_max; of "latency" that of b = 1 alone."""
        if self.objective == "latency":
            return (1.0, *(0.0,) * (self.b_max - 1))
        return check_weights(self.weights, self.b_max)

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes that weigh something."""
        return tuple(b for b, weight in enumerate(self.batch_weights, 1) if weight)

    @cached_property
    def dram(self) -> DramModel:
        """The memory behind the ports."""
        return DramModel.of(self.board, self.memory)
