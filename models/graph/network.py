"""A multi-exit network as an NPU sees it: GEMM layers, pools, residual adds and exits in execution order.

Knows nothing of hardware. Shapes are (height, width, channels); activations are NHWC everywhere. The layers
of stage s (its part of the backbone, then the head of exit s) stand together and stages follow one another,
so "run to exit s" is always "run layers up to the last one of stage s".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..images.intake import Intake
from ..images.preprocessing import Preprocessing
from ..tail.graph import Tail
from .activations import Activation, Use
from .checks import Check, ExitCheck, MapCheck
from .outputs import Output
from .shapes import Filtering, FilterPair, Kind, LayerShape, Pair, Pooling, Shape, Window, Workload

MOST_EXPONENT = 30  # of a channel, up or down: its weights stay well within float32
INT16_RECORD = "int16"  # key of the metadata that says how near int16 came to float
INT8_RECORD = "int8"  # the same of int8
LEAST_POOLED = 8  # columns of a map whose rows the NPU pools: a row's maxima are used again no sooner
LEAST_FILTERED = 4  # columns of a map whose rows the NPU filters: a row's words are read again no sooner
FILTER_KERNELS = range(2, 8)  # rows and columns of a depthwise window that the NPU filters with


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer with its geometry and the tensors it connects.

    It reads channels [input_channel, input_channel + in_shape[2]) of tensor `input`, whose pixels have
    `input_pixel` channels (None: as many as are read), and writes channels [output_channel, output_channel +
    channels) of tensor `output` from pixel `output_at` on: so tensors are sliced and joined without a copy
    (ADR 19). Its output pixels lie `output_step` rows and columns apart, so that several layers fill one
    larger map between them, as upsampling needs (ADR 41); it adds the pixels of `residual` from `residual_at`
    on, `residual_step` apart. A step of (0, 0) adds the pixel at `residual_at` to all, and `residual_spread`
    the value of `residual_channel` to all channels. A negative padding leaves rows or columns of the input
    out. `clip` bounds the word that the sums come to, in real units: (0, None) is ReLU, (0, 6) ReLU6. The
    `activation` then makes of this word what is stored (ADR 69); a product takes the residual, which is then
    not added.
    """

    name: str
    kind: Kind
    input: str
    output: str
    channels: int
    input_channel: int = 0
    input_pixel: int | None = None
    output_channel: int = 0
    output_at: Pair = (0, 0)  # row and column of its first output pixel
    output_step: Pair = (1, 1)  # rows and columns from an output pixel to the next
    residual: str | None = None
    residual_channel: int = 0
    residual_at: Pair = (0, 0)
    residual_step: Pair = (1, 1)
    residual_spread: bool = False
    in_shape: Shape  # height and width of the input tensor, channels that are read
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, left, bottom, right
    groups: int = 1
    clip: tuple[float | None, float | None] = (None, None)
    activation: Activation | None = None
    stage: int = 0

    def __post_init__(self) -> None:
        """Refuse a use of the residual that there is none for."""
        if self.residual is None and (self.multiplies or self.residual_spread or self.residual_step != (1, 1)):
            what = "multiplies by" if self.multiplies else "spreads or steps through"
            raise NetworkError(f"layer '{self.name}' {what} a residual, so it must have one")
        if min(self.residual_step) < 1 and self.residual_step != (0, 0):
            raise NetworkError(
                f"the residual of layer '{self.name}' must repeat a pixel, (0, 0), or step on, not {self.residual_step}"
            )

    @property
    def multiplies(self) -> bool:
        """True if the residual is multiplied rather than added."""
        return self.activation is not None and self.activation.use is Use.PRODUCT

    @property
    def adds(self) -> bool:
        """True if the residual is added to the sums."""
        return self.residual is not None and not self.multiplies

    @property
    def inner(self) -> str | None:
        """The name of the word in front of the activation, among ranges and gains; None without one."""
        return None if self.activation is None else f"{self.name}:inner"

    @property
    def out_hw(self) -> Pair:
        """Output height and width."""
        top, left, bottom, right = self.padding
        extent = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        height = (self.in_shape[0] + top + bottom - extent[0]) // self.stride[0] + 1
        width = (self.in_shape[1] + left + right - extent[1]) // self.stride[1] + 1
        return height, width

    def read(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """View the channels that the layer reads of its input tensor (..., C)."""
        return tensor[..., self.input_channel : self.input_channel + self.in_shape[2]]

    def cropped(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """View an input (B, H, W, C) without the rows and columns that a negative padding leaves out."""
        top, left, bottom, right = (max(0, -side) for side in self.padding)
        return x[:, top : x.shape[1] - bottom, left : x.shape[2] - right]

    def added(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """View the part (B, h, w, channels) that the layer takes of its residual tensor (B, H, W, C); what is
        repeated is copied.
        """
        rows, columns = (self._along(axis, self.residual_at, self.residual_step) for axis in (0, 1))
        part = tensor[:, rows, columns, self.residual_part]
        if self.residual_step == (0, 0):  # by lists, which torch takes, too
            part = part[:, [0] * self.out_hw[0]][:, :, [0] * self.out_hw[1]]
        return part[..., [0] * self.channels] if self.residual_spread else part

    @property
    def residual_part(self) -> slice:
        """The channels of the residual that are read; one where it is spread."""
        return slice(self.residual_channel, self.residual_channel + (1 if self.residual_spread else self.channels))

    def written(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """View the part (B, h, w, channels) that the layer writes of its output tensor (B, H, W, C)."""
        rows, columns = (self._along(axis, self.output_at, self.output_step) for axis in (0, 1))
        return tensor[:, rows, columns, self.output_channel : self.output_channel + self.channels]

    def _along(self, axis: int, at: Pair, step: Pair) -> slice:
        return slice(at[axis], at[axis] + (self.out_hw[axis] - 1) * step[axis] + 1, step[axis] or 1)

    def fills(self, shape: Shape) -> bool:
        """True when the layer alone writes an output tensor of this shape."""
        return (*self.out_hw, self.channels) == shape

    def facts(self) -> dict[str, Any]:
        """Return the fields in plain types. What only some layers need is left out where it says nothing."""
        usual = {"output_step": (1, 1), "residual_at": (0, 0), "residual_step": (1, 1), "residual_spread": False}
        return {key: value for key, value in asdict(self).items() if usual.get(key) != value}

    @property
    def pool_shift(self) -> int:
        """Right shift that follows the sum of a pool's taps: ceil(log2(taps))."""
        return (self.kernel[0] * self.kernel[1] - 1).bit_length()

    @property
    def pool_gain(self) -> float:
        """The factor of a pool's stored values beside its input's: 2**shift / taps of a sum."""
        taps = self.kernel[0] * self.kernel[1]
        return 2**self.pool_shift / taps if self.kind is Kind.SUM_POOL else 1.0

    @property
    def shape(self) -> LayerShape:
        """The layer's <R, P, C> and window, for design-space exploration."""
        height, width = self.out_hw
        taps = self.kernel[0] * self.kernel[1]
        gemm = self.kind is Kind.GEMM
        return LayerShape(
            name=self.name,
            r=height * width,
            p=taps * self.in_shape[2] // self.groups if gemm else taps,
            c=self.channels // self.groups if gemm else self.channels,
            kind=self.kind,
            groups=self.groups if gemm else 1,
            stage=self.stage,
            residual=self.residual is not None,
            residual_spread=self.residual_spread,
            residual_fixed=self.residual_step == (0, 0),
            activation="" if self.activation is None else str(self.activation.use),
            window=Window(
                kernel=self.kernel,
                stride=self.stride,
                dilation=self.dilation,
                out=self.out_hw,
                out_step=self.output_step,
                channels=self.in_shape[2] if self.input_pixel is None else self.input_pixel,
            ),
        )


def _pooling(pool: Layer) -> Pooling:
    return Pooling(kernel=pool.kernel[0], padded=(pool.padding[0], pool.padding[1]), out=pool.out_hw)


def _filtering(layer: Layer) -> Filtering:
    return Filtering(
        kernel=layer.kernel[0],
        stride=layer.stride[0],
        padded=(layer.padding[0], layer.padding[1]),
        out=layer.out_hw,
        activation="" if layer.activation is None else str(layer.activation.use),
    )


def _filters(layer: Layer) -> bool:
    """True for a depthwise layer that the NPU can compute from the outputs of another on their way."""
    kernel = layer.kernel[0]
    depthwise = layer.kind is Kind.GEMM and 1 < layer.groups == layer.channels == layer.in_shape[2]
    square = layer.kernel == (kernel, kernel) and kernel in FILTER_KERNELS and layer.stride in ((1, 1), (2, 2))
    usual = layer.dilation == layer.output_step == (1, 1) and all(0 <= side < kernel for side in layer.padding)
    plain = layer.residual is None and (layer.activation is None or layer.activation.use is Use.TABLE)
    return depthwise and square and usual and plain


@dataclass(frozen=True, kw_only=True)
class Exit:
    """An exit: its logits tensor, its threshold, and its rate and accuracy on held-out data.

    The last exit takes every sample that is left, so it has no threshold; at an earlier one None means that
    nobody leaves. The last exit of a network without classes has no logits: every sample ends there, with its
    outputs.
    """

    name: str
    logits: str | None
    threshold: float | None = None  # on the network's check
    rate: float | None = None  # share of all samples that leave here
    accuracy: float | None = None  # of this exit's answers, on every sample
    assumed: bool = False  # True where the threshold stands in no file

    @property
    def classes(self) -> str:
        """The logits tensor. Raises NetworkError at the end of a network without classes."""
        if self.logits is None:
            raise NetworkError(f"an exit must give logits to decide between classes, and '{self.name}' gives none")
        return self.logits


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Float parameters of one layer: weights of a GEMM, and slopes and offsets of an activation unit's lines.

    weights: (groups, P, C), P ordered (kernel row, kernel column, input channel of the group); empty for a
    pool. bias: (groups * C,), empty for a pool. slopes, offsets: (channels,), empty where the activation has
    none.
    """

    weights: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0, 0), np.float32))
    bias: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    slopes: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    offsets: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))


_ABSORBING = (Use.TABLE, Use.AFFINE)  # that give a result of any gain


def _inner_gain(layer: Layer, gains: Mapping[str, float]) -> float:
    """Return the gain of a layer's word, before its activation."""
    use = None if layer.activation is None else layer.activation.use
    if layer.kind is not Kind.GEMM:
        return gains[layer.input] * layer.pool_gain
    if use in _ABSORBING:
        return gains[str(layer.residual)] if layer.adds else 1.0
    return gains[layer.output] / (gains[str(layer.residual)] if layer.multiplies else 1.0)


def _gain(layer: Layer, gains: Mapping[str, float]) -> float:
    """Return the gain that a layer's output must have; the one that it has where any will do."""
    use = None if layer.activation is None else layer.activation.use
    if use in _ABSORBING:
        return gains[layer.output]
    if layer.kind is Kind.GEMM:
        return gains[str(layer.residual)] if layer.adds else gains[layer.output]
    return _inner_gain(layer, gains) * (gains[str(layer.residual)] if layer.multiplies else 1.0)


def _check_lines(layer: Layer, own: Parameters) -> None:
    use = None if layer.activation is None else layer.activation.use
    expected = (use in (Use.SLOPE, Use.AFFINE), use is Use.AFFINE)
    for what, values, given in zip(("slopes", "offsets"), (own.slopes, own.offsets), expected, strict=True):
        shape = (layer.channels if given else 0,)
        if values.shape != shape:
            raise NetworkError(
                f"layer '{layer.name}' must have {shape[0]} {what} for its activation, not {values.shape}"
            )


@dataclass(frozen=True, kw_only=True)
class Network:
    """A multi-exit network: tensors, layers in execution order, exits in stage order, float parameters.

    `tensors` maps every tensor (the input too) to its shape. `outputs` are what it returns beside its
    exits.
    `calibration` maps a tensor, and the word in front of an activation by `Layer.inner`, to the largest
    magnitude seen on calibration data, in real units over its gain, and `equalisation` a tensor to the
    exponents of its channels that were chosen for these ranges (ADR 65). `corrections` maps a layer to
    what its channels' biases are corrected by at 8 bits, in real units, chosen on the same data (ADR 75).
    `grids` maps a tensor of a quantised file to its scale and the int8 that stands for zero, and `halos` a
    tensor to the latter where the NPU computes with it.
    `preprocessing` is the way from a user's image to the input; None: uint8 over 255, floats in 0..1. `check`
    is what the thresholds of the exits are compared with. `class_names`: of its classes, of the labels of its
    maps or of what its other outputs detect, in the order of their numbers; empty where they are not known.
    `tail`: what the host makes of `outputs`, whose outputs are then those that the user has.
    """

    name: str
    input: str
    tensors: Mapping[str, Shape]
    layers: tuple[Layer, ...]
    exits: tuple[Exit, ...]
    outputs: tuple[Output, ...] = ()
    parameters: Mapping[str, Parameters] = field(repr=False)
    calibration: Mapping[str, float] = field(default_factory=dict, repr=False)
    equalisation: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    corrections: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    grids: Mapping[str, tuple[float, int]] = field(default_factory=dict, repr=False)
    halos: Mapping[str, int] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    preprocessing: Preprocessing | None = None
    check: Check = ExitCheck.TOP
    class_names: tuple[str, ...] = ()
    tail: Tail | None = None

    def __post_init__(self) -> None:
        """Keep what holds for the last exit, which takes all that is left; a single one takes all."""
        if self.class_names and self.classes not in (0, len(self.class_names)):
            raise NetworkError(
                f"'{self.name}' must have a name for each of its {self.classes} classes, not {len(self.class_names)}"
            )
        if self.tail is not None and not {output.name for output in self.outputs}.issuperset(self.tail.inputs):
            raise NetworkError(f"the tail of '{self.name}' must read outputs of the network, and it reads others")
        for layer in self.layers:
            if layer.name in self.parameters:
                _check_lines(layer, self.parameters[layer.name])
        last = self.exits[-1]
        rate = 1.0 if len(self.exits) == 1 else last.rate
        exits = (*self.exits[:-1], replace(last, threshold=None, assumed=False, rate=rate))
        object.__setattr__(self, "exits", exits)

    @property
    def classes(self) -> int:
        """The number of classes, labels or landmarks that its exits distinguish; 0 where there are none."""
        logits = self.exits[-1].logits
        if isinstance(self.check, MapCheck):
            return self.check.shape[2]
        return 0 if logits is None else self.tensors[logits][2]

    def recalibrated(self, calibration: Mapping[str, float]) -> Network:
        """Return the network with other ranges, or none; what was chosen and measured for the old ones is
        forgotten.
        """
        metadata = {key: text for key, text in self.metadata.items() if key not in (INT16_RECORD, INT8_RECORD)}
        return replace(self, calibration=calibration, equalisation={}, corrections={}, metadata=metadata)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The threshold of every exit but the last; 1, which nobody exceeds, where an exit has none."""
        return tuple(1.0 if exit.threshold is None else exit.threshold for exit in self.exits[:-1])

    @cached_property
    def intake(self) -> Intake:
        """The way from a user's images to the input tensor in the network's own unit. Raises DataError."""
        return Intake.of(self.preprocessing, self.tensors[self.input])

    @cached_property
    def workload(self) -> Workload:
        """The layer shapes, exits and measured exit rates."""
        rates = [exit.rate for exit in self.exits]
        return Workload(
            name=self.name,
            layers=self._shapes,
            exits=tuple(exit.name for exit in self.exits),
            exit_rates=tuple(r for r in rates if r is not None) if None not in rates else None,
            filters=self.filters,
        )

    @property
    def _shapes(self) -> tuple[LayerShape, ...]:
        """The layers' shapes, with the max pools that are merged."""
        shapes = [layer.shape for layer in self.layers]
        for index, pool in self.merged.items():
            shapes[index] = replace(shapes[index], pooling=_pooling(self.layers[pool]))
            shapes[pool] = replace(shapes[pool], merged=True)
        return tuple(shapes)

    @cached_property
    def merged(self) -> Mapping[int, int]:
        """Layers whose outputs can pass a max pool before they are stored, each with that pool (ADR 51)."""
        poolable = {index: self._poolable(pool) for index, pool in enumerate(self.layers) if pool.kind is Kind.MAX_POOL}
        return {layer: pool for pool, layer in poolable.items() if layer is not None}

    def _poolable(self, pool: Layer) -> int | None:
        """The layer that can store what a max pool makes of its outputs; None if there is none.

        Nobody else may want them as they are. The pool clips nothing and has a window of two or three, of
        stride two, that leaves out no pixel of a map at least `LEAST_POOLED` wide.
        """
        usual = (pool.stride, pool.dilation, pool.clip, pool.output_step) == ((2, 2), (1, 1), (None, None), (1, 1))
        if pool.kernel not in ((2, 2), (3, 3)) or not usual or pool.residual or not set(pool.padding[:2]) <= {0, 1}:
            return None
        writer = self._sole_writer(pool)
        if writer is None or pool.activation is not None or self._pads_with_words(pool):
            return None
        size = self.layers[writer].out_hw
        return writer if size[1] >= LEAST_POOLED and _pooling(pool).covers(size) else None

    def _sole_writer(self, layer: Layer) -> int | None:
        """The GEMM of one group that alone writes what a layer alone reads, whole and in the same stage; None
        if there is none, or the tensor leaves the network.
        """
        readers = [reader for reader in self.layers if layer.input in (reader.input, reader.residual)]
        writers = self._writers.get(layer.input, ())
        if len(readers) != 1 or len(writers) != 1 or layer.input in self.given_out:
            return None
        writer, shape = self.layers[writers[0]], self.tensors[layer.input]
        whole = writer.fills(shape) and layer.in_shape == shape
        together = writer.kind is Kind.GEMM and writer.groups == 1 and writer.stage == layer.stage
        return writers[0] if whole and together else None

    @cached_property
    def filters(self) -> tuple[FilterPair, ...]:
        """Pairs of a layer and a depthwise one that its outputs can pass before they are stored (ADR 70)."""
        depthwise = ((index, layer) for index, layer in enumerate(self.layers) if _filters(layer))
        pairs = ((self._sole_writer(layer), index, _filtering(layer)) for index, layer in depthwise)
        return tuple(
            FilterPair(producer=writer, depthwise=index, filtering=filtering)
            for writer, index, filtering in pairs
            if writer is not None
            and self.layers[writer].out_hw[1] >= LEAST_FILTERED
            and not self._pads_with_words(self.layers[index])
        )

    def _pads_with_words(self, layer: Layer) -> bool:
        """True if what stands around a layer's input is not 0, which is all that can be merged."""
        return bool(max(layer.padding) > 0 and self.halos.get(layer.input))

    @property
    def given_out(self) -> frozenset[str]:
        """The tensors that leave the network: logits and other outputs."""
        logits = (exit.logits for exit in self.exits if exit.logits is not None)
        return frozenset((*logits, *(output.tensor for output in self.outputs)))

    @cached_property
    def gains(self) -> Mapping[str, float]:
        """Real factor of each tensor's stored values: average pools make one, GEMMs absorb it (ADR 2, 19).

        That of a word in front of an activation stands under `Layer.inner`. A product has that of both its
        factors; tables and affine lines absorb theirs. Raises NetworkError where what is concatenated or
        added brings different gains.
        """
        gains: dict[str, float] = dict.fromkeys((self.input, *(layer.output for layer in self.layers)), 1.0)
        free = {layer.name for layer in self.layers if layer.activation and layer.activation.use in _ABSORBING}
        binding = [layer for layer in self.layers if layer.kind is Kind.GEMM and layer.residual is not None]
        binding += [layer for layer in self.layers if layer.kind is not Kind.GEMM]  # which decide in a joined tensor
        binding = [layer for layer in binding if layer.name not in free]
        for _ in range(len(binding) + 1):  # a tensor may get its gain from a later layer
            gains_after = {layer.output: _gain(layer, gains) for layer in binding}
            if all(gains[name] == gain for name, gain in gains_after.items()):
                break
            gains |= gains_after
        for layer in self.layers:
            gain = _gain(layer, gains)
            if gains[layer.output] != gain and not (layer.kind is Kind.GEMM and layer.adds):
                raise NetworkError(
                    f"what is concatenated in tensor '{layer.output}' must share one average-pool gain, and layer "
                    f"'{layer.name}' brings {gain:g} beside {gains[layer.output]:g}"
                )
            inner = _inner_gain(layer, gains)
            if layer.adds and gains[str(layer.residual)] != inner:
                raise NetworkError(
                    f"layer '{layer.name}' of average-pool gain {inner:g} can only add a tensor of the same one, and "
                    f"'{layer.residual}' carries {gains[str(layer.residual)]:g}"
                )
            if layer.inner is not None:
                gains[layer.inner] = inner
        return gains

    def reads_no_negatives(self, layer: Layer) -> bool:
        """True if what a layer reads is known not to be negative: it ends in ReLUs, or pools of such."""
        return bool(layer.read(self._positive_channels[layer.input]).all())

    @cached_property
    def _positive_channels(self) -> Mapping[str, npt.NDArray[np.bool_]]:
        """Channels without negative values, by tensor; a channel that no layer writes holds zeros."""
        marked = {name: np.ones(shape[2], np.bool_) for name, shape in self.tensors.items()}
        marked[self.input][:] = False
        for layer in self.layers:
            part = slice(layer.output_channel, layer.output_channel + layer.channels)
            marked[layer.output][part] &= self._writes_no_negatives(layer, marked)
        return marked

    def _writes_no_negatives(
        self, layer: Layer, marked: Mapping[str, npt.NDArray[np.bool_]]
    ) -> npt.NDArray[np.bool_] | bool:
        """Return the channels that a layer writes no negatives to, where `known` are those of its sources."""
        residual = True if layer.residual is None else marked[layer.residual][layer.residual_part]
        word = layer.read(marked[layer.input]) if layer.kind is not Kind.GEMM else False
        word = word & residual if layer.adds else word
        word = True if layer.clip[0] is not None and layer.clip[0] >= 0 else word
        if layer.activation is None:
            return word
        low, _ = layer.activation.bounds
        if low is not None and low >= 0:
            return True
        if layer.activation.use is Use.PRODUCT:
            return word & residual
        if layer.activation.use is Use.AFFINE:
            own = self.parameters.get(layer.name, Parameters())
            rises = (own.slopes >= 0) & (own.offsets >= 0 if len(own.offsets) else True)
            return word & rises if len(own.slopes) else False
        keeps = layer.activation.use is Use.SLOPE or (
            layer.activation.use is Use.TABLE and layer.activation.of.keeps_sign
        )
        return word & keeps

    @property
    def ranged(self) -> tuple[str, ...]:
        """The names of what quantisation needs ranges of: tensors, and words in front of an activation."""
        return (*self.tensors, *(layer.inner for layer in self.layers if layer.inner is not None))

    @cached_property
    def sources(self) -> tuple[frozenset[int], ...]:
        """For each layer the indices of the layers that write what it reads."""
        return tuple(
            self.writers(layer.input, layer.input_channel, layer.in_shape[2], before=index)
            | (
                self.writers(
                    layer.residual, layer.residual_channel, 1 if layer.residual_spread else layer.channels, before=index
                )
                if layer.residual is not None
                else frozenset()
            )
            for index, layer in enumerate(self.layers)
        )

    @cached_property
    def _writers(self) -> Mapping[str, Sequence[int]]:
        by_writer: dict[str, list[int]] = {}
        for index, layer in enumerate(self.layers):
            by_writer.setdefault(layer.output, []).append(index)
        return by_writer

    def writers(
        self, tensor: str, first: int = 0, count: int | None = None, *, before: int | None = None
    ) -> frozenset[int]:
        """Return the indices of the layers that write channels [first, first + count) of a tensor, or all
        of it, among the layers before one.
        """
        end = self.tensors[tensor][2] if count is None else first + count
        return frozenset(
            index
            for index in self._writers.get(tensor, ())
            if (before is None or index < before)
            and self.layers[index].output_channel < end
            and first < self.layers[index].output_channel + self.layers[index].channels
        )

    def stage_layers(self, stage: int) -> range:
        """Return the indices of the layers of one stage, head included."""
        indices = [i for i, layer in enumerate(self.layers) if layer.stage == stage]
        return range(indices[0], indices[-1] + 1)
