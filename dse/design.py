"""A design point: every choice the search may turn, frozen, with the consequences computed from it. No I/O beyond JSON text.

A design is the contract between the search and everything that builds, simulates or serves: its digest names build folders and caches.

>>> from fluidnpu.dse.testing import tiny_design
>>> design = tiny_design()
>>> Design.loads(design.dumps()) == design
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any

from fluidnpu.boards import STRIPES
from fluidnpu.models import Kind, LayerShape, Workload

SCHEMA = 3  # 2: plans limit their row blocks; 3: memory, its ports, the input buffer
B_MAX_LIMIT = 16  # a slot mask has 32 bits: twice the largest batch, so that new samples load while a batch runs


def input_words(t_p: int, port_bits: int, *, stackable: bool = True) -> int:
    """Words of a beat of inputs: the P-tiles of both lanes, and of a pool no fewer channels than a port carries.

    >>> input_words(7, 64), input_words(7, 64, stackable=False), input_words(7, 512)
    (14, 7, 32)
    """
    return max(2 * t_p if stackable else t_p, port_bits // 16)


def line_words(input_words: int) -> int:
    """Words of a line of the input buffer: a power of two that no beat straddles twice and no port exceeds.

    >>> line_words(14), line_words(26), line_words(32)
    (16, 32, 32)
    """
    return max(16, 1 << (input_words - 1).bit_length())


def pool_beats(taps: int, *, maximum: bool) -> int:
    """Input beats of a row of a pool (ADR 4): a tap each, of a max pool two taps, of which the larger words are sent.

    >>> pool_beats(9, maximum=True), pool_beats(9, maximum=False)
    (5, 9)
    """
    return -(-taps // 2) if maximum else taps


class DesignError(ValueError):
    """A design or a design file breaks a rule; the message says what must hold and what came."""


class Stack(StrEnum):
    """The k of Stackable PEs, as text so that 1/2 is exact."""

    HALF = "1/2"
    ONE = "1"
    TWO = "2"


class Mode(IntEnum):
    """What the PE array does in one command; codes as in ADR 4."""

    NORMAL = 0
    WIDE = 1
    LANES = 2
    SPLIT = 3
    MAX_POOL = 4
    SUM_POOL = 5


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """One FBCB entry: how a layer runs at one active batch size.

    `b_r` samples are stacked along the rows of each lane (`b_r = batch`: one lane, R-batching).
    `row_lanes` puts neighbouring rows side by side instead. `block`: beats of a row block at most; 0: as many as an accumulator bank holds.
    """

    k: Stack = Stack.ONE
    b_r: int = 1
    row_lanes: bool = False
    block: int = 0


@dataclass(frozen=True, kw_only=True)
class LatencyTable:
    """Nanoseconds that stage s (rows) takes at batch b (columns 1..b_max): what a scheduler may know of the hardware.

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
        """Nanoseconds of stages first..last (inclusive) at a constant batch; zero when first > last or the batch is empty."""
        return sum(self.ns[stage][batch - 1] for stage in range(first, last + 1)) if batch else 0


