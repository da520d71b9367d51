"""Post-training quantisation to int16 with power-of-two scales (ADR 3), without retraining.

A tensor's format gives the real number of an int16: stored * 2**-fraction_bits * gain. Every refusal is one
sentence.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any  # noqa: F401 -- in a string

import numpy as np
import numpy.typing as npt

from ..errors import QuantisationError
from ..graph.activations import Use
from ..graph.network import Exit, Layer, Network, Parameters
from ..graph.shapes import Kind
from ..images.intake import Intake
from .equalisation import folded, settled, word_exponents, written_exponents
from .input_folding import fold_input
from .pieces import Lines, bits_to_constant, table
from .unit import LARGEST_UNIT_SHIFT, Unit
from .words import HEADROOM, INT16_MAX, INT16_MIN, Doubles, Format, Int16s, Integers, fraction_bits

Floating = npt.NDArray["np.floating[Any]"]  # a string, as NumPy 1.21 cannot subscript it
Images = npt.NDArray[np.uint8] | Floating

ACCUMULATOR_BITS = 48
LARGEST_SHIFT = 47
LARGEST_RESIDUAL_SHIFT = 31
MOST_BITS_GIVEN_UP = 12  # of a tensor's 16, for the sake of what is added to or pooled with it
MOST_RANGE = 1e30
NO_EXPONENTS = np.zeros(1, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedLayer:
    """One layer in integers: y = clamp(round_half_even((bias + sum(x * w) + (residual << residual_shift)) /
    2**shift), lo, hi).

    A `unit` makes another word of y; a residual that it multiplies by is not added.

    weights int16 (groups, P, C / groups) with P ordered (kernel row, kernel column, channel), bias int64
    (C,); both are empty for pools. The constructor proves from the sum of |w| that the 48-bit accumulator
    cannot wrap, for any input.
    """

    layer: Layer
    weights: Int16s = field(repr=False)
    bias: npt.NDArray[np.int64] = field(repr=False)
    shift: int = 0
    residual_shift: int = 0
    lo: int = INT16_MIN
    hi: int = INT16_MAX
    unit: Unit | None = None

    def __post_init__(self) -> None:
        name, shape = self.layer.name, self.layer.shape
        expected = (shape.groups, shape.p, shape.c) if self.layer.kind is Kind.GEMM else (0, 0, 0)
        channels = self.layer.channels if self.layer.kind is Kind.GEMM else 0
        if self.weights.shape != expected or self.weights.dtype != np.int16:
            raise QuantisationError(
                f"layer '{name}' needs int16 weights {expected}, not {self.weights.dtype} {self.weights.shape}"
            )
        if self.bias.shape != (channels,) or self.bias.dtype != np.int64:
            raise QuantisationError(
                f"layer '{name}' needs an int64 bias of {channels}, not {self.bias.dtype} {self.bias.shape}"
            )
        if not 0 <= self.shift <= LARGEST_SHIFT or not 0 <= self.residual_shift <= LARGEST_RESIDUAL_SHIFT:
            raise QuantisationError(
                f"layer '{name}' needs a shift of 0..{LARGEST_SHIFT} and a residual shift of 0..{LARGEST_RESIDUAL_SHIFT}, "
                f"not {self.shift} and {self.residual_shift}"
            )
        if not INT16_MIN <= self.lo <= self.hi <= INT16_MAX:
            raise QuantisationError(f"layer '{name}' needs int16 bounds lo <= hi, not {self.lo} and {self.hi}")
        use = None if self.layer.activation is None else self.layer.activation.use
        if (None if self.unit is None else self.unit.use) is not use:
            given = None if self.unit is None else self.unit.use
            raise QuantisationError(
                f"layer '{name}' needs a unit that does what its activation does, {use}, not {given}"
            )
        if use in (Use.SLOPE, Use.AFFINE) and self.unit is not None and len(self.unit.pieces) != self.layer.channels:
            raise QuantisationError(
                f"layer '{name}' needs a piece for each of its {self.layer.channels} channels, not {len(self.unit.pieces)}"
            )
        if self.accumulator_bits > ACCUMULATOR_BITS:
            raise QuantisationError(
                f"the accumulator of layer '{name}' must fit {ACCUMULATOR_BITS} bits for every input, and its weights can drive "
                f"it to {self.accumulator_bits} bits"
            )

    @cached_property
    def accumulator_bits(self) -> int:
        """Bits of two's complement that hold every partial sum in every order, residual included, for any
        int16 input.
        """
        if self.layer.kind is Kind.GEMM:
            sums = np.abs(self.weights.astype(np.int64)).sum(axis=1).reshape(-1)
            worst = max(int(s) * -INT16_MIN + abs(int(b)) for s, b in zip(sums, self.bias, strict=True))
        elif self.layer.adds:
            worst = -INT16_MIN << _pool_bits(self.layer)
        else:
            return 16 + _pool_bits(self.layer)
        if self.layer.adds:
            worst += -INT16_MIN << self.residual_shift
        return worst.bit_length() + 1

    @cached_property
    def float_weights(self) -> npt.NDArray[np.float64]:
        """Weights over 2**shift in float64; exact, as is every sum of their products with int16 (below
        2**47 units).
        """
        return np.ldexp(self.weights.astype(np.float64), -self.shift)

    @cached_property
    def float_bias(self) -> npt.NDArray[np.float64]:
        """Bias over 2**shift in float64, exact for the same reason."""
        return np.ldexp(self.bias.astype(np.float64), -self.shift)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedNetwork:
    """A network in integers: one QuantisedLayer per layer, in the same order, and the format of every
    tensor.

    `intake` is the part of the network's preprocessing that is left to the host; the first layers do the
    rest. `exponents` of the channels of a tensor that was equalised: the real number is times 2**exponent.
    """

    network: Network
    layers: tuple[QuantisedLayer, ...]
    formats: Mapping[str, Format] = field(repr=False)
    intake: Intake
    exponents: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @property
    def input_format(self) -> Format:
        """The input tensor's format."""
        return self.formats[self.network.input]

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits, in stage order."""
        return self.network.exits

    def quantise_input(self, images: Images) -> Int16s:
        """Return images as stored int16 (N, height, width, channels).

        They are uint8 0..255, or floats of the range that the network declares (0..1 without a record).
        Raises DataError.
        """
        return self.intake.codes(images, float(self.input_format.real(np.ones(1, np.int16))[0]))

    def real(self, tensor: str, stored: Integers) -> Doubles:
        """Return the real values of a tensor from its stored ones (..., channels)."""
        return np.ldexp(self.formats[tensor].real(stored), self.exponents.get(tensor, NO_EXPONENTS))

    def in_units(self, tensor: str, real: Doubles) -> Doubles:
        """Return real values (..., channels) of a tensor in the units that its channels are stored in."""
        return np.ldexp(real, -self.exponents.get(tensor, NO_EXPONENTS))

    def logits(self, exit_index: int, stored: Integers) -> npt.NDArray[np.float64]:
        """Return the real logits of an exit from its stored int16 ones, any shape."""
        tensor = self.network.exits[exit_index].logits
        return np.zeros(stored.shape) if tensor is None else self.formats[tensor].real(stored)

    def output(self, name: str, stored: Integers) -> npt.NDArray[np.float32]:
        """Return the real values of an output that is no exit, activation applied; stored is (N, *shape)."""
        found = next((one for one in self.network.outputs if one.name == name), None)
        if found is None:
            names = [one.name for one in self.network.outputs]
            raise QuantisationError(f"'{self.network.name}' must have an output '{name}', and it has {names}")
        return found.activated(self.formats[found.tensor].real(stored))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over geometry, formats, thresholds, intake and every integer."""
        facts = {
            "tensors": {name: list(shape) for name, shape in self.network.tensors.items()},
            "layers": [layer.layer.facts() for layer in self.layers],
            "scalars": [[q.shift, q.residual_shift, q.lo, q.hi] for q in self.layers],
            "formats": {name: asdict(one) for name, one in self.formats.items()},
            "exits": [asdict(exit) for exit in self.network.exits],
            "outputs": [output.facts() for output in self.network.outputs],
            "intake": self.intake.to_dict(),
        }
        units = {q.layer.name: q.unit for q in self.layers if q.unit is not None}
        if units:
            facts["units"] = {name: [one.use, one.window, one.shift, one.lo, one.hi] for name, one in units.items()}
        sha = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())
        for q in self.layers:
            sha.update(q.weights.astype("<i2").tobytes())
            sha.update(q.bias.astype("<i8").tobytes())
            if q.unit is not None:
                sha.update(q.unit.pieces.astype("<i2").tobytes())
        return sha.hexdigest()


