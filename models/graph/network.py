"""A multi-exit network as an NPU sees it: GEMM layers, pools, residual adds and exits in execution order.

Knows nothing of hardware. Shapes are (height, width, channels); activations are NHWC everywhere. The layers
of stage s (its part of the backbone, then the head of exit s) stand together and stages follow one another,
so "run to exit s" is always "run layers up to the last one of stage s".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..images.intake import Intake
from ..images.preprocessing import Preprocessing
from .shapes import Kind, LayerShape, Pair, Shape, Window, Workload


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer with its geometry and the tensors it connects.

    The output is written to channels [output_channel, output_channel + channels) of tensor `output`, which
    is how branches are concatenated. `clip` bounds the output in real units: (0, None) is ReLU, (0, 6)
    ReLU6.
    """

    name: str
    kind: Kind
    input: str
    output: str
    channels: int
    output_channel: int = 0
    residual: str | None = None
    in_shape: Shape
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, left, bottom, right
    groups: int = 1
    clip: tuple[float | None, float | None] = (None, None)
    stage: int = 0

    @property
    def out_hw(self) -> Pair:
        """Output height and width."""
        top, left, bottom, right = self.padding
        extent = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        height = (self.in_shape[0] + top + bottom - extent[0]) // self.stride[0] + 1
        width = (self.in_shape[1] + left + right - extent[1]) // self.stride[1] + 1
        return height, width

    @property
    def pool_shift(self) -> int:
        """Right shift that follows the sum of a pool's taps: ceil(log2(taps))."""
        return (self.kernel[0] * self.kernel[1] - 1).bit_length()

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
            window=Window(
                kernel=self.kernel,
                stride=self.stride,
                dilation=self.dilation,
                out=self.out_hw,
                channels=self.in_shape[2],
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Exit:
    """An exit: its logits tensor, its threshold, and its rate and accuracy on held-out data.

    The last exit takes every sample that is left, so it has no threshold; at an earlier one None means that
    nobody leaves.
    """

    name: str
    logits: str
    threshold: float | None = None  # on softmax top-1
    rate: float | None = None  # share of all samples that leave here
    accuracy: float | None = None  # of this exit's answers, on every sample
    assumed: bool = False  # True where the threshold stands in no file


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Float weights of one GEMM layer.

    weights: (groups, P, C), P ordered (kernel row, kernel column, input channel of the group).
    bias: (groups * C,).
    """

    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A multi-exit network: tensors, layers in execution order, exits in stage order, float parameters.

    `tensors` maps every tensor (the input too) to its shape.
    `calibration` maps a tensor to the largest magnitude seen on calibration data, in real units.
    `preprocessing` is the way from a user's image to the input; None: uint8 over 255, floats in 0..1.
    """

    name: str
    input: str
    tensors: Mapping[str, Shape]
    layers: tuple[Layer, ...]
    exits: tuple[Exit, ...]
    parameters: Mapping[str, Parameters] = field(repr=False)
    calibration: Mapping[str, float] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        """Keep what holds for the last exit, which takes all that is left; a single one takes all."""
        last = self.exits[-1]
        rate = 1.0 if len(self.exits) == 1 else last.rate
        exits = (*self.exits[:-1], replace(last, threshold=None, assumed=False, rate=rate))
        object.__setattr__(self, "exits", exits)

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
            layers=tuple(layer.shape for layer in self.layers),
            exits=tuple(exit.name for exit in self.exits),
            exit_rates=tuple(r for r in rates if r is not None) if None not in rates else None,
        )

    @cached_property
    def gains(self) -> Mapping[str, float]:
        """Real factor of each tensor's stored values: average pools make one, GEMMs absorb it (ADR 2)."""
        gains = {self.input: 1.0}
        for layer in self.layers:
            gain = gains[layer.input] if layer.kind is not Kind.GEMM else 1.0
            if layer.kind is Kind.SUM_POOL:
                gain *= 2**layer.pool_shift / (layer.kernel[0] * layer.kernel[1])
            if gains.setdefault(layer.output, gain) != gain:
                raise NetworkError(
                    f"what is concatenated in tensor '{layer.output}' must share one average-pool gain, and layer "
                    f"'{layer.name}' brings {gain:g} beside {gains[layer.output]:g}"
                )
            if layer.residual is not None and gains[layer.residual] != 1.0:
                raise NetworkError(
                    f"layer '{layer.name}' can only add a tensor without average-pool gain, and '{layer.residual}' "
                    f"carries {gains[layer.residual]:g}"
                )
        return gains

    @cached_property
    def non_negative(self) -> frozenset[str]:
        """Tensors without negative values: all their writers end in a ReLU or pool another such tensor."""
        sign: dict[str, bool] = {}
        for layer in self.layers:
            clipped = layer.clip[0] is not None and layer.clip[0] >= 0
            passes = layer.kind is not Kind.GEMM and sign.get(layer.input, False)
            sign[layer.output] = sign.get(layer.output, True) and (clipped or passes)
        return frozenset(tensor for tensor, known in sign.items() if known)

    def stage_layers(self, stage: int) -> range:
        """Return the indices of the layers of one stage, head included."""
        indices = [i for i, layer in enumerate(self.layers) if layer.stage == stage]
        return range(indices[0], indices[-1] + 1)
