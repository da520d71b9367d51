"""A design point: the choices of a search, frozen, with their consequences computed. No I/O beyond JSON text.

A design is the contract between the search and everything that builds, simulates or serves. Its digest names
build folders and caches.

>>> from fluidnpu.dse.testing import tiny_design
>>> design = tiny_design()
>>> Design.loads(design.dumps()) == design
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

from fluidnpu.boards import STRIPES, Board, BoardFileError, load_board
from fluidnpu.models import Kind, LayerShape, Workload

from .errors import DesignError
from .hardware.array import Array, Mode, acc_bits_for, input_words
from .hardware.dram import DramModel
from .hardware.filtering import Filterings, FilterRoom, filter_room, filterings
from .hardware.pooling import Poolings, pool_room, poolings

SCHEMA = 4  # 2: plans limit their row blocks; 3: memory, its ports, the input buffer; 4: facts of the board
OLDER = 3  # still read; its digest covers no facts
_SHIPPED_THEN = ("zc706", "zcu104")  # boards that came with fluidnpu while files of `OLDER` were written
MEASURED = "measured"  # the model of a design whose times are those of a processor
B_MAX_LIMIT = 16  # a slot mask has 32 bits: twice the largest batch, so that new samples load while a batch runs
_ARRAY_FIELDS = ("t_r", "t_p", "t_c", "stackable", "split", "weight_slots", "out_words")  # as the file has them
_CHAIN_FIELDS = ("piece", "broken")  # likewise, absent where no chain breaks
_WORD_FIELDS = ("word_bits", "field_bits")  # likewise, absent where words have 16 bits
_CORE_PARAMETERS = ("TR", "TP", "TC", "AccBits", "WeightSlots", "OutWords", "InWords", "Stackable", "Split")
_POOL_PARAMETERS = ("PoolWindows", "PoolRows")
_FILTER_PARAMETERS = (
    "FilterKernel",
    "FilterWindows",
    "FilterRows",
    "FilterDeepRows",
    "FilterWeights",
    "FilterActivation",
)  # in the order of `FilterRoom`
_WHOLE = ("clock_hz", "b_max", "port_bits", "stripes", "buffer_words", "published_t_r")
# What networks side by side share.
_OF_THE_NPU = (
    "board",
    "facts_digest",
    "memory",
    "model",
    "core",
    "acc_bits",
    "array",
    "activation",
    "hardware",
    *_WHOLE,
)
# Fields that a file has only where they say something.
_OPTIONAL = {"joins", "parts", "hardware", "facts", "core", "activation", *_WORD_FIELDS, *_CHAIN_FIELDS}
ACTIVATIONS = ("lut", "dsp")  # where the multipliers of an activation unit lie
CORES = ("hls", "rtl")  # the one that Vivado HLS makes, and the reference core in SystemVerilog
_T = TypeVar("_T")


class Stack(str, Enum):
    """The k of Stackable PEs, as text so that 1/2 is exact."""

    __str__ = str.__str__  # as of enum.StrEnum, which Python 3.10 lacks

    HALF = "1/2"
    ONE = "1"
    TWO = "2"


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """One FBCB entry: how a layer runs at one active batch size.

    `b_r` samples are stacked along the rows of each lane (`b_r = batch`: one lane, R-batching). `row_lanes`
    puts neighbouring rows side by side instead. `block`: most beats of a row block; 0: an accumulator bank
    full.
    """

    k: Stack = Stack.ONE
    b_r: int = 1
    row_lanes: bool = False
    block: int = 0


Plans = tuple[tuple[BatchPlan, ...], ...]  # of a layer, of a batch size: the content of an FBCB


@dataclass(frozen=True, kw_only=True)
class LatencyTable:
    """Nanoseconds of each stage (rows) at each batch size (columns 1..b_max), for a scheduler.

    >>> LatencyTable(ns=((10, 15), (20, 25))).between(0, 1, 2)
    40
    """

    ns: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.ns or not self.ns[0]:
            raise DesignError("a latency table needs at least one stage and one batch size")
        for stage, row in enumerate(self.ns):
            if len(row) != len(self.ns[0]):
                raise DesignError(
                    f"latency row {stage} must have {len(self.ns[0])} batch sizes as row 0, not {len(row)}"
                )
            for batch, value in enumerate(row, 1):
                if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                    raise DesignError(
                        f"latency of stage {stage} at batch {batch} must be whole nanoseconds above zero, not {value!r}"
                    )

    @property
    def stages(self) -> int:
        """Number of stages, which is the number of exits."""
        return len(self.ns)

    @property
    def b_max(self) -> int:
        """Largest batch the table knows."""
        return len(self.ns[0])

    def between(self, first: int, last: int, batch: int) -> int:
        """Nanoseconds of stages first..last (inclusive) at a constant batch.

        Zero when first > last or the batch is empty.
        """
        return sum(self.ns[stage][batch - 1] for stage in range(first, last + 1)) if batch else 0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One network of a design that is for several: its layers and stages follow those of the parts before.

    `share`: of all requests, as the search weighed it.
    """

    network: str
    workload_digest: str
    layers: int
    stages: int
    share: float
    exit_rates: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The NPU that a network's design shares with others: the digest of their design, its layers, and the
    poolings and filterings of these.
    """

    digest: str
    layers: int
    poolings: Poolings = ()
    filterings: Filterings = ()

    def facts(self) -> dict[str, Any]:
        """The fields in plain types, as `of` reads them; what is empty is left out, as in older files."""
        rooms = {"poolings": self.poolings, "filterings": self.filterings}
        return {"digest": self.digest, "layers": self.layers} | {
            name: [list(entry) for entry in entries] for name, entries in rooms.items() if entries
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Hardware:
        """Invert `facts`, through JSON or not."""
        pools = tuple((int(columns), int(across)) for columns, across in facts.get("poolings", ()))
        filters = tuple(
            (int(columns), int(across), int(kernel), bool(table))
            for columns, across, kernel, table in facts.get("filterings", ())
        )
        return cls(digest=facts["digest"], layers=facts["layers"], poolings=pools, filterings=filters)


@dataclass(frozen=True, kw_only=True)
class Design:
    """One NPU for one workload on one board. Raises DesignError.

    `array.t_r` is the depth of an accumulator bank in rows; `published_t_r` the depth that the `paper` model
    asked for before RAM geometry was looked at (equal when nothing had to give). `memory` of the board holds
    weights and activations, behind AXI masters of `port_bits`, each spread over `stripes` ports.
    `buffer_words`: words of the input buffer, a power of two. `plans[layer][batch - 1]` is the FBCB.
    `latency` follows from `model` (`paper` or `exact`), or was `measured` on the processor that `board` names
    then, which runs the program in an NPU's place. `joins[layer]`: groups of a grouped layer that the
    array computes as one, with zeros between them (ADR 29); empty where every layer keeps its own. `core`: of
    an `exact` design the one whose cycles `latency` counts; None in files of earlier versions, whose cycles
    are those of the core in SystemVerilog, and of other models, which know no core. `activation`: where the
    multipliers of the activation units lie, `lut` or `dsp` (ADR 69); None of an NPU without one.

    `layers` are those of the search's choice: where it merged a depthwise layer with the one before, that has
    a `filtering`, and the NPU a filter of `array.out_words` lanes (ADR 70).

    `facts` is the whole record of the board, so that nobody asks for it by name (ADR 54); None for a
    processor, and for a file of an older `schema` whose board fluidnpu did not ship then.

    A design for several networks has `parts`, and its layers and stages are theirs, one after another (ADR
    40). `part` is the design of one of them, whose `hardware` is the NPU of all.
    """

    network: str
    workload_digest: str
    board: str
    clock_hz: int
    array: Array[int]
    b_max: int
    layers: tuple[LayerShape, ...]
    exits: tuple[str, ...]
    exit_rates: tuple[float, ...] | None = None
    plans: tuple[tuple[BatchPlan, ...], ...]
    latency: LatencyTable
    model: str = "paper"
    core: str | None = None
    published_t_r: int
    acc_bits: int = 48
    memory: str = "ps"
    port_bits: int = 128
    stripes: int = 1
    buffer_words: int = 1 << 15
    activation: str | None = None
    joins: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    hardware: Hardware | None = None
    facts: Board | None = field(default=None, hash=False)
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        for name in _WHOLE:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise DesignError(f"{name} must be a whole number of at least 1, not {value!r}")
        self._check_memory()
        if not 1 <= self.b_max <= B_MAX_LIMIT:
            raise DesignError(f"b_max must lie in 1..{B_MAX_LIMIT}, not {self.b_max}")
        if self.model not in ("paper", "exact", MEASURED):
            raise DesignError(f"model must be 'paper', 'exact' or 'measured', not {self.model!r}")
        if self.core not in (None, *CORES) or (self.core and self.model != "exact"):
            raise DesignError(f"core must be 'hls' or 'rtl' of an exact design, and of others none, not {self.core!r}")
        if self.activation not in (None, *ACTIVATIONS):
            raise DesignError(f"activation must be 'lut', 'dsp' or none, not {self.activation!r}")
        if not 32 <= self.acc_bits <= 48:
            raise DesignError(f"acc_bits must lie in 32..48, not {self.acc_bits}")
        if self.acc_bits > acc_bits_for(self.word_bits):
            raise DesignError(f"acc_bits must be 32 where words have {self.word_bits} bits, not {self.acc_bits}")
        if self.word_bits != 16 and self.model == "paper":
            raise DesignError("words must have 16 bits in a design of the paper's model, not 8")
        if len(self.plans) != len(self.layers):
            raise DesignError(f"plans must have one row for each of {len(self.layers)} layers, not {len(self.plans)}")
        if self.latency.stages != len(self.exits) or self.latency.b_max != self.b_max:
            raise DesignError(
                f"the latency table must be {len(self.exits)} stages by {self.b_max} batch sizes, not {self.latency.stages} by {self.latency.b_max}"
            )
        rates = self.exit_rates
        if rates is not None and (len(rates) != len(self.exits) or not all(0 <= rate <= 1 for rate in rates)):
            raise DesignError(f"exit_rates must be {len(self.exits)} shares of 0..1, not {rates}")
        self._check_joins()
        self._check_parts()
        self._check_facts()
        for layer, row in zip(self.layers, self.plans, strict=True):
            if len(row) != self.b_max:
                raise DesignError(
                    f"layer '{layer.name}' needs a plan for each of {self.b_max} batch sizes, not {len(row)}"
                )
            for batch, plan in enumerate(row, 1):
                self._check_plan(layer, batch, plan)

    def _check_memory(self) -> None:
        if self.port_bits & (self.port_bits - 1) or self.port_bits < 32:
            raise DesignError(f"port_bits must be a power of two of at least 32, not {self.port_bits}")
        if self.stripes not in STRIPES or self.port_bits < 32 * self.stripes:
            raise DesignError(
                f"stripes must be 1, 2 or 4 ports of at least 32 bits, not {self.stripes} of {self.port_bits} together"
            )
        in_words = _behind(self.array, self.port_bits).in_words
        if self.input_words != in_words:
            raise DesignError(
                f"in_words must be {in_words} behind ports of {self.port_bits} bits, not {self.input_words}"
            )
        if self.buffer_words & (self.buffer_words - 1) or self.buffer_words < 16 * self.line_words:
            raise DesignError(
                f"buffer_words must be a power of two of at least {16 * self.line_words}, not {self.buffer_words}"
            )

    def _check_joins(self) -> None:
        if self.joins and len(self.joins) != len(self.layers):
            raise DesignError(f"joins must be one number for each of {len(self.layers)} layers, not {len(self.joins)}")
        for layer, count in zip(self.layers, self.joins, strict=False):
            whole = isinstance(count, int) and not isinstance(count, bool) and count >= 1
            if not whole or layer.groups % count or (count > 1 and layer.kind is not Kind.GEMM):
                raise DesignError(f"joins of layer '{layer.name}' must divide its {layer.groups} groups, not {count!r}")
        if set(self.joins) == {1}:
            object.__setattr__(self, "joins", ())

    def _check_parts(self) -> None:
        layers, stages = (sum(getattr(part, name) for part in self.parts) for name in ("layers", "stages"))
        if self.parts and (len(self.parts) < 2 or (layers, stages) != (len(self.layers), len(self.exits))):
            raise DesignError(
                f"the networks of a design must be two or more with {len(self.layers)} layers and {len(self.exits)} "
                f"stages together, not {len(self.parts)} with {layers} and {stages}"
            )
        names = [part.network for part in self.parts]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DesignError(f"the networks of a design must have names of their own, and two are called '{twice}'")
        if self.hardware is not None and self.hardware.layers < len(self.layers):
            raise DesignError(f"the NPU must have room for {len(self.layers)} layers, not for {self.hardware.layers}")

    def _check_facts(self) -> None:
        if self.schema not in (SCHEMA, OLDER):
            raise DesignError(f"schema must be {SCHEMA}, or {OLDER} for an older file, not {self.schema!r}")
        if self.facts is None:
            return
        if self.is_measured:
            raise DesignError(
                f"a measured design must have no facts of a board, and it has those of '{self.facts.name}'"
            )
        if self.board != self.facts.name:
            raise DesignError(f"facts must be those of board '{self.board}', not of '{self.facts.name}'")
        try:
            self.facts.memory(self.memory)
        except BoardFileError as error:
            raise DesignError(str(error)) from None

    def _check_plan(self, layer: LayerShape, batch: int, plan: BatchPlan) -> None:
        where = f"layer '{layer.name}' at batch {batch}"
        if not 1 <= plan.b_r <= batch:
            raise DesignError(f"{where}: b_r must lie in 1..{batch}, not {plan.b_r}")
        if plan.k is Stack.TWO and not self.stackable:
            raise DesignError(f"{where}: k = 2 needs stackable PEs, which this design leaves out")
        if plan.k is Stack.HALF and not self.split:
            raise DesignError(f"{where}: k = 1/2 needs split trees, which this design leaves out")
        if plan.row_lanes and (plan.k is not Stack.ONE or not self.stackable):
            raise DesignError(f"{where}: row lanes need k = 1 and stackable PEs, not k = {plan.k}")
        if layer.behind is not None and plan.b_r < batch and plan.k is Stack.ONE and not plan.row_lanes:
            what = "pool" if layer.pooling is not None else "filter"
            raise DesignError(
                f"{where}: b_r must be {batch} where outputs pass a {what} in image order, not {plan.b_r}"
            )
        deepest = self.t_r // 2 if plan.k is Stack.HALF else self.t_r
        if not 0 <= plan.block <= deepest:
            raise DesignError(f"{where}: a row block must have at most {deepest} beats, not {plan.block}")

    def changed(self, **numbers: Any) -> Design:
        """The same design with other numbers, those of its array by their own names.

        Input beats follow the ports; accumulators of narrower words become narrower.

        >>> from fluidnpu.dse.testing import tiny_design
        >>> tiny_design().changed(t_p=7, port_bits=512).input_words
        32
        """
        names = (*_ARRAY_FIELDS, *_CHAIN_FIELDS, *_WORD_FIELDS)
        inside = {name: numbers.pop(name) for name in names if name in numbers}
        array = _behind(replace(self.array, **inside), numbers.get("port_bits", self.port_bits))
        acc_bits = min(self.acc_bits, acc_bits_for(array.word_bits))
        return replace(self, array=array, **{"acc_bits": acc_bits, **numbers})

    # -- the board ---------------------------------------------------------------------------------

    def on(self, board: Board) -> Design:
        """The same design with the facts of its board; one of an older file becomes one of today's schema.

        Raises DesignError for a board of another name, or without the design's memory.
        """
        return replace(self, facts=board, schema=SCHEMA)

    @property
    def known_facts(self) -> Board:
        """The facts of its board. Raises DesignError where there are none."""
        if self.facts is None:
            raise DesignError(self.lacking)
        return self.facts

    @property
    def lacking(self) -> str:
        """The sentence on a design that lacks the facts of its board."""
        return (
            f"the design of '{self.network}' must carry the facts of its board '{self.board}', and it has none, as files "
            f"before schema {SCHEMA}: give --board FILE.toml where a command takes it, or explore again with `fluidnpu dse`"
        )

    @property
    def facts_digest(self) -> str | None:
        """The digest of the board's facts (`Board.digest`); None without facts."""
        return None if self.facts is None else self.facts.digest

    @property
    def dram(self) -> DramModel:
        """The memory that the NPU reads and writes, at its clock. Raises DesignError without facts."""
        return DramModel.of(self.known_facts, self.memory, clock_hz=self.clock_hz)

    # -- the array ---------------------------------------------------------------------------------

    @property
    def is_measured(self) -> bool:
        """True when its times were measured on a processor, which serves in an NPU's place."""
        return self.model == MEASURED

    @property
    def t_r(self) -> int:
        """Rows of an accumulator bank."""
        return self.array.t_r

    @property
    def t_p(self) -> int:
        """Words of a PE's adder tree."""
        return self.array.t_p

    @property
    def t_c(self) -> int:
        """Number of PEs."""
        return self.array.t_c

    @property
    def word_bits(self) -> int:
        """Bits of a word of weights and activations: 16 or 8."""
        return self.array.word_bits

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return self.array.word_bytes

    @property
    def stackable(self) -> bool:
        """True where pairs of PEs join or make two lanes."""
        return self.array.stackable

    @property
    def split(self) -> bool:
        """True where adder trees split."""
        return self.array.split

    @property
    def weight_slots(self) -> int:
        """Slots of t_p weights in a beat."""
        return self.array.weight_slots

    @property
    def input_words(self) -> int:
        """Words of one beat of the core's input stream."""
        return self.array.in_words

    @property
    def out_words(self) -> int:
        """Words of one beat of the core's output stream."""
        return self.array.out_words

    @property
    def line_words(self) -> int:
        """Words of a line of the input buffer."""
        return self.array.line_words

    def tile(self, mode: Mode) -> tuple[int, int]:
        """Width of a P-tile in words and of a column tile in columns, as `Array.tile`."""
        return self.array.tile(mode)

    def join(self, layer: int) -> int:
        """Groups of a layer that the array computes as one."""
        return self.joins[layer] if self.joins else 1

    def lowered(self, layer: int) -> LayerShape:
        """The layer as the array runs it: with groups joined."""
        return self.layers[layer].joined(self.join(layer))

    @property
    def lowered_layers(self) -> tuple[LayerShape, ...]:
        """Every layer as the array runs it."""
        return tuple(self.lowered(index) for index in range(len(self.layers)))

    # -- consequences ---------------------------------------------------------------------------------

    def mode(self, layer: int, batch: int) -> Mode:
        """Mode of the PE array for this layer at this batch (ADR 5)."""
        shape, plan = self.layers[layer], self.plans[layer][batch - 1]
        if shape.kind is Kind.MAX_POOL:
            return Mode.MAX_POOL
        if shape.kind is Kind.SUM_POOL:
            return Mode.SUM_POOL
        if plan.k is Stack.TWO:
            return Mode.WIDE
        if plan.k is Stack.HALF:
            return Mode.SPLIT
        lanes = self.stackable and (plan.row_lanes or plan.b_r < batch)
        return Mode.LANES if lanes else Mode.NORMAL

    @property
    def port_bytes(self) -> int:
        """Bytes that a memory port carries in a cycle."""
        return self.port_bits // 8

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of the whole array in one cycle."""
        return self.array.macs

    @property
    def peak_gops(self) -> float:
        """Peak throughput in GOP/s, two operations a multiply-accumulate."""
        return 2 * self.macs_per_cycle * self.clock_hz / 1e9

    @property
    def stages(self) -> int:
        """Number of stages, which is the number of exits."""
        return len(self.exits)

    def stage_layers(self, stage: int) -> range:
        """Indices of the layers of one stage, its exit head included."""
        indices = [i for i, layer in enumerate(self.layers) if layer.stage == stage]
        return range(indices[0], indices[-1] + 1)

    def rtl_parameters(self) -> dict[str, int]:
        """Numbers for RTL, HLS `params.h` and Verilator `-G`, which all come from here.

        Those of an activation unit and of a filter are absent without one, and the width of 16-bit words; the
        RTL's own values stand for these.

        >>> from fluidnpu.dse.testing import tiny_design
        >>> tiny_design().changed(activation="dsp").rtl_parameters()["ActivationDsp"]
        1
        >>> tiny_design().with_room((), ((16, 28, 3, False),)).rtl_parameters()["FilterRows"]
        112
        """
        return {
            "TR": self.t_r,
            "TP": self.t_p,
            "TC": self.t_c,
            "BMax": self.b_max,
            "AccBits": self.acc_bits,
            "WeightSlots": self.weight_slots,
            "OutWords": self.out_words,
            "InWords": self.input_words,
            "Stackable": int(self.stackable),
            "Split": int(self.split),
            "Layers": self.hardware_layers,
            "PortBytes": self.port_bytes,
            "LineWords": self.line_words,
            "Sets": self.buffer_words // (2 * self.line_words),
            **({"WordBits": self.word_bits} if self.word_bits != 16 else {}),
            **dict(zip(_POOL_PARAMETERS, self.pool_room, strict=True)),
            **({"Activation": 1, "ActivationDsp": int(self.activation == "dsp")} if self.activation else {}),
            **(dict(zip(_FILTER_PARAMETERS, self.filter_room, strict=True)) if self.has_filter else {}),
        }

    def core_parameters(self) -> dict[str, int]:
        """Numbers for `fluidnpu_core`: its own of `rtl_parameters`, and how its chains break where they do.

        With 8-bit words also how wide the field of the lower of a chain's two sums is.

        >>> from fluidnpu.dse.testing import tiny_design
        >>> tiny_design().changed(piece=2, broken=2).core_parameters()["Piece"]
        2
        """
        numbers = {name: value for name, value in self.rtl_parameters().items() if name in _CORE_PARAMETERS}
        array = self.array
        chains = {"Piece": array.piece, "Broken": array.broken} if array.broken else {}
        fields = {} if self.word_bits == 16 else {"WordBits": self.word_bits, "FieldBits": array.field_bits}
        return numbers | chains | fields

    def matches(self, workload: Workload) -> bool:
        """Return whether this design was made for these layers and exits; names and exit rates may differ.

        The layers themselves are compared, since older files have another `workload_digest`, and no pools
        that are merged. A design has merged some of the pairs that the workload names, or none.
        """
        merged = {index for index, layer in enumerate(self.layers) if layer.filtering is not None}
        chosen = workload.filtered([pair.producer for pair in workload.filters if pair.producer in merged])
        return self.layers in (chosen, workload.unmerged.layers) and self.exits == workload.exits

    # -- several networks ---------------------------------------------------------------------------------

    @property
    def hardware_digest(self) -> str:
        """The digest that the NPU is known by: its own, or that of the design for all of its networks."""
        return self.digest if self.hardware is None else self.hardware.digest

    @property
    def hardware_layers(self) -> int:
        """Layers that the NPU's FBCB has room for."""
        return len(self.layers) if self.hardware is None else self.hardware.layers

    @property
    def hardware_poolings(self) -> Poolings:
        """Poolings that the NPU has room for."""
        return poolings(self.layers) if self.hardware is None else self.hardware.poolings

    @property
    def hardware_filterings(self) -> Filterings:
        """Filterings that the NPU has room for; none without a filter."""
        return filterings(self.layers) if self.hardware is None else self.hardware.filterings

    @property
    def has_filter(self) -> bool:
        """True where outputs can pass a depthwise filter, which has `out_words` lanes."""
        return bool(self.hardware_filterings)

    @property
    def filter_room(self) -> FilterRoom:
        """The parameters of the filter, all 0 without one."""
        return filter_room(self.hardware_filterings, self.array)

    @property
    def pool_room(self) -> tuple[int, int]:
        """Beats of the RAM for a pixel's windows and of that for a pooled row; both 0 without a pool."""
        windows, rows = pool_room(self.hardware_poolings, self.array)
        return windows, rows

    def with_room(self, pools: Poolings, filters: Filterings = ()) -> Design:
        """The same design on an NPU with room for other poolings and filterings than those of its layers."""
        npu = Hardware(digest=self.digest, layers=self.hardware_layers, poolings=pools, filterings=filters)
        return replace(self, hardware=npu)

    def part(self, index: int) -> Design:
        """The design of one of the networks: its layers, stages, plans and latencies, on the NPU of all."""
        part = self.parts[index]
        layer = sum(earlier.layers for earlier in self.parts[:index])
        stage = sum(earlier.stages for earlier in self.parts[:index])
        layers, stages = slice(layer, layer + part.layers), slice(stage, stage + part.stages)
        return replace(
            self,
            network=part.network,
            workload_digest=part.workload_digest,
            layers=tuple(replace(placed, stage=placed.stage - stage) for placed in self.layers[layers]),
            exits=self.exits[stages],
            exit_rates=part.exit_rates,
            plans=self.plans[layers],
            joins=self.joins[layers],
            latency=LatencyTable(ns=self.latency.ns[stages]),
            parts=(),
            hardware=self._npu,
        )

    @property
    def _npu(self) -> Hardware:
        """The NPU that this design runs on: its own, or that of the design of which it is a part."""
        return self.hardware or Hardware(
            digest=self.digest,
            layers=len(self.layers),
            poolings=self.hardware_poolings,
            filterings=self.hardware_filterings,
        )

    def of_stages(
        self,
        exits: Sequence[int],
        layers: Sequence[Sequence[int]],
        latency: LatencyTable,
        exit_rates: tuple[float, ...] | None,
    ) -> Design:
        """The design of a part of the network on the same NPU: its stage k runs `layers[k]` and ends at exit
        `exits[k]`.

        `latency` and `exit_rates` are of the part's stages; all samples that are left leave it at its last
        exit.
        """
        chosen = [replace(self.layers[k], stage=stage) for stage, members in enumerate(layers) for k in members]
        names, indices = tuple(self.exits[exit] for exit in exits), [k for members in layers for k in members]
        return replace(
            self,
            workload_digest=Workload(name="", layers=tuple(chosen), exits=names).digest,
            layers=tuple(chosen),
            exits=names,
            exit_rates=exit_rates,
            plans=tuple(self.plans[k] for k in indices),
            joins=tuple(self.join(k) for k in indices),
            latency=latency,
            hardware=self._npu,
        )

    def part_for(self, workload: Workload) -> Design | None:
        """The design for these layers and exits: itself, one of its parts, or None."""
        parts = [self.part(index) for index in range(len(self.parts))] or [self]
        return next((part for part in parts if part.matches(workload)), None)

    @classmethod
    def joined(cls, designs: Sequence[Design], shares: Sequence[float] | None = None) -> Design:
        """One design for several networks, the inverse of `part`; a single design is returned as it is.

        `shares` are of requests, equal ones by default. Raises DesignError where their NPUs differ.
        """
        first, *others = designs
        if not others:
            return first
        for other in others:
            odd = [name.removesuffix("_digest") for name in _OF_THE_NPU if getattr(other, name) != getattr(first, name)]
            if odd:
                raise DesignError(
                    f"networks side by side must have one NPU, and the designs of '{first.network}' and "
                    f"'{other.network}' differ in {', '.join(odd)}"
                )
        shifts = list(accumulate((design.stages for design in designs), initial=0))[:-1]
        layers = [
            replace(layer, stage=layer.stage + at) for d, at in zip(designs, shifts, strict=True) for layer in d.layers
        ]
        rates = [design.exit_rates for design in designs]
        names = [design.network for design in designs]
        return replace(
            first,
            network="+".join(names),
            workload_digest=Workload(name="", layers=tuple(layers), exits=tuple(_all(d.exits for d in designs))).digest,
            layers=tuple(layers),
            exits=tuple(_all(d.exits for d in designs)),
            exit_rates=None if None in rates else tuple(_all(rate for rate in rates if rate is not None)),
            plans=tuple(_all(d.plans for d in designs)),
            joins=tuple(_all(d.joins or (1,) * len(d.layers) for d in designs)),
            latency=LatencyTable(ns=tuple(_all(d.latency.ns for d in designs))),
            parts=tuple(
                Part(
                    network=own_design.network,
                    workload_digest=own_design.workload_digest,
                    layers=len(own_design.layers),
                    stages=own_design.stages,
                    share=share,
                    exit_rates=own_design.exit_rates,
                )
                for own_design, share in zip(designs, shares or (1 / len(names),) * len(names), strict=True)
            ),
        )

    # -- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, with schema number and digest; the array's choices stand beside the others.

        A design of an older file becomes that file again: what it is known by is on boards already.
        """
        body = asdict(self)
        schema = body.pop("schema")
        carried = self.facts if schema == SCHEMA else None
        body["facts"] = None if carried is None else carried.digest
        body["layers"] = [layer.facts() for layer in self.layers]
        if self.hardware is not None:
            body["hardware"] = self.hardware.facts()
        array = body.pop("array")
        body |= {name: array[name] for name in (*_ARRAY_FIELDS, *_CHAIN_FIELDS)}
        body |= {name: array[name] for name in _WORD_FIELDS if self.word_bits != 16}
        body["plans"] = [
            [[plan.k.value, plan.b_r, int(plan.row_lanes), plan.block] for plan in row] for row in self.plans
        ]
        body["latency"] = {"ns": [list(row) for row in self.latency.ns]}
        for name in _OPTIONAL:  # absent, as in files of earlier versions
            if not body.get(name):
                body.pop(name, None)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        facts = {} if carried is None else {"facts": carried.record()}
        return {"schema": schema, "digest": hashlib.sha256(text.encode()).hexdigest(), **body, **facts}

    def dumps(self) -> str:
        """Canonical JSON text: sorted keys, schema number, digest."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1, allow_nan=False) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything but itself; of the board its own digest, and in `OLDER` files nothing."""
        return str(self.to_dict()["digest"])

    @classmethod
    def loads(cls, text: str, source: str = "design") -> Design:
        """Read `dumps` back; `source` names the file in errors. Raises DesignError."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DesignError(f"{source} must be JSON: {error}") from None
        schema = raw.get("schema") if isinstance(raw, Mapping) else type(raw).__name__
        if schema not in (SCHEMA, OLDER):
            raise DesignError(
                f"{source} must be a design of schema {SCHEMA} or {OLDER}, not {schema!r}; make it again with `fluidnpu dse`"
            )
        body = {key: value for key, value in raw.items() if key != "digest"}
        older = set() if schema == SCHEMA else {"facts"}
        names = {f.name for f in fields(cls)} - {"array", *older} | {*_ARRAY_FIELDS, *_CHAIN_FIELDS, *_WORD_FIELDS}
        if set(body) | _OPTIONAL - older != names:
            odd = sorted((set(body) | _OPTIONAL - older) ^ names)
            raise DesignError(
                f"{source} must have exactly the fields of a design; missing or unknown: {', '.join(odd)}"
            )
        try:
            design = cls._of_fields(body)
        except (DesignError, BoardFileError) as error:
            raise error if isinstance(error, DesignError) else DesignError(f"{source}: {error}") from None
        except (TypeError, KeyError, ValueError) as error:
            raise DesignError(f"{source} is not a well-formed design: {error}") from None
        if raw.get("digest") != design.digest:
            raise DesignError(f"{source} was changed by hand: its digest no longer matches its contents")
        return design

    @classmethod
    def _of_fields(cls, body: dict[str, Any]) -> Design:
        """The design of a file's fields, as JSON has them."""
        inside = {name: body.pop(name) for name in _ARRAY_FIELDS}
        inside |= {name: body.pop(name) for name in (*_CHAIN_FIELDS, *_WORD_FIELDS) if name in body}
        return cls(
            **{
                **body,
                "array": _behind(Array(**inside, in_words=1), body["port_bits"]),
                "layers": tuple(LayerShape.from_dict(layer) for layer in body["layers"]),
                "exits": tuple(body["exits"]),
                "exit_rates": None if body["exit_rates"] is None else tuple(body["exit_rates"]),
                "plans": tuple(
                    tuple(BatchPlan(k=Stack(k), b_r=b, row_lanes=bool(r), block=n) for k, b, r, n in row)
                    for row in body["plans"]
                ),
                "joins": tuple(body.get("joins", ())),
                "parts": tuple(_part(**part) for part in body.get("parts", ())),
                "hardware": Hardware.of(body["hardware"]) if "hardware" in body else None,
                "facts": _facts(body),
                "latency": LatencyTable(ns=tuple(tuple(row) for row in body["latency"]["ns"])),
            }
        )


def _all(parts: Iterable[Sequence[_T]]) -> list[_T]:
    """The items of all parts, one after another."""
    return [item for part in parts for item in part]


def _part(exit_rates: Sequence[float] | None, **facts: Any) -> Part:
    return Part(**facts, exit_rates=None if exit_rates is None else tuple(exit_rates))


def _facts(body: Mapping[str, Any]) -> Board | None:
    """The facts that a file carries; an older one of a board that was shipped then gets today's by name."""
    if "facts" in body:
        return Board.from_dict(body["facts"], "facts")
    if body["schema"] == SCHEMA:
        return None
    board = load_board(body["board"]) if body["board"] in _SHIPPED_THEN and body["model"] != MEASURED else None
    return board if board and body["memory"] in [memory.name for memory in board.dram] else None


def _behind(array: Array[int], port_bits: Any) -> Array[int]:
    """The array behind ports of that width; what is no width is left to `Design`, which refuses it."""
    if not isinstance(port_bits, int):
        return array
    words = input_words(array.t_p, port_bits, stackable=array.stackable, word_bits=array.word_bits)
    return replace(array, in_words=words)