def quantise(network: Network, calibration_images: Images | None = None, weight_bits: int = 16) -> QuantisedNetwork:
    """Quantise a network, with ranges from `calibration_images` (as `Network.intake` takes them) or from the
    model file, whose equalisation belongs to its ranges.

    Fewer `weight_bits` than 16 are for studies: weights are still stored as int16.
    """
    if not 2 <= weight_bits <= 16:
        raise QuantisationError(f"weights must have 2 to 16 bits, not {weight_bits}")
    _refuse_padded_max_pools(network)
    if calibration_images is not None:
        network = replace(network, equalisation={})
    exponents = settled(network)
    intake, parameters = fold_input(network)
    inner = replace(network, parameters=folded(network, parameters))
    ranges = _ranges(network, calibration_images, intake)
    gains = network.gains
    gemms = [layer for layer in network.layers if layer.kind is Kind.GEMM]
    weights = {layer.name: _real_weights(inner, layer, gains) for layer in gemms}
    biases = {layer.name: _real_bias(inner, layer, gains) for layer in gemms}
    lines = {layer.name: _lines(inner, layer, gains) for layer in network.layers}
    bits = {name: fraction_bits(HEADROOM * ranges[name], INT16_MAX) for name in network.ranged}
    for layer in gemms:
        bits[_word(layer)] = max(bits[_word(layer)], _bits_to_constant(layer, bits, gains))
    weight_fraction = _settle(inner, bits, weights, biases, lines, weight_bits)
    layers = tuple(
        _quantise_gemm(
            layer,
            bits,
            weights[layer.name],
            biases[layer.name],
            weight_fraction[layer.name],
            weight_bits,
            _bounds(layer, bits, gains, exponents),
            _unit(layer, bits, gains, exponents, lines[layer.name]),
        )
        if layer.kind is Kind.GEMM
        else _quantise_pool(
            layer,
            bits,
            _bounds(layer, bits, gains, exponents),
            _unit(layer, bits, gains, exponents, lines[layer.name]),
        )
        for layer in network.layers
    )
    formats = {name: Format(fraction_bits=bits[name], gain=gains[name]) for name in network.tensors}
    return QuantisedNetwork(network=network, layers=layers, formats=formats, intake=intake, exponents=exponents)


