"""Post-training quantisation to int16 (ADR 3) or int8 (ADR 75), without retraining.

A tensor's format gives the real number of a word: stored * 2**-fraction_bits * gain. At 16 bits gains come
from average pools alone; at 8 bits tensors that no pool, sum or product ties to others have one of their own,
so that their largest value is the largest word. Every refusal is one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..errors import QuantisationError
from ..graph.activations import Use
from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind
from ..images.intake import Intake
from .channel_scales import Zeros, scale_weights
from .equalisation import fold_exponents, settle_exponents, word_exponents, written_exponents
from .given_scales import grid_scales, with_given_scales
from .input_folding import fold_input
from .integers import LARGEST_RESIDUAL_SHIFT, RESIDUAL_BITS, Images, QuantisedLayer, QuantisedNetwork
from .pieces import ChannelLines, awake, bits_to_constant, table
from .scaling import free_gains
from .unit import LARGEST_UNIT_SHIFT, Unit
from .words import INT8, INT16, WORDS, Doubles, TensorFormat, Word, fraction_bits

LEAST_BITS = 4  # that a tensor keeps of its words, whatever is added to or pooled with it
MOST_RANGE = 1e30


def quantise(
    network: Network, calibration_images: Images | None = None, weight_bits: int | None = None, *, bits: int = 16
) -> QuantisedNetwork:
    """Quantise a network to words of 16 or 8 bits.

    Ranges come from `calibration_images` (N, ...), as `Network.intake` takes them, or from the model file,
    whose equalisation and corrections belong to its ranges.

    Fewer `weight_bits` than 16 are for studies at 16 bits: weights are still stored as int16. Raises
    QuantisationError for other numbers of bits, and for a network that its words cannot hold.
    """
    if bits not in WORDS:
        raise QuantisationError(f"words must have 16 or 8 bits, not {bits}")
    width = WORDS[bits]
    weight_bits = bits if weight_bits is None else weight_bits
    if not 2 <= weight_bits <= 16:
        raise QuantisationError(f"weights must have 2 to 16 bits, not {weight_bits}")
    if width is not INT16 and weight_bits != bits:
        raise QuantisationError(f"weights of {bits}-bit words must have {bits} bits, not {weight_bits}")
    if width is not INT16:
        network = with_given_scales(network)
    _refuse_padded_max_pools(network)
    if calibration_images is not None:
        network = replace(network, equalisation={}, corrections={})
        if width is not INT16:
            from .corrections import choose_corrections
            from .float_reference import tensor_ranges

            network = network.recalibrated(tensor_ranges(network, calibration_images))
            if not network.grids:  # a file's own scales come with its own biases
                plain = quantise(network, bits=bits)
                network = replace(network, corrections=choose_corrections(plain, calibration_images))
            calibration_images = None
    exponents = settle_exponents(network)
    own = replace(network, parameters=_corrected(network)) if width is not INT16 else network
    grids = network.grids if width is not INT16 else {}
    if network.input in grids:  # which is not in pixels
        intake, parameters = network.intake, own.parameters
    else:
        intake, parameters = fold_input(own, centred=width is not INT16)
    inner = replace(network, parameters=fold_exponents(network, parameters))
    ranges = _ranges(network, calibration_images, intake)
    gains = network.gains
    if width is not INT16:
        ranges = _awake(network, ranges, width)
        gains, ranges = free_gains(network, ranges, width)
        gains = {name: grids[name][0] if name in grids else gain for name, gain in gains.items()}
    gemms = [layer for layer in network.layers if layer.kind is Kind.GEMM]
    weights = {layer.name: _real_weights(inner, layer, gains) for layer in gemms}
    biases = {layer.name: _real_bias(inner, layer, gains) for layer in gemms}
    lines = {layer.name: _lines(inner, layer, gains) for layer in network.layers}
    fractions = {name: fraction_bits(width.headroom * ranges[name], width.highest) for name in network.ranged}
    fractions |= dict.fromkeys(grids, 0)  # the gain says it all
    for layer in gemms:
        constant = _bits_to_constant(layer, fractions, gains, width)
        fractions[_word(layer)] = max(fractions[_word(layer)], constant)
    weight_fraction = _settle(inner, fractions, weights, biases, lines, weight_bits, width)
    zeros = {name: zero for name, (_, zero) in grids.items()}
    layers = []
    for layer in network.layers:
        bounds = _bounds(layer, fractions, gains, exponents, width, zeros)
        unit = _unit(layer, fractions, gains, exponents, lines[layer.name], width, zeros)
        if layer.kind is not Kind.GEMM:
            made = _quantise_pool(layer, fractions, bounds, unit, width)
            layers.append(replace(made, halo=zeros.get(layer.input, 0)))
            continue
        real, bias = weights[layer.name], biases[layer.name]
        if width is INT16:
            fraction = weight_fraction[layer.name]
            made = _quantise_gemm(layer, fractions, real, bias, fraction, weight_bits, bounds, unit)
        else:
            made = _scaled_gemm(layer, fractions, gains, real, bias, bounds, unit, zeros)
        layers.append(made)
    formats = {
        name: TensorFormat(fraction_bits=fractions[name], gain=gains[name], zero=zeros.get(name, 0))
        for name in network.ranged
    }
    words = {name: formats.pop(name) for name in network.ranged if name not in network.tensors}
    return QuantisedNetwork(
        network=network, layers=tuple(layers), formats=formats, intake=intake, exponents=exponents, words=words
    )


def _corrected(network: Network) -> Mapping[str, Parameters]:
    """Return the parameters with the biases that the corrections make."""
    return {
        name: replace(own, bias=own.bias + np.array(network.corrections[name], np.float32))
        if name in network.corrections
        else own
        for name, own in network.parameters.items()
    }


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


def _awake(network: Network, ranges: Mapping[str, float], width: Word) -> Mapping[str, float]:
    """Return the ranges, of words in front of tables only as far as the function there still changes.

    SiLU and the like are constant far below zero, where sums often reach further than above: words saturate
    there, and are counted, but nothing is lost.
    """
    spans = dict(ranges)
    for layer in network.layers:
        if layer.inner is not None and layer.activation is not None:
            gains = network.gains[layer.inner], network.gains[layer.output]
            most = awake(layer.activation, spans[layer.inner] * gains[0], spans[layer.output] * gains[1], width)
            spans[layer.inner] = most / gains[0]
    return spans


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


def _bits_to_constant(layer: Layer, bits: Mapping[str, int], gains: Mapping[str, float], width: Word) -> int:
    """Return the fraction bits of a layer's word if its activation is constant beyond, else its own.

    The sums saturate there, and are counted, but nothing is lost.
    """
    target = TensorFormat(fraction_bits=bits[layer.output], gain=gains[layer.output])
    constant = (
        None if layer.activation is None else bits_to_constant(layer.activation, target, gains[_word(layer)], width)
    )
    return bits[_word(layer)] if constant is None else constant


def _lines(network: Network, layer: Layer, gains: Mapping[str, float]) -> ChannelLines | None:
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
    return ChannelLines(
        slopes=own.slopes.astype(np.float64) * factor, offsets=offsets.astype(np.float64) / gains[layer.output]
    )


def _unit(
    layer: Layer,
    bits: Mapping[str, int],
    gains: Mapping[str, float],
    exponents: Mapping[str, npt.NDArray[np.int64]],
    lines: ChannelLines | None,
    width: Word,
    zeros: Mapping[str, int],
) -> Unit | None:
    if layer.activation is None:
        return None
    use, word, target = layer.activation.use, _word(layer), bits[layer.output]
    if use is Use.TABLE:
        source = TensorFormat(fraction_bits=bits[word], gain=gains[word])
        written = TensorFormat(fraction_bits=target, gain=gains[layer.output], zero=zeros.get(layer.output, 0))
        return table(layer.activation, source, written, width)
    exponent = int(written_exponents(layer, exponents)[0])  # all are alike where a bound is not zero
    lo, hi = TensorFormat(fraction_bits=target - exponent, gain=gains[layer.output]).bounds(
        layer.activation.clip, width
    )
    if lines is not None:
        return lines.unit(use, bits[word], target, lo, hi, width)
    return Unit(use=use, shift=bits[word] + bits[str(layer.residual)] - target, lo=lo, hi=hi, bits=width.bits)


def _settle(
    network: Network,
    bits: dict[str, int],
    weights: Mapping[str, Doubles],
    biases: Mapping[str, Doubles],
    lines: Mapping[str, ChannelLines | None],
    weight_bits: int,
    width: Word,
) -> dict[str, int]:
    """Lower fraction bits until every layer's shifts are legal; return the fraction bits of each GEMM's
    weights.

    Bits only fall, by whole steps and to a floor, so this ends. At 8 bits a GEMM's sums must fit 32 bits in
    steps of its word, and its channels' multipliers take up the rest.
    """
    largest = (1 << (weight_bits - 1)) - 1
    weight_fraction = {name: fraction_bits(float(np.abs(w).max()), largest) for name, w in weights.items()}
    sums = {name: float(np.abs(w).sum(axis=1).max()) for name, w in weights.items()}
    largest_bias = {name: float(np.abs(bias).max(initial=0.0)) for name, bias in biases.items()}
    for layer in network.layers:  # a pass has no finer steps than its operand, as a difference that cancels asks for
        if layer.kind is not Kind.GEMM:
            bends = layer.activation is not None and layer.activation.use is Use.SLOPE  # and stores its words' steps
            for name in (_word(layer), *([layer.output] if bends else [])):
                bits[name] = min(bits[name], bits[layer.input] + _pool_bits(layer))
    if width is not INT16:
        for layer in network.layers:
            if layer.kind is Kind.GEMM:
                _settle_scaled(layer, bits, sums[layer.name], largest_bias[layer.name])
    floor = {name: value - (width.bits - LEAST_BITS) for name, value in bits.items()}
    added = _only_added(network)
    changed = True
    while changed:
        before = dict(bits), dict(weight_fraction)
        for layer in network.layers:
            if layer.kind is not Kind.GEMM:
                _settle_pool(layer, bits, width)
            elif width is INT16:
                _settle_gemm(layer, bits, sums[layer.name], largest_bias[layer.name], weight_fraction)
            else:
                _settle_scaled(layer, bits, sums[layer.name], largest_bias[layer.name])
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
    most = bits[_word(layer)] + INT16.largest_shift - source
    worst = weight_sum * -INT16.lowest
    worst += largest_bias * 2.0**source
    if layer.adds:
        most = min(most, bits[str(layer.residual)] + LARGEST_RESIDUAL_SHIFT - source)
        worst += -INT16.lowest * 2.0 ** (source - bits[str(layer.residual)])
    if worst > 0:  # half a bit aside for the rounding of weights and bias
        most = min(most, math.floor(INT16.sum_bits - 1.5 - math.log2(worst)))
    weight_fraction[layer.name] = min(weight_fraction[layer.name], most)
    accumulator = source + weight_fraction[layer.name]
    bits[_word(layer)] = min(bits[_word(layer)], accumulator)
    if layer.adds:
        bits[str(layer.residual)] = min(bits[str(layer.residual)], accumulator)


def _settle_scaled(layer: Layer, bits: dict[str, int], weight_sum: float, largest_bias: float) -> None:
    """Settle one layer at 8 bits; a bit of 32 is kept for its residual and for rounding."""
    worst = math.ldexp(weight_sum * -INT8.lowest, -bits[layer.input]) + largest_bias
    if worst > 0:
        word = _word(layer)
        bits[word] = min(bits[word], math.floor(INT8.sum_bits - 2 - math.log2(worst)))


def _settle_pool(layer: Layer, bits: dict[str, int], width: Word) -> None:
    own, word = _pool_bits(layer), _word(layer)
    bits[word] = min(bits[word], bits[layer.input] + own)
    bits[layer.input] = min(bits[layer.input], bits[word] + width.largest_shift - own)
    if layer.kind is Kind.MAX_POOL and word == layer.output and not layer.adds:  # its words stay as they are
        bits[layer.input] = bits[word]
    if layer.adds:
        residual = str(layer.residual)
        bits[residual] = min(bits[residual], bits[layer.input] + own)
        bits[layer.input] = min(bits[layer.input], bits[residual] + _largest_residual_shift(width) - own)


def _largest_residual_shift(width: Word) -> int:
    return LARGEST_RESIDUAL_SHIFT if width is INT16 else RESIDUAL_BITS - 1


def _settle_unit(layer: Layer, bits: dict[str, int], lines: ChannelLines | None) -> None:
    word, use = _word(layer), None if layer.activation is None else layer.activation.use
    if use is Use.SLOPE:  # a word that is not negative stays as it is
        bits[word] = bits[layer.output] = min(bits[word], bits[layer.output])
    elif use is Use.PRODUCT:
        both = bits[word] + bits[str(layer.residual)]
        bits[layer.output] = min(bits[layer.output], both)
        bits[word] -= max(0, both - bits[layer.output] - LARGEST_UNIT_SHIFT)
    elif lines is not None:
        steepest, farthest = (float(np.abs(values).max()) for values in (lines.slopes, lines.offsets))
        most = fraction_bits(farthest, INT16.highest) if farthest else bits[layer.output]
        most = min(most, bits[word] + fraction_bits(steepest, INT16.highest)) if steepest else most
        bits[layer.output] = min(bits[layer.output], most)


def _quantise_pool(
    layer: Layer, bits: Mapping[str, int], bounds: tuple[int, int], unit: Unit | None, width: Word
) -> QuantisedLayer:
    accumulator = bits[layer.input] + _pool_bits(layer)
    added = accumulator - bits[str(layer.residual)] if layer.adds else 0
    lo, hi = bounds
    return QuantisedLayer(
        layer=layer,
        weights=np.zeros((0, 0, 0), width.dtype),
        bias=np.zeros(0, np.int64),
        shift=accumulator - bits[_word(layer)],
        residual_shift=added if width is INT16 else 0,
        residual_multiplier=1 << added if width is not INT16 and layer.adds else 0,
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
    _refuse_zeros(layer, real, stored)
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


def _scaled_gemm(
    layer: Layer,
    bits: Mapping[str, int],
    gains: Mapping[str, float],
    real: Doubles,
    bias: Doubles,
    bounds: tuple[int, int],
    unit: Unit | None,
    zeros: Mapping[str, int],
) -> QuantisedLayer:
    """Return a GEMM at 8 bits; where a file gives zero points, on the grid of its weights."""
    word, residual = _word(layer), str(layer.residual)
    added = math.ldexp(gains[residual] / gains[word], bits[word] - bits[residual]) if layer.adds else None
    steps = np.ldexp(real, bits[word] - bits[layer.input])
    made = scale_weights(
        layer.name,
        steps,
        np.ldexp(bias, bits[word]),
        added,
        Zeros(read=zeros.get(layer.input, 0), written=zeros.get(word, 0), added=zeros.get(residual, 0)),
        grid_scales(steps) if zeros else None,
    )
    _refuse_zeros(layer, real, made.weights)
    lo, hi = bounds
    return QuantisedLayer(
        layer=layer,
        weights=made.weights,
        bias=made.bias,
        multipliers=made.multipliers,
        shifts=made.shifts,
        shift=made.shift,
        residual_multiplier=made.residual_multiplier,
        lo=lo,
        hi=hi,
        halo=zeros.get(layer.input, 0),
        unit=unit,
    )


def _refuse_zeros(layer: Layer, real: Doubles, stored: npt.NDArray[np.generic]) -> None:
    if real.any() and not stored.any():
        raise QuantisationError(
            f"the weights of layer '{layer.name}' must not all round to zero, and beside its bias and residual they do"
        )


def _bounds(
    layer: Layer,
    bits: Mapping[str, int],
    gains: Mapping[str, float],
    exponents: Mapping[str, npt.NDArray[np.int64]],
    width: Word,
    zeros: Mapping[str, int],
) -> tuple[int, int]:
    """Return the clip of a layer's word in stored units, within a word."""
    exponent = int(word_exponents(layer, exponents)[0])  # all are alike where a bound is not zero
    word = _word(layer)
    return TensorFormat(fraction_bits=bits[word] - exponent, gain=gains[word], zero=zeros.get(word, 0)).bounds(
        layer.clip, width
    )
