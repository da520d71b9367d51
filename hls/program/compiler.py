"""Compilation of a quantised network for a design: memory map, descriptors, weights, FBCB. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware import filter_rows, pieces, pooled_beats, too_many_pieces
from fluidnpu.models import Kind, Network, QuantisedLayer, QuantisedNetwork
from fluidnpu.models.images import SHIPPED_DATA

from ..errors import DescriptorError, FbcbError, ProgramError
from ..formats.table import NO_WEIGHTS, KindCode
from .descriptor import Descriptor
from .fbcb import decode_layer, encode_fbcb
from .filtering import filter_fields, pack_filter
from .layout import header_bits, headers, join_groups, pack_weights
from .pieces import OF_POOLS, packed_pieces, unit_fields
from .program import ADDRESS_LIMIT, ALIGNMENT, ExitOutput, Program, TensorOutput, TensorPlace, align
from .row_buffer import buffer_bytes

KIND_CODE = {kind: KindCode[kind.name] for kind in Kind}
BEATS_LIMIT = (1 << 16) - 1  # fields of a command (ADR 4)
COLS_LIMIT = (1 << 12) - 1


def compile_program(qnet: QuantisedNetwork, design: Design) -> Program:
    """Compile the program that runs `qnet` on an NPU of `design`. Raises ProgramError when the two do not
    match.
    """
    network = qnet.network
    check_buildable(design)
    check_made_for(design, network)
    check_width(design, qnet)
    check_unit(design, network)
    tensors = place_tensors(network, qnet.bits // 8, qnet.zeros)
    weights = bytearray()
    descriptors, fbcb = [], []
    for index, qlayer in enumerate(qnet.layers):
        if not design.layers[index].merged:  # a filter has 48 bits, which is what a layer's sums take at most
            check_accumulator(qlayer, design)
        behind = _behind(qnet, design, index)
        parts, count = _append_weights(weights, qlayer, behind, design, index)
        descriptors.append(describe(qlayer, tensors, parts, join=design.join(index), behind=behind, count=count))
        fbcb += _fbcb_row(design, index, descriptors[-1])
    slot_bytes = align(max(place.offset + place.size for place in tensors.values()))
    for part, size in (("slot", slot_bytes), ("weight image", len(weights))):
        if size >= ADDRESS_LIMIT:
            raise ProgramError(f"the {part} of '{network.name}' must be smaller than {ADDRESS_LIMIT} bytes, not {size}")
    return Program(
        network=network.name,
        design_digest=design.digest,
        b_max=design.b_max,
        descriptors=tuple(descriptors),
        weights=bytes(weights),
        fbcb_words=tuple(fbcb),
        tensors=tensors,
        slot_bytes=slot_bytes,
        stages=tuple((r[0], r[-1]) for r in (network.stage_layers(s) for s in range(len(network.exits)))),
        input=network.input,
        input_scale=_unit(qnet, network.input),
        exits=tuple(
            ExitOutput(
                name=exit.name,
                tensor=exit.logits,
                scale=1.0 if exit.logits is None else _unit(qnet, exit.logits),
                threshold=exit.threshold,
            )
            for exit in network.exits
        ),
        outputs=tuple(TensorOutput(output=output, scale=_unit(qnet, output.tensor)) for output in network.outputs),
        intake=qnet.intake if network.preprocessing is not None else None,
        check=network.check,
        tail=network.tail,
        class_names=network.class_names,
        data=SHIPPED_DATA if network.metadata.get("data") == SHIPPED_DATA else "",
        bits=qnet.bits,
    )


def _unit(qnet: QuantisedNetwork, tensor: str) -> float:
    """The real value of one unit of a tensor."""
    return float(replace(qnet.formats[tensor], zero=0).real(np.ones(1, np.int16))[0])


def check_buildable(design: Design) -> None:
    """Raise ProgramError for a design that the search may consider but no core of ADR 4 can be."""
    if design.t_p < design.array.bias_words:
        raise ProgramError(
            f"t_p must be at least {design.array.bias_words} to carry a {header_bits(design)}-bit bias in one weight slot, "
            f"not {design.t_p}"
        )
    if design.t_r > BEATS_LIMIT:
        raise ProgramError(f"t_r must be at most {BEATS_LIMIT}, the largest beat count of a command, not {design.t_r}")
    columns = max(design.t_p, design.t_c * (2 if design.split else 1))
    if columns > COLS_LIMIT:
        raise ProgramError(f"a column tile must have at most {COLS_LIMIT} columns, and this design has {columns}")


def check_made_for(design: Design, network: Network) -> None:
    """Raise ProgramError for the design of another workload."""
    if not design.matches(network.workload):
        raise ProgramError(
            f"the design must be made for the layers and exits of network '{network.name}', and it was made for others "
            f"('{design.network}')"
        )


def check_width(design: Design, qnet: QuantisedNetwork) -> None:
    """Raise ProgramError for a network quantised to words of another width than the design's."""
    if qnet.bits != design.word_bits:
        raise ProgramError(
            f"the network must be quantised to the {design.word_bits} bits of the design's words, and "
            f"'{qnet.network.name}' has {qnet.bits}"
        )


