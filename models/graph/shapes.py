"""Layer shapes <R, P, C>: a network as design-space exploration sees it, without weights and tensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from ..errors import NetworkError

Shape = tuple[int, int, int]  # height, width, channels
Pair = tuple[int, int]  # height, width


class Kind(str, Enum):
    """The operation that the NPU applies to a layer's input windows."""

    __str__ = str.__str__  # as of enum.StrEnum, which Python 3.10 lacks

    GEMM = "gemm"  # convolution; a fully connected layer is one whose kernel covers its whole input
    MAX_POOL = "max_pool"
    SUM_POOL = "sum_pool"  # average pooling: sum, then a power-of-two shift; what is left of 1/N is the tensor's gain


@dataclass(frozen=True, kw_only=True)
class Window:
    """The geometry of a layer's input windows, which decides its memory traffic. Pairs are (height, width).

    `out`: output rows and columns, which lie `out_step` rows and columns apart in memory. `channels` of the
    input tensor, which is the distance between its pixels in words.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    out: Pair
    out_step: Pair = (1, 1)
    channels: int

    def run_words(self, layer: LayerShape) -> int:
        """Return the words that are contiguous both in memory and in a window: a kernel row, or a tap where
        pixels are apart.

        >>> window = Window(kernel=(3, 3), out=(8, 8), channels=16)
        >>> window.run_words(LayerShape(name="conv", r=64, p=144, c=8, window=window))
        48
        """
        group_words = layer.p // (self.kernel[0] * self.kernel[1])
        return group_words * self.kernel[1] if self.dilation[1] == 1 and group_words == self.channels else group_words


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """The max pool of stride 2 that a layer's outputs pass on their way to memory (ADR 51). Pairs are
    (height, width).

    `kernel`: 2 or 3, along both axes. `padded`: rows above and columns left of the map that the first windows
    reach into, 0 or 1 each. `out`: rows and columns of the pooled map.

    >>> Pooling(kernel=3, padded=(1, 1), out=(56, 56)).covers((112, 112))
    True
    """

    kernel: int
    padded: Pair
    out: Pair

    def covers(self, size: Pair) -> bool:
        """True if every row and column of a map belongs to a window, and to no window alone."""
        ends = (2 * (self.out[axis] - 1) for axis in (0, 1))  # where the last window begins
        last = (size[axis] - 1 + self.padded[axis] for axis in (0, 1))
        return all(end < at < end + self.kernel for end, at in zip(ends, last, strict=True))


@dataclass(frozen=True, kw_only=True)
class Filtering:
    """The depthwise filter that a layer's outputs pass on their way to memory (ADR 70). Pairs are (height,
    width).

    `kernel`: 2 to 7, and `stride`: 1 or 2, along both axes. `padded`: rows above and columns left of the map
    that the first windows reach into. `out`: rows and columns of the filtered map. `activation`: `table`
    where one follows, else empty.

    >>> Filtering(kernel=3, stride=2, padded=(1, 1), out=(56, 56)).walk((112, 112))
    (112, 112)
    """

    kernel: int
    stride: int = 1
    padded: Pair
    out: Pair
    activation: str = ""

    def walk(self, size: Pair) -> Pair:
        """Return the positions that the filter visits of a map of this size: rows, and columns of each."""
        lasts = ((self.out[axis] - 1) * self.stride - self.padded[axis] + self.kernel for axis in (0, 1))
        high, wide = (max(have, last) for have, last in zip(size, lasts, strict=True))
        return high, wide


@dataclass(frozen=True, kw_only=True)
class FilterPair:
    """Two layers, by their indices, of which the first can compute the second on its way to memory.

    `producer`: the GEMM whose outputs pass the filter. `depthwise`: the layer that the filter computes.
    """

    producer: int
    depthwise: int
    filtering: Filtering


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """One layer as design-space exploration sees it.

    A GEMM multiplies R x P by P x C, `groups` times over. A pool reduces P taps to one for each of R
    positions and C channels. `window` is absent where only <R, P, C> is known. With a `pooling` or a
    `filtering` only what these make of the outputs is stored, and the pool or the depthwise layer is one that
    is `merged`: nothing is left to do for it.
    `activation`: the layer's use of the activation unit (`Use`), empty without one. `residual_spread`: its
    residual has one value a pixel; `residual_fixed`: one pixel for the whole map.

    >>> LayerShape(name="conv1", r=12544, p=147, c=64).macs
    118013952
    """

    name: str
    r: int
    p: int
    c: int
    kind: Kind = Kind.GEMM
    groups: int = 1
    stage: int = 0
    residual: bool = False
    residual_spread: bool = False
    residual_fixed: bool = False
    activation: str = ""
    window: Window | None = None
    pooling: Pooling | None = None
    filtering: Filtering | None = None
    merged: bool = False

    def __post_init__(self) -> None:
        for axis in ("r", "p", "c", "groups"):
            value = getattr(self, axis)
            if not isinstance(value, int) or value < 1:
                raise NetworkError(f"layer '{self.name}' needs a whole {axis} of at least 1, not {value!r}")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> LayerShape:
        """Invert `facts`, through JSON or not. Raises TypeError, KeyError or ValueError for other input."""
        made = {key: part(**_fields(raw[key])) if raw.get(key) else None for key, part in _PARTS.items()}
        return cls(**{**raw, "kind": Kind(raw["kind"]), **made})

    def facts(self) -> dict[str, Any]:
        """Return the fields in plain types. What older files lack is left out where it says nothing."""
        body = asdict(self)
        for key in ("pooling", "filtering", "merged", "residual_spread", "residual_fixed", "activation"):
            if not body[key]:
                del body[key]
        if self.window is not None and self.window.out_step == (1, 1):
            del body["window"]["out_step"]
        return body

    def joined(self, count: int) -> LayerShape:
        """Return the layer with every `count` of its groups as one, in which weights are zero between them.

        An array then multiplies by these zeros, too, so `macs` of the result counts more than is asked for.
        Raises NetworkError for a pool, and for a count that does not divide the groups.

        >>> shape = LayerShape(name="depthwise", r=196, p=9, c=1, groups=96).joined(16)
        >>> (shape.p, shape.c, shape.groups)
        (144, 16, 6)
        """
        if count == 1:
            return self
        if self.kind is not Kind.GEMM or count < 1 or self.groups % count:
            raise NetworkError(
                f"groups that layer '{self.name}' computes together must divide its {self.groups}, not {count!r}"
            )
        return replace(self, p=self.p * count, c=self.c * count, groups=self.groups // count)

    @property
    def alone(self) -> LayerShape:
        """The layer where neither a pool nor a filter is merged with another layer."""
        return replace(self, pooling=None, filtering=None, merged=False)

    @property
    def behind(self) -> Pooling | Filtering | None:
        """The pool or the filter that outputs pass on their way to memory."""
        return self.pooling or self.filtering

    @property
    def stored(self) -> int:
        """Output words of one sample that go to memory."""
        if self.merged:
            return 0
        pixels = self.r if self.behind is None else self.behind.out[0] * self.behind.out[1]
        return pixels * self.c * (self.groups if self.kind is Kind.GEMM else 1)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample; pools have none."""
        return self.r * self.p * self.c * self.groups if self.kind is Kind.GEMM else 0