def _ranges(network: Network, images: Images | None, intake: Intake) -> Mapping[str, float]:
    ranges: Mapping[str, float] = network.calibration
    if images is not None:
        from .float_reference import tensor_ranges

        ranges = tensor_ranges(network, images)
    if network.preprocessing is not None:  # the declared range bounds the input, and folding changes its unit
        ranges = {**ranges, network.input: intake.largest}
    missing = [name for name in network.ranged if name not in ranges]
    if missing:
        raise QuantisationError(
            f"quantising '{network.name}' needs the range of every tensor, and '{missing[0]}' has none: give images with "
            "--data, or put ranges into the file with `fluidnpu prepare MODEL --calibrate DATA --out NEW.onnx`"
        )
    bad = [name for name in network.ranged if not 0 <= ranges[name] <= MOST_RANGE]
    if bad:
        raise QuantisationError(
            f"the calibrated range of tensor '{bad[0]}' must be 0..{MOST_RANGE:g}, not {ranges[bad[0]]}"
        )
    return ranges


def _refuse_padded_max_pools(network: Network) -> None:
    for layer in network.layers:
        padded = layer.kind is Kind.MAX_POOL and max(layer.padding) > 0
        if padded and not network.reads_no_negatives(layer):
            raise QuantisationError(
                f"max pool '{layer.name}' is padded with stored zeros, so its input '{layer.input}' must be known not to be "
                f"negative (end in a ReLU), and it is not"
            )


def _real_weights(network: Network, layer: Layer, gains: Mapping[str, float]) -> npt.NDArray[np.float64]:
    if layer.name not in network.parameters:
        raise QuantisationError(
            f"layer '{layer.name}' must have weights, and network '{network.name}' brings none for it"
        )
    return network.parameters[layer.name].weights.astype(np.float64) * (gains[layer.input] / gains[_word(layer)])


def _real_bias(network: Network, layer: Layer, gains: Mapping[str, float]) -> Doubles:
    return network.parameters[layer.name].bias.astype(np.float64) / gains[_word(layer)]


def _word(layer: Layer) -> str:
    """Return the name that the core's word goes by among ranges, bits and gains."""
    return layer.inner or layer.output


def _pool_bits(layer: Layer) -> int:
    """Return the bits that a pool's reduction adds to its words."""
    return layer.pool_shift if layer.kind is Kind.SUM_POOL else 0


def _bits_to_constant(layer: Layer, bits: Mapping[str, int], gains: Mapping[str, float]) -> int:
    """Return the fraction bits of a layer's word if its activation is constant beyond, else its own.

    The sums saturate there, and are counted, but nothing is lost.
    """
    target = Format(fraction_bits=bits[layer.output], gain=gains[layer.output])
    constant = None if layer.activation is None else bits_to_constant(layer.activation, target)
    return bits[_word(layer)] if constant is None else constant