@dataclass(frozen=True, kw_only=True)
class Design:
    """One NPU for one workload on one board.

    `t_r` is the depth of an accumulator bank in rows; `published_t_r` the depth the `paper` model asked for before RAM geometry
    was looked at (equal to `t_r` when nothing had to give).
    `memory` of the board holds weights and activations, behind AXI masters of `port_bits`, each spread over `stripes` ports; `buffer_words` is the
    size of the input buffer, a power of two.
    `plans[layer][batch - 1]` is the FBCB. `latency` follows from `model` (`paper` or `exact`).
    """

    network: str
    workload_digest: str
    board: str
    clock_hz: int
    t_r: int
    t_p: int
    t_c: int
    b_max: int
    layers: tuple[LayerShape, ...]
    exits: tuple[str, ...]
    exit_rates: tuple[float, ...] | None = None
    plans: tuple[tuple[BatchPlan, ...], ...]
    latency: LatencyTable
    model: str = "paper"
    published_t_r: int
    stackable: bool = True
    split: bool = False
    acc_bits: int = 48
    weight_slots: int = 1
    out_words: int = 8
    memory: str = "ps"
    port_bits: int = 128
    stripes: int = 1
    buffer_words: int = 1 << 15

    def __post_init__(self) -> None:
        for name in (
            "clock_hz",
            "t_r",
            "t_p",
            "t_c",
            "b_max",
            "weight_slots",
            "out_words",
            "port_bits",
            "stripes",
            "buffer_words",
            "published_t_r",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise DesignError(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.port_bits & (self.port_bits - 1) or self.port_bits < 32:
            raise DesignError(f"port_bits must be a power of two of at least 32, not {self.port_bits}")
        if self.stripes not in STRIPES or self.port_bits < 32 * self.stripes:
            raise DesignError(
                f"stripes must be 1, 2 or 4 ports of at least 32 bits, not {self.stripes} of {self.port_bits} together"
            )
        if self.buffer_words & (self.buffer_words - 1) or self.buffer_words < 16 * self.line_words:
            raise DesignError(
                f"buffer_words must be a power of two of at least {16 * self.line_words}, not {self.buffer_words}"
            )
        if not 1 <= self.b_max <= B_MAX_LIMIT:
            raise DesignError(f"b_max must lie in 1..{B_MAX_LIMIT}, not {self.b_max}")
        if self.model not in ("paper", "exact"):
            raise DesignError(f"model must be 'paper' or 'exact', not {self.model!r}")
        if not 32 <= self.acc_bits <= 48:
            raise DesignError(f"acc_bits must lie in 32..48, not {self.acc_bits}")
        if self.stackable and self.t_c < 2:
            raise DesignError(f"t_c must be at least 2 when stackable PEs are on, not {self.t_c}")
        if self.split and (self.t_p % 2 or self.t_r < 2):
            raise DesignError(f"t_p must be even and t_r at least 2 when trees split, not {self.t_p} and {self.t_r}")
        if len(self.plans) != len(self.layers):
            raise DesignError(f"plans must have one row for each of {len(self.layers)} layers, not {len(self.plans)}")
        if self.latency.stages != len(self.exits) or self.latency.b_max != self.b_max:
            raise DesignError(
                f"the latency table must be {len(self.exits)} stages by {self.b_max} batch sizes, not {self.latency.stages} by {self.latency.b_max}"
            )
        rates = self.exit_rates
        if rates is not None and (len(rates) != len(self.exits) or not all(0 <= rate <= 1 for rate in rates)):
            raise DesignError(f"exit_rates must be {len(self.exits)} shares of 0..1, not {rates}")
        for layer, row in zip(self.layers, self.plans, strict=True):
            if len(row) != self.b_max:
                raise DesignError(
                    f"layer '{layer.name}' needs a plan for each of {self.b_max} batch sizes, not {len(row)}"
                )
            for batch, plan in enumerate(row, 1):
                self._check_plan(layer, batch, plan)

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
        deepest = self.t_r // 2 if plan.k is Stack.HALF else self.t_r
        if not 0 <= plan.block <= deepest:
            raise DesignError(f"{where}: a row block must have at most {deepest} beats, not {plan.block}")

    # -- consequences ------------------------------------------------------------------------------------------

    def mode(self, layer: int, batch: int) -> Mode:
        """What the PE array does for this layer at this batch (ADR 5)."""
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

    def tile(self, mode: Mode) -> tuple[int, int]:
        """Width of a P-tile in words and of a column tile in columns (ADR 4's W and N)."""
        return {
            Mode.NORMAL: (self.t_p, self.t_c),
            Mode.WIDE: (2 * self.t_p, self.t_c // 2),
            Mode.LANES: (self.t_p, self.t_c // 2),
            Mode.SPLIT: (self.t_p // 2, 2 * self.t_c),
            Mode.MAX_POOL: (self.input_words, self.input_words),
            Mode.SUM_POOL: (self.input_words, self.input_words),
        }[mode]

    @property
    def input_words(self) -> int:
        """Words of one beat of the core's input stream."""
        return input_words(self.t_p, self.port_bits, stackable=self.stackable)

    @property
    def port_bytes(self) -> int:
        """Bytes that a memory port carries in a cycle."""
        return self.port_bits // 8

    @property
    def line_words(self) -> int:
        """Words of a line of the input buffer."""
        return line_words(self.input_words)

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of the whole array in one cycle: one DSP each."""
        return self.t_p * self.t_c

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
        """The numbers that RTL, HLS `params.h` and Verilator `-G` are given; the only place they come from."""
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
            "Layers": len(self.layers),
            "PortBytes": self.port_bytes,
            "LineWords": self.line_words,
            "Sets": self.buffer_words // (2 * self.line_words),
        }

    def matches(self, workload: Workload) -> bool:
        """Whether this design was made for exactly this workload."""
        return self.workload_digest == workload.digest

    # -- JSON --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, with schema number and digest."""
        body = asdict(self)
        body["plans"] = [
            [[plan.k.value, plan.b_r, int(plan.row_lanes), plan.block] for plan in row] for row in self.plans
        ]
        body["latency"] = {"ns": [list(row) for row in self.latency.ns]}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return {"schema": SCHEMA, "digest": hashlib.sha256(text.encode()).hexdigest(), **body}

    def dumps(self) -> str:
        """Canonical JSON text: sorted keys, schema number, digest."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1, allow_nan=False) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything but itself."""
        return str(self.to_dict()["digest"])

    @classmethod
    def loads(cls, text: str, source: str = "design") -> Design:
        """Read `dumps` back; `source` names the file in errors. Raises DesignError."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DesignError(f"{source} must be JSON: {error}") from None
        if not isinstance(raw, Mapping) or raw.get("schema") != SCHEMA:
            found = raw.get("schema") if isinstance(raw, Mapping) else type(raw).__name__
            raise DesignError(
                f"{source} must be a design of schema {SCHEMA}, not {found!r}; make it again with `fluidnpu dse`"
            )
        body = {key: value for key, value in raw.items() if key not in ("schema", "digest")}
        names = {f.name for f in fields(cls)}
        if set(body) != names:
            odd = sorted(set(body) ^ names)
            raise DesignError(
                f"{source} must have exactly the fields of a design; missing or unknown: {', '.join(odd)}"
            )
        try:
            design = cls(
                **{
                    **body,
                    "layers": tuple(LayerShape.from_dict(layer) for layer in body["layers"]),
                    "exits": tuple(body["exits"]),
                    "exit_rates": None if body["exit_rates"] is None else tuple(body["exit_rates"]),
                    "plans": tuple(
                        tuple(BatchPlan(k=Stack(k), b_r=b, row_lanes=bool(r), block=n) for k, b, r, n in row)
                        for row in body["plans"]
                    ),
                    "latency": LatencyTable(ns=tuple(tuple(row) for row in body["latency"]["ns"])),
                }
            )
        except DesignError:
            raise
        except (TypeError, KeyError, ValueError) as error:
            raise DesignError(f"{source} is not a well-formed design: {error}") from None
        if raw.get("digest") != design.digest:
            raise DesignError(f"{source} was changed by hand: its digest no longer matches its contents")
        return design