_PARTS: dict[str, type[Window | Pooling | Filtering]] = {"window": Window, "pooling": Pooling, "filtering": Filtering}


def _fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with tuples where JSON has lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A network reduced to its layer shapes, which is all that design-space exploration needs.

    `exits` names one exit per stage; the last is the final classifier. `exit_rates` (measured, summing to
    1) may be absent; a single exit has rate 1. `filters` are the pairs that may be merged (ADR 70), each on
    its own: a choice of the search, so that `layers` and the digest know nothing of them.
    """

    name: str
    layers: tuple[LayerShape, ...]
    exits: tuple[str, ...] = ("final",)
    exit_rates: tuple[float, ...] | None = None
    filters: tuple[FilterPair, ...] = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise NetworkError(f"a workload needs at least one layer, and '{self.name}' has none")
        stages = [layer.stage for layer in self.layers]
        if stages != sorted(stages) or set(stages) != set(range(len(self.exits))):
            raise NetworkError(f"the layers of '{self.name}' must stand in stages 0..{len(self.exits) - 1} in order")
        if len(self.exits) == 1 and self.exit_rates is None:
            object.__setattr__(self, "exit_rates", (1.0,))
        rates = self.exit_rates
        if rates is not None and (len(rates) != len(self.exits) or not all(0 <= rate <= 1 for rate in rates)):
            raise NetworkError(f"the exit rates of '{self.name}' must be {len(self.exits)} shares of 0..1, not {rates}")

    @property
    def unmerged(self) -> Workload:
        """The same layers with every pool and every depthwise layer on its own."""
        return replace(self, layers=tuple(layer.alone for layer in self.layers), filters=())

    def filtered(self, chosen: Collection[int]) -> tuple[LayerShape, ...]:
        """Return the layers where the pairs of these producers are merged. Raises NetworkError for a layer
        that is none.
        """
        pairs = {pair.producer: pair for pair in self.filters}
        layers = list(self.layers)
        for index in chosen:
            if index not in pairs:
                raise NetworkError(
                    f"layers whose filters are merged must be of {sorted(pairs)} in '{self.name}', not {index!r}"
                )
            depthwise = pairs[index].depthwise
            layers[index] = replace(layers[index], filtering=pairs[index].filtering)
            layers[depthwise] = replace(layers[depthwise], merged=True)
        return tuple(layers)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample through every stage."""
        return sum(layer.macs for layer in self.layers)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of layers and exits; name, exit rates and pairs have no part."""
        facts = {"layers": [layer.facts() for layer in self.layers], "exits": list(self.exits)}
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()