def _lines(network: Network, layer: Layer, gains: Mapping[str, float]) -> Lines | None:
    """Return the lines of a layer's channels with the gains of both sides; None where it has none."""
    if layer.activation is None or layer.activation.use not in (Use.SLOPE, Use.AFFINE):
        return None
    own = network.parameters.get(layer.name, Parameters())
    if not len(own.slopes):
        raise QuantisationError(
            f"layer '{layer.name}' must have slopes, and network '{network.name}' brings none for it"
        )
    factor = gains[_word(layer)] / gains[layer.output]
    offsets = own.offsets if len(own.offsets) else np.zeros(layer.channels)
    return Lines(
        slopes=own.slopes.astype(np.float64) * factor, offsets=offsets.astype(np.float64) / gains[layer.output]
    )


def _unit(
    layer: Layer,
    bits: Mapping[str, int],
    gains: Mapping[str, float],
    exponents: Mapping[str, npt.NDArray[np.int64]],
    lines: Lines | None,
) -> Unit | None:
    if layer.activation is None:
        return None
    use, word, target = layer.activation.use, _word(layer), bits[layer.output]
    if use is Use.TABLE:
        source = Format(fraction_bits=bits[word], gain=gains[word])
        return table(layer.activation, source, Format(fraction_bits=target, gain=gains[layer.output]))
    exponent = int(written_exponents(layer, exponents)[0])  # all are alike where a bound is not zero
    lo, hi = Format(fraction_bits=target - exponent, gain=gains[layer.output]).bounds(layer.activation.clip)
    if lines is not None:
        return lines.unit(use, bits[word], target, lo, hi)
    return Unit(use=use, shift=bits[word] + bits[str(layer.residual)] - target, lo=lo, hi=hi)


def _settle(
    network: Network,
    bits: dict[str, int],
    weights: Mapping[str, Doubles],
    biases: Mapping[str, Doubles],
    lines: Mapping[str, Lines | None],
    weight_bits: int,
) -> dict[str, int]:
    """Lower fraction bits until every layer's shifts are legal; return the fraction bits of each GEMM's
    weights.

    Bits only fall, by whole steps and to a floor, so this ends.
    """
    largest = (1 << (weight_bits - 1)) - 1
    weight_fraction = {name: fraction_bits(float(np.abs(w).max()), largest) for name, w in weights.items()}
    sums = {name: float(np.abs(w).sum(axis=1).max()) for name, w in weights.items()}
    largest_bias = {name: float(np.abs(one).max(initial=0.0)) for name, one in biases.items()}
    for layer in network.layers:  # a pass has no finer steps than its operand, as a difference that cancels asks for
        if layer.kind is not Kind.GEMM:
            bends = layer.activation is not None and layer.activation.use is Use.SLOPE  # and stores its words' steps
            for name in (_word(layer), *([layer.output] if bends else [])):
                bits[name] = min(bits[name], bits[layer.input] + _pool_bits(layer))
    floor = {name: value - MOST_BITS_GIVEN_UP for name, value in bits.items()}
    added = _only_added(network)
    changed = True
    while changed:
        before = dict(bits), dict(weight_fraction)
        for layer in network.layers:
            if layer.kind is Kind.GEMM:
                _settle_gemm(layer, bits, sums[layer.name], largest_bias[layer.name], weight_fraction)
            else:
                _settle_pool(layer, bits)
            _settle_unit(layer, bits, lines[layer.name])
            for name in (layer.input, _word(layer), layer.output, *([layer.residual] if layer.residual else [])):
                if bits[name] < floor[name] and name not in added:
                    raise QuantisationError(
                        f"tensor '{name}' must keep a useful resolution, and layer '{layer.name}' leaves it none: its weights are too "
                        f"large for {weight_bits} bits beside what it reads"
                    )
        changed = before != (bits, weight_fraction)
    return weight_fraction


def _only_added(network: Network) -> set[str]:
    """Return the tensors that passes add to others and nothing else reads: the sum's step is theirs."""
    read: dict[str, bool] = {}
    for layer in network.layers:
        for name in (layer.input, *([layer.residual] if layer.residual else [])):
            read[name] = read.get(name, True) and layer.adds and layer.kind is Kind.MAX_POOL
    return {name for name, only in read.items() if only} - network.given_out


