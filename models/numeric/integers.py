"""A layer and a network in integers: what the NPU computes with, bit for bit (ADR 3, 75)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import QuantisationError
from ..graph.activations import Use
from ..graph.network import Exit, Layer, Network
from ..graph.shapes import Kind
from ..images.intake import Intake
from .unit import Unit
from .words import INT8, INT16, WORDS, Doubles, Integers, Stored, TensorFormat, Word

Floating = npt.NDArray["np.floating[Any]"]  # a string, as NumPy 1.21 cannot subscript it
Images = npt.NDArray[np.uint8] | Floating
Int64s = npt.NDArray[np.int64]

LARGEST_RESIDUAL_SHIFT = 31
MULTIPLIER_BITS = 17  # of a channel, at 8 bits
LARGEST_CHANNEL_SHIFT = 47  # S of a channel, at 8 bits
RESIDUAL_BITS = 16  # of a residual's multiplier, at 8 bits
FLOAT32_SUMS = 1 << 24  # whole numbers up to here are exact in float32
NO_EXPONENTS = np.zeros(1, np.int64)
NO_INTEGERS = np.zeros(0, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedLayer:
    """One layer in integers.

    At 16 bits y = clamp(rint((bias + sum(x * w) + (residual << residual_shift)) / 2**shift), lo, hi), where
    rint rounds half to even. At 8 bits a GEMM has q = rint((bias + sum(x * w)) * multiplier / 2**channel
    shift), a pool has its reduction for q, and y = clamp(rint((q + residual * residual_multiplier) /
    2**shift), lo, hi). A `unit` makes another word of y; a residual that it multiplies by is not added.

    weights int16 or int8 (groups, P, C / groups) with P ordered (kernel row, kernel column, channel), which
    tell the width; bias int64 (C,); `multipliers` and `shifts` int64 (C,) at 8 bits. All are empty for pools.
    `halo` is what stands around the input. The constructor proves from the sum of |w| that no sum leaves the
    accumulator, 48 or 32 bits, for any input.
    """

    layer: Layer
    weights: Stored = field(repr=False)
    bias: Int64s = field(repr=False)
    multipliers: Int64s = field(default_factory=lambda: NO_INTEGERS, repr=False)
    shifts: Int64s = field(default_factory=lambda: NO_INTEGERS, repr=False)
    shift: int = 0
    residual_shift: int = 0
    residual_multiplier: int = 0
    lo: int = INT16.lowest
    hi: int = INT16.highest
    halo: int = 0
    unit: Unit | None = None

    def __post_init__(self) -> None:
        """Refuse what the NPU cannot hold. Raises QuantisationError."""
        name, shape = self.layer.name, self.layer.shape
        gemm = self.layer.kind is Kind.GEMM
        expected = (shape.groups, shape.p, shape.c) if gemm else (0, 0, 0)
        if self.weights.shape != expected or self.weights.dtype not in (INT16.dtype, INT8.dtype):
            raise QuantisationError(
                f"layer '{name}' needs int16 or int8 weights {expected}, not {self.weights.dtype} {self.weights.shape}"
            )
        channels = self.layer.channels if gemm else 0
        self._check_channels("bias", self.bias, channels)
        scaled = channels if self.word is INT8 else 0
        self._check_channels("multipliers", self.multipliers, scaled, (1 << MULTIPLIER_BITS) - 1)
        self._check_channels("shifts", self.shifts, scaled, LARGEST_CHANNEL_SHIFT)
        self._check_scalars()
        if not self.word.lowest <= self.lo <= self.hi <= self.word.highest:
            raise QuantisationError(f"layer '{name}' needs int{self.bits} bounds lo <= hi, not {self.lo} and {self.hi}")
        self._check_unit()
        if self.accumulator_bits > self.word.sum_bits:
            raise QuantisationError(
                f"the accumulator of layer '{name}' must fit {self.word.sum_bits} bits for every input, and its weights can "
                f"drive it to {self.accumulator_bits} bits"
            )

    def _check_channels(self, what: str, values: Int64s, count: int, most: int | None = None) -> None:
        if values.shape != (count,) or values.dtype != np.int64:
            raise QuantisationError(
                f"layer '{self.layer.name}' needs an int64 {what} of {count}, not {values.dtype} {values.shape}"
            )
        if most is not None and count and not 0 <= values.min() <= values.max() <= most:
            raise QuantisationError(
                f"layer '{self.layer.name}' needs {what} of 0..{most}, not {values.min()}..{values.max()}"
            )

    def _check_scalars(self) -> None:
        name, most = self.layer.name, self.word.largest_shift
        if not 0 <= self.shift <= most or not 0 <= self.residual_shift <= LARGEST_RESIDUAL_SHIFT:
            raise QuantisationError(
                f"layer '{name}' needs a shift of 0..{most} and a residual shift of 0..{LARGEST_RESIDUAL_SHIFT}, "
                f"not {self.shift} and {self.residual_shift}"
            )
        if not 0 <= self.residual_multiplier < 1 << RESIDUAL_BITS:
            raise QuantisationError(
                f"layer '{name}' needs a residual multiplier of 0..{(1 << RESIDUAL_BITS) - 1}, not {self.residual_multiplier}"
            )
        if (self.residual_shift and self.word is INT8) or (self.residual_multiplier and self.word is INT16):
            raise QuantisationError(
                f"layer '{name}' needs a residual shift at 16 bits and a multiplier at 8, not {self.residual_shift} and "
                f"{self.residual_multiplier} at {self.bits}"
            )
        if self.shift and self.word is INT8 and self.layer.kind is Kind.GEMM and not self.layer.adds:
            raise QuantisationError(f"layer '{name}' adds no residual, so it needs a shift of 0, not {self.shift}")
        if not self.word.lowest <= self.halo <= self.word.highest or (self.halo and self.word is INT16):
            raise QuantisationError(f"layer '{name}' needs a halo of 0, or of an int8 at 8 bits, not {self.halo}")

    def _check_unit(self) -> None:
        name, unit = self.layer.name, self.unit
        use = None if self.layer.activation is None else self.layer.activation.use
        if (None if unit is None else unit.use) is not use:
            given = None if unit is None else unit.use
            raise QuantisationError(
                f"layer '{name}' needs a unit that does what its activation does, {use}, not {given}"
            )
        if unit is None:
            return
        if use in (Use.SLOPE, Use.AFFINE) and len(unit.pieces) != self.layer.channels:
            raise QuantisationError(
                f"layer '{name}' needs a piece for each of its {self.layer.channels} channels, not {len(unit.pieces)}"
            )
        if unit.bits != self.bits:
            raise QuantisationError(f"layer '{name}' needs a unit of {self.bits} bits, not {unit.bits}")

    @property
    def word(self) -> Word:
        """The kind of its words, by its weights."""
        return WORDS[8 * self.weights.dtype.itemsize]

    @property
    def bits(self) -> int:
        """Bits of a word."""
        return self.word.bits

    @cached_property
    def _largest_sums(self) -> list[int]:
        """The largest magnitude of each channel's bias plus partial sums, in any order, for any input; of a
        pool, that of its reduction.
        """
        if self.layer.kind is Kind.GEMM:
            sums = np.abs(self.weights.astype(np.int64)).sum(axis=1).reshape(-1)
            return [int(s) * -self.word.lowest + abs(int(b)) for s, b in zip(sums, self.bias, strict=True)]
        return [-self.word.lowest << (self.layer.pool_shift if self.layer.kind is Kind.SUM_POOL else 0)]

    @cached_property
    def accumulator_bits(self) -> int:
        """Bits of two's complement that hold every partial sum in every order, q and residual included, for
        any input.
        """
        worst = max(self._largest_sums)
        if self.layer.kind is not Kind.GEMM and not self.layer.adds:
            return worst.bit_length()  # -worst is held, and worst itself never comes
        if self.word is INT16:
            added = -self.word.lowest << self.residual_shift if self.layer.adds else 0
            return (worst + added).bit_length() + 1
        scales = zip(self._largest_sums, self.multipliers.tolist(), self.shifts.tolist(), strict=False)  # not a pool's
        scaled = [(largest * m >> n) + 1 for largest, m, n in scales] or [worst]
        added = -self.word.lowest * self.residual_multiplier if self.layer.adds else 0
        return int(max(worst, max(scaled) + added)).bit_length() + 1

    @cached_property
    def float_weights(self) -> npt.NDArray[Any]:
        """Weights (groups, P, C / groups) in floats in which every sum of their products with words is exact.

        At 16 bits they are float64, over 2**shift, and sums are below 2**47 units; at 8 bits float32 where
        sums stay within 24 bits.
        """
        if self.word is INT16:
            return np.ldexp(self.weights.astype(np.float64), -self.shift)
        return self.weights.astype(np.float32 if max(self._largest_sums) <= FLOAT32_SUMS else np.float64)

    @cached_property
    def float_bias(self) -> Doubles:
        """Bias (C,) in float64, over 2**shift at 16 bits; exact for the same reason."""
        return np.ldexp(self.bias.astype(np.float64), -self.shift if self.word is INT16 else 0)

    @cached_property
    def factors(self) -> Doubles:
        """Multipliers / 2**shifts (C,), exact; a sum of 32 bits times one has 49 bits at most."""
        return np.ldexp(self.multipliers.astype(np.float64), -self.shifts)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedNetwork:
    """A network in integers of one width: one QuantisedLayer per layer, in the same order, and the format of
    every tensor.

    `intake` is the part of the network's preprocessing that is left to the host; the first layers do the
    rest. `exponents` of the channels of a tensor that was equalised: the real number is times 2**exponent.
    `words` are the formats of words in front of activations, by `Layer.inner`.
    """

    network: Network
    layers: tuple[QuantisedLayer, ...]
    formats: Mapping[str, TensorFormat] = field(repr=False)
    intake: Intake
    exponents: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)
    words: Mapping[str, TensorFormat] = field(default_factory=dict, repr=False)

    @property
    def input_format(self) -> TensorFormat:
        """The input tensor's format."""
        return self.formats[self.network.input]

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits, in stage order."""
        return self.network.exits

    @property
    def word(self) -> Word:
        """The kind of its words."""
        return self.layers[0].word

    @property
    def bits(self) -> int:
        """Bits of a word: 16 or 8."""
        return self.word.bits

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of its words."""
        return self.word.dtype

    def units(self, layer: Layer) -> Doubles:
        """Return what a unit of a GEMM's sums is in real numbers, (channels,), at 8 bits."""
        own = next(q for q in self.layers if q.layer.name == layer.name)
        word = self.words[layer.inner] if layer.inner is not None else self.formats[layer.output]
        exponents = self.exponents.get(layer.output)
        part = slice(layer.output_channel, layer.output_channel + layer.channels)
        scales = np.ldexp(own.factors, -own.shift) * math.ldexp(word.gain, -word.fraction_bits)
        return scales if exponents is None else np.ldexp(scales, exponents[part])

    @cached_property
    def zeros(self) -> Mapping[str, int]:
        """The zero point of every tensor: what stands in halos, and where no layer writes."""
        return {name: own.zero for name, own in self.formats.items()}

    def quantise_input(self, images: Images) -> Stored:
        """Return images as stored words (N, height, width, channels).

        They are uint8 0..255, or floats of the range that the network declares (0..1 without a record).
        Raises DataError.
        """
        own = self.input_format
        return self.intake.codes(
            images, float(replace(own, zero=0).real(np.ones(1, np.int16))[0]), self.dtype, own.zero
        )

    def real(self, tensor: str, stored: Integers) -> Doubles:
        """Return the real values of a tensor from its stored ones (..., channels)."""
        return np.ldexp(self.formats[tensor].real(stored), self.exponents.get(tensor, NO_EXPONENTS))

    def in_units(self, tensor: str, real: Doubles) -> Doubles:
        """Return real values (..., channels) of a tensor in the units that its channels are stored in."""
        return np.ldexp(real, -self.exponents.get(tensor, NO_EXPONENTS))

    def logits(self, exit_index: int, stored: Integers) -> npt.NDArray[np.float64]:
        """Return the real logits of an exit from its stored ones, any shape."""
        tensor = self.network.exits[exit_index].logits
        return np.zeros(stored.shape) if tensor is None else self.formats[tensor].real(stored)

    def output(self, name: str, stored: Integers) -> npt.NDArray[np.float32]:
        """Return the real values of an output that is no exit, activation applied; stored is (N, *shape).

        Raises QuantisationError for a name that no output has.
        """
        match_ = next((output for output in self.network.outputs if output.name == name), None)
        if match_ is None:
            names = [output.name for output in self.network.outputs]
            raise QuantisationError(f"'{self.network.name}' must have an output '{name}', and it has {names}")
        return match_.activated(self.formats[match_.tensor].real(stored))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over geometry, formats, thresholds, intake and every integer."""
        facts: dict[str, Any] = {
            "tensors": {name: list(shape) for name, shape in self.network.tensors.items()},
            "layers": [layer.layer.facts() for layer in self.layers],
            "scalars": [[q.shift, q.residual_shift, q.lo, q.hi] for q in self.layers],
            "formats": {name: own.facts() for name, own in self.formats.items()},
            "exits": [asdict(exit) for exit in self.network.exits],
            "outputs": [output.facts() for output in self.network.outputs],
            "intake": self.intake.to_dict(),
        }
        if self.word is INT8:
            facts["word_bits"] = self.bits
            facts["residuals"] = [[q.residual_multiplier, q.halo] for q in self.layers]
        units = {q.layer.name: q.unit for q in self.layers if q.unit is not None}
        if units:
            facts["units"] = {
                name: [unit.use, unit.window, unit.shift, unit.lo, unit.hi] for name, unit in units.items()
            }
        sha = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())
        for q in self.layers:
            sha.update(q.weights.astype(f"<i{self.word.bytes}").tobytes())
            for channels in (q.bias, q.multipliers, q.shifts):
                sha.update(channels.astype("<i8").tobytes())
            if q.unit is not None:
                sha.update(q.unit.pieces.astype("<i2").tobytes())
        return sha.hexdigest()