def check_unit(design: Design, network: Network) -> None:
    """Raise ProgramError for a network that uses an activation unit on a design without one.

    Only with a unit does the data plane spread a residual over channels.
    """
    users = [layer.name for layer in network.layers if layer.activation is not None or layer.residual_spread]
    if users and design.activation is None:
        raise ProgramError(
            f"the design must have an activation unit for {len(users)} layers of '{network.name}', the first of them "
            f"'{users[0]}', and it has none"
        )


def check_accumulator(qlayer: QuantisedLayer, design: Design) -> None:
    """Raise ProgramError when partial sums could wrap: `accumulator_bits` is a bound for every input."""
    if qlayer.accumulator_bits > design.acc_bits:
        raise ProgramError(
            f"layer '{qlayer.layer.name}' needs accumulators of {qlayer.accumulator_bits} bits, and the design has {design.acc_bits}"
        )


def check_pool(qlayer: QuantisedLayer, pool: QuantisedLayer) -> None:
    """Raise ProgramError for a pool that no layer computes: that shifts, clips or pads words below zero."""
    lo, hi = (qlayer.lo, qlayer.hi) if qlayer.unit is None else (qlayer.unit.lo, qlayer.unit.hi)
    if pool.shift or pool.unit is not None or not pool.lo <= lo <= hi <= pool.hi:
        raise ProgramError(
            f"pool '{pool.layer.name}' must keep the {lo}..{hi} of layer '{qlayer.layer.name}' to be merged "
            f"with it, and it shifts by {pool.shift} and clips to {pool.lo}..{pool.hi}"
        )
    if any(pool.layer.padding) and lo < pool.halo:
        raise ProgramError(
            f"pool '{pool.layer.name}' pads with zeros, so layer '{qlayer.layer.name}' must store no word below zero to be "
            f"merged with it, not {lo}..{hi}"
        )


def check_filter(depthwise: QuantisedLayer) -> None:
    """Raise ProgramError for a depthwise layer whose halo is not made of words 0, as a filter has it."""
    if any(depthwise.layer.padding) and depthwise.halo:
        raise ProgramError(
            f"layer '{depthwise.layer.name}' must be padded with words 0 to be a filter, and its input has {depthwise.halo} "
            "for zero: search the design without a filter (--lanes 0)"
        )


def place_tensors(
    network: Network, word_bytes: int = 2, zeros: Mapping[str, int] | None = None
) -> Mapping[str, TensorPlace]:
    """Place every tensor in a slot: in the network's order, on 64-byte boundaries, with its largest halo.

    `zeros`: the word of each tensor that means 0, by its name.
    """
    places: dict[str, TensorPlace] = {}
    offset = 0
    for name, (height, width, channels) in network.tensors.items():
        paddings = [(0, 0, 0, 0), *(layer.padding for layer in network.layers if layer.input == name)]
        top, left, bottom, right = (max(side) for side in zip(*paddings, strict=True))
        places[name] = TensorPlace(
            offset=offset,
            height=height,
            width=width,
            channels=channels,
            halo=(top, left, bottom, right),
            word_bytes=word_bytes,
            zero=zeros[name] if zeros else 0,
        )
        offset = align(offset + places[name].size)
    return places