def _settle_gemm(
    layer: Layer, bits: dict[str, int], weight_sum: float, largest_bias: float, weight_fraction: dict[str, int]
) -> None:
    """Settle one layer; `weight_sum` is the largest sum of |w| over its outputs."""
    source = bits[layer.input]
    most = bits[_word(layer)] + LARGEST_SHIFT - source
    worst = weight_sum * -INT16_MIN
    worst += largest_bias * 2.0**source
    if layer.adds:
        most = min(most, bits[str(layer.residual)] + LARGEST_RESIDUAL_SHIFT - source)
        worst += -INT16_MIN * 2.0 ** (source - bits[str(layer.residual)])
    if worst > 0:  # half a bit aside for the rounding of weights and bias
        most = min(most, math.floor(ACCUMULATOR_BITS - 1.5 - math.log2(worst)))
    weight_fraction[layer.name] = min(weight_fraction[layer.name], most)
    accumulator = source + weight_fraction[layer.name]
    bits[_word(layer)] = min(bits[_word(layer)], accumulator)
    if layer.adds:
        bits[str(layer.residual)] = min(bits[str(layer.residual)], accumulator)


def _settle_pool(layer: Layer, bits: dict[str, int]) -> None:
    own, word = _pool_bits(layer), _word(layer)
    bits[word] = min(bits[word], bits[layer.input] + own)
    bits[layer.input] = min(bits[layer.input], bits[word] + LARGEST_SHIFT - own)
    if layer.kind is Kind.MAX_POOL and word == layer.output and not layer.adds:  # its words stay as they are
        bits[layer.input] = bits[word]
    if layer.adds:
        residual = str(layer.residual)
        bits[residual] = min(bits[residual], bits[layer.input] + own)
        bits[layer.input] = min(bits[layer.input], bits[residual] + LARGEST_RESIDUAL_SHIFT - own)


def _settle_unit(layer: Layer, bits: dict[str, int], lines: Lines | None) -> None:
    word, use = _word(layer), None if layer.activation is None else layer.activation.use
    if use is Use.SLOPE:  # a word that is not negative stays as it is
        bits[word] = bits[layer.output] = min(bits[word], bits[layer.output])
    elif use is Use.PRODUCT:
        both = bits[word] + bits[str(layer.residual)]
        bits[layer.output] = min(bits[layer.output], both)
        bits[word] -= max(0, both - bits[layer.output] - LARGEST_UNIT_SHIFT)
    elif lines is not None:
        steepest, farthest = (float(np.abs(some).max()) for some in (lines.slopes, lines.offsets))
        most = fraction_bits(farthest, INT16_MAX) if farthest else bits[layer.output]
        most = min(most, bits[word] + fraction_bits(steepest, INT16_MAX)) if steepest else most
        bits[layer.output] = min(bits[layer.output], most)


def _quantise_pool(layer: Layer, bits: Mapping[str, int], bounds: tuple[int, int], unit: Unit | None) -> QuantisedLayer:
    accumulator = bits[layer.input] + _pool_bits(layer)
    lo, hi = bounds
    return QuantisedLayer(
        layer=layer,
        weights=np.zeros((0, 0, 0), np.int16),
        bias=np.zeros(0, np.int64),
        shift=accumulator - bits[_word(layer)],
        residual_shift=accumulator - bits[str(layer.residual)] if layer.adds else 0,
        lo=lo,
        hi=hi,
        unit=unit,
    )


def _quantise_gemm(
    layer: Layer,
    bits: Mapping[str, int],
    real: Doubles,
    bias: Doubles,
    weight_fraction: int,
    weight_bits: int,
    bounds: tuple[int, int],
    unit: Unit | None,
) -> QuantisedLayer:
    lo, hi = bounds
    largest = (1 << (weight_bits - 1)) - 1
    stored = np.clip(np.rint(np.ldexp(real, weight_fraction)), -largest, largest)
    if real.any() and not stored.any():
        raise QuantisationError(
            f"the weights of layer '{layer.name}' must not all round to zero, and beside its bias and residual they do"
        )
    accumulator = bits[layer.input] + weight_fraction
    return QuantisedLayer(
        layer=layer,
        weights=stored.astype(np.int16),
        bias=np.rint(np.ldexp(bias, accumulator)).astype(np.int64),
        shift=accumulator - bits[_word(layer)],
        residual_shift=accumulator - bits[str(layer.residual)] if layer.adds else 0,
        lo=lo,
        hi=hi,
        unit=unit,
    )


def _bounds(
    layer: Layer, bits: Mapping[str, int], gains: Mapping[str, float], exponents: Mapping[str, npt.NDArray[np.int64]]
) -> tuple[int, int]:
    """Return the clip of a layer's word in stored units, within int16."""
    exponent = int(word_exponents(layer, exponents)[0])  # all are alike where a bound is not zero
    return Format(fraction_bits=bits[_word(layer)] - exponent, gain=gains[_word(layer)]).bounds(layer.clip)