def describe(
    qlayer: QuantisedLayer,
    tensors: Mapping[str, TensorPlace],
    weights: tuple[int, int, int, int],
    *,
    join: int = 1,
    behind: FusedLayer | None = None,
    count: int = 0,
) -> Descriptor:
    """Describe one layer with `join` of its groups as one. Raises ProgramError when a number does not fit its
    field.

    With another layer `behind` it, it stores what that would. `count`: pieces of its activation unit.
    """
    layer = qlayer.layer
    shape, (out_h, out_w) = layer.shape.joined(join), layer.out_hw
    source, writes = tensors[layer.input], layer if behind is None else behind.layer.layer
    target = tensors[writes.output]
    residual = tensors[layer.residual] if layer.residual is not None else None
    try:
        return Descriptor(
            kind=KIND_CODE[layer.kind],
            in_offset=source.at(-layer.padding[0], -layer.padding[1], layer.input_channel),
            in_row_bytes=source.row_bytes,
            in_pixel_bytes=source.pixel_bytes,
            kernel_h=layer.kernel[0],
            kernel_w=layer.kernel[1],
            stride_h=layer.stride[0],
            stride_w=layer.stride[1],
            dilation_h=layer.dilation[0],
            dilation_w=layer.dilation[1],
            out_h=out_h,
            out_w=out_w,
            group_words=layer.in_shape[2] // shape.groups,
            groups=shape.groups,
            columns=shape.c,
            out_offset=target.at(*writes.output_at, writes.output_channel),
            out_row_bytes=target.row_bytes * writes.output_step[0],
            out_pixel_bytes=target.pixel_bytes * writes.output_step[1],
            **({} if behind is None else behind.fields),
            has_residual=int(residual is not None),
            residual_offset=residual.at(*layer.residual_at, layer.residual_channel) if residual else 0,
            residual_row_bytes=residual.row_bytes * layer.residual_step[0] if residual else 0,
            residual_pixel_bytes=residual.pixel_bytes * layer.residual_step[1] if residual else 0,
            shift=qlayer.shift,
            residual_shift=qlayer.residual_shift,
            residual_multiplier=qlayer.residual_multiplier,
            byte_words=int(source.word_bytes == 1),
            lo=qlayer.lo,
            hi=qlayer.hi,
            weights=weights,
            residual_spread=int(layer.residual_spread),
            **({} if qlayer.unit is None or (behind and behind.merged) else unit_fields(qlayer.unit, count)),
        )
    except DescriptorError as error:
        raise ProgramError(f"layer '{layer.name}' does not fit a descriptor: {error}") from None


@dataclass(frozen=True, kw_only=True)
class FusedLayer:
    """The layer that another computes on the way out, or a layer itself where it is `merged`.

    `fields` of the descriptor that say so. `rows` of a filter's weights; 0 of a pool.
    """

    layer: QuantisedLayer
    fields: Mapping[str, int]
    rows: int = 0

    @property
    def merged(self) -> bool:
        """True where nothing is left to do."""
        return "merged" in self.fields


def _behind(qnet: QuantisedNetwork, design: Design, index: int) -> FusedLayer | None:
    """The layer behind another in a design, or a layer itself where it is merged; None for others."""
    shape = design.layers[index]
    if shape.merged:
        return FusedLayer(layer=qnet.layers[index], fields={"merged": 1})
    pitch = {"pool_pitch": pooled_beats(shape.c, design.array)}
    if shape.pooling is not None:
        pool = qnet.layers[qnet.network.merged[index]]
        check_pool(qnet.layers[index], pool)
        sides = {"pool_top": shape.pooling.padded[0], "pool_left": shape.pooling.padded[1]}
        return FusedLayer(layer=pool, fields={"pool_kernel": shape.pooling.kernel, **sides, **pitch})
    if shape.filtering is not None:
        pair = next(pair for pair in qnet.network.filters if pair.producer == index)
        depthwise, rows = qnet.layers[pair.depthwise], int(filter_rows(shape, design.array))
        check_filter(depthwise)
        fields = filter_fields(depthwise, shape.filtering, qnet.layers[index].layer.out_hw, rows)
        return FusedLayer(layer=depthwise, fields=fields | pitch, rows=rows)
    return None


def _append_weights(
    image: bytearray, qlayer: QuantisedLayer, behind: FusedLayer | None, design: Design, index: int
) -> tuple[tuple[int, int, int, int], int]:
    """Append a layer's weights, behind them its pieces and its filter, once for each mode of the FBCB.

    Returns the offset of each part, and how many pieces there are. A layer that is no GEMM has only pieces,
    one that is merged has nothing.
    """
    join = design.join(index)
    parts, shape, unit = [NO_WEIGHTS] * 4, qlayer.layer.shape.joined(join), qlayer.unit
    if behind is not None and behind.merged:
        return (parts[0], parts[1], parts[2], parts[3]), 0
    count = pieces(shape, design.array)
    if too_many := too_many_pieces(shape, design.array):
        raise ProgramError(too_many)
    groups = []
    if shape.kind is Kind.GEMM:
        kernel = qlayer.layer.kernel
        weights = join_groups(qlayer.weights, kernel[0] * kernel[1], join)
        header = headers(qlayer.bias, qlayer.multipliers, qlayer.shifts)
        groups = list(zip(weights, header.reshape(len(weights), -1), strict=True))
    modes = {design.mode(index, batch) for batch in range(1, design.b_max + 1)}
    for mode in sorted(modes) if groups or count else ():
        image.extend(bytes(-len(image) % ALIGNMENT))
        parts[mode if groups else OF_POOLS] = len(image)
        for group_weights, group_header in groups:
            _check_p_tiles(qlayer.layer.name, len(group_weights), mode, design)
            image += pack_weights(group_weights, group_header, mode, design).tobytes()
        if unit is not None and count:
            image.extend(bytes(-len(image) % ALIGNMENT))
            image += packed_pieces(unit, shape, mode, design).astype("<i2").tobytes()
        if behind is not None and behind.rows:
            image.extend(bytes(-len(image) % (design.port_bits // 8 if count else ALIGNMENT)))
            image += pack_filter(behind.layer, behind.rows, mode, design)
    return (parts[0], parts[1], parts[2], parts[3]), count


def _check_p_tiles(name: str, p: int, mode: Mode, design: Design) -> None:
    p_tiles = -(-p // design.tile(mode)[0])
    if p_tiles > BEATS_LIMIT:
        raise ProgramError(f"layer '{name}' must have at most {BEATS_LIMIT} P-tiles, and it has {p_tiles}")


def _fbcb_row(design: Design, layer: int, descriptor: Descriptor) -> list[int]:
    """The FBCB words of one layer, checked with the rules by which the hardware refuses words."""
    words = []
    for batch in range(1, design.b_max + 1):
        mode, plan = design.mode(layer, batch), design.plans[layer][batch - 1]
        word = encode_fbcb(mode, plan, batch)
        try:
            run = decode_layer(design, word, descriptor, batch)
        except FbcbError as error:
            raise ProgramError(f"layer '{design.layers[layer].name}': {error}") from None
        needed = buffer_bytes(descriptor, run)
        if not descriptor.merged and needed > design.word_bytes * design.buffer_words:
            raise ProgramError(
                f"layer '{design.layers[layer].name}' at batch {batch}: row blocks of {run.block} beats need an input "
                f"buffer of {needed} bytes, and the design has {design.word_bytes * design.buffer_words}"
            )
        words.append(word)
    return words
