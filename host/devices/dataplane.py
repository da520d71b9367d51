"""The simulated data plane: it runs one layer from DRAM to DRAM with the arithmetic of `models.golden`.

Its inputs are those of the hardware: a descriptor, the weight stream in the mode that the FBCB chose, and
slots by physical address. It knows neither names of the network nor requests.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.hls import Cause, DescriptorError, FbcbError
from fluidnpu.hls.formats import CORE_COMMAND, NO_WEIGHTS, KindCode
from fluidnpu.hls.program import (
    DESCRIPTOR_BYTES,
    PIECE_BYTES,
    Descriptor,
    buffer_bytes,
    decode_layer,
    filter_at,
    filter_fits,
    filter_of,
    filter_words,
    held,
    part_words,
    pieces_at,
    pool_map,
    scales,
    unit_of,
    unpack_weights,
)
from fluidnpu.models import Kind, Layer, NetworkError, QuantisedLayer, golden
from fluidnpu.models.graph import Activation, Use
from fluidnpu.models.numeric import Stored, Word

from .memory import BusError, SimulatedMemory

Int16s = npt.NDArray[np.int16]  # constants

ALIGNMENT = 64  # of a program, of the weight image, of every weight part and of slots
MOST_JOBS = 512  # whose layers are kept: stages by batch sizes, and those of damaged programs
_KINDS = (Kind.GEMM, Kind.MAX_POOL, Kind.SUM_POOL)


class LayerError(Exception):
    """A layer cannot run. The simulated device catches this and puts the cause into ERROR."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.name)
        self.cause = cause


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The samples of a job: slot i lies at `base + i * stride` bytes; `active` ascends."""

    base: int
    stride: int
    active: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TensorRegion:
    """A tensor in a slot: `offset`, `row`, `pixel` and `channel` strides in bytes, shape (height, width,
    channels), and the kind of its words.
    """

    offset: int
    shape: tuple[int, int, int]
    row: int
    pixel: int
    channel: int
    word: Word

    @property
    def aligned(self) -> bool:
        """True when every element is aligned to a word."""
        return not (self.offset | self.row | self.pixel) % self.word.bytes

    def span(self, slots: Slots) -> tuple[int, int]:
        """Return (address, bytes) from its first word in the first active slot to its last in the last."""
        first, last = slots.active[0], slots.active[-1]
        return slots.base + first * slots.stride + self.offset, (last - first) * slots.stride + self.size

    @property
    def size(self) -> int:
        """Bytes from its first word to the end of its last, in one slot."""
        height, width, channels = self.shape
        return (height - 1) * self.row + (width - 1) * self.pixel + (channels - 1) * self.channel + self.word.bytes

    def inside(self, slot: npt.NDArray[np.uint8]) -> Stored:
        """View the tensor in one slot's bytes, words of its shape."""
        return np.ndarray(self.shape, self.word.dtype, slot, self.offset, (self.row, self.pixel, self.channel))


@dataclass(frozen=True, kw_only=True)
class LayerStep:
    """A decoded layer: its integers as the golden model takes them, and the regions it reads and writes.

    `layer` is None where nothing is left to do, since the layer before has done it. Outputs pass `pool` or
    `filter` where there is one.
    """

    layer: QuantisedLayer | None
    input: TensorRegion
    residual: TensorRegion | None
    output: TensorRegion
    pool: Descriptor | None = None
    filter: QuantisedLayer | None = None

    @property
    def regions(self) -> tuple[TensorRegion, ...]:
        """All that are read or written."""
        every = (self.input, self.residual, self.output)
        return () if self.layer is None else tuple(region for region in every if region is not None)


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """All that the layers of a job are decoded from, beside the bytes in DRAM.

    `program` is the address of the first layer's descriptor, `words` are the FBCB's, one a layer; slot i
    lies at `slots + i * stride` bytes.
    """

    program: int
    weights: int
    words: tuple[int, ...]
    batch: int
    slots: int
    stride: int


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The layers of a job that was checked, the bytes they were decoded from, and their reach in a slot."""

    steps: list[LayerStep]
    descriptors: tuple[Descriptor, ...]
    generation: int  # of the memory
    sources: tuple[tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]], ...]  # view of DRAM, and copy
    reach: tuple[int, int]


class DataPlane:
    """Fetches, decodes and runs layers. A decoded layer is cached until its bytes in DRAM change."""

    def __init__(self, design: Design, memory: SimulatedMemory) -> None:
        self._design, self._memory, self._filter_room = design, memory, design.filter_room
        self._decoded: dict[tuple[Descriptor, int, Mode], tuple[int, LayerStep]] = {}
        self._descriptors: dict[bytes, Descriptor] = {}
        self._modes: dict[tuple[Descriptor, int, int], Mode] = {}
        self._checked: dict[Fetch, Checked] = {}

    def descriptor(self, address: int) -> Descriptor:
        """Fetch one descriptor. Raises LayerError with BUS_READ or BAD_DESCRIPTOR."""
        if address % ALIGNMENT:
            raise LayerError(Cause.BAD_DESCRIPTOR)
        data = self._read(address, DESCRIPTOR_BYTES).tobytes()
        if data not in self._descriptors:
            try:
                self._descriptors[data] = Descriptor.unpack(data)
            except DescriptorError:
                raise LayerError(Cause.BAD_DESCRIPTOR) from None
        return self._descriptors[data]

    def check(self, descriptor: Descriptor, word: int, slots: Slots, weights_base: int) -> LayerStep:
        """Decode a layer for a batch and check that all its bytes exist. Raises LayerError with the cause."""
        if descriptor.word_bytes != self._design.word_bytes:
            raise LayerError(Cause.BAD_DESCRIPTOR)
        mode = self._mode(descriptor, word, len(slots.active))
        taps = descriptor.kernel_h * descriptor.kernel_w
        width = self._design.array.tile(mode)[0]
        if not descriptor.kind and -(-taps * descriptor.group_words // width) > CORE_COMMAND.field("p_tiles").limits[1]:
            raise LayerError(Cause.BAD_DESCRIPTOR)
        if slots.base % ALIGNMENT or slots.stride % ALIGNMENT:
            raise LayerError(Cause.BAD_DESCRIPTOR)
        if not self._has_room(descriptor):
            raise LayerError(Cause.BAD_DESCRIPTOR)
        step = self._step(descriptor, mode, weights_base)
        if step.layer is None:
            return step
        self._bytes(step.input, slots, Cause.BUS_READ)
        if step.residual is not None:
            self._bytes(step.residual, slots, Cause.BUS_READ)
        self._bytes(step.output, slots, Cause.BUS_WRITE)
        return step

    def _has_room(self, descriptor: Descriptor) -> bool:
        """True if the NPU has the unit, the pool and the filter that a layer asks for."""
        npu, room = self._design, self._filter_room
        if descriptor.pool_kernel and not npu.pool_room[1]:
            return False
        if (descriptor.activation or descriptor.residual_spread) and npu.activation is None:
            return False
        if descriptor.merged and descriptor.kind != KindCode.MAX_POOL and not room.kernel:
            return False
        within = descriptor.filter_kernel <= room.kernel and descriptor.filter_rows <= room.weights
        return within and descriptor.filter_table <= room.activation

    def checked(self, fetch: Fetch, slots: Slots) -> Checked | None:
        """Return the layers of a job that was kept, if every byte that they came from is as it was."""
        kept = self._checked.get(fetch)
        if kept is None or kept.generation != self._memory.generation:
            return None
        first, last = slots.active[0], slots.active[-1]
        low, high = kept.reach
        try:
            self._memory.view(slots.base + first * slots.stride + low, (last - first) * slots.stride + high - low)
        except BusError:
            return None
        return kept if all((view == copy).all() for view, copy in kept.sources) else None

    def keep(self, fetch: Fetch, steps: list[LayerStep]) -> Checked:
        """Keep the layers of a job that passed `check`."""
        sources, descriptors = [], []
        for index, word in enumerate(fetch.words):
            address = fetch.program + index * DESCRIPTOR_BYTES
            descriptor = self.descriptor(address)
            descriptors.append(descriptor)
            sources.append(self._read(address, DESCRIPTOR_BYTES))
            mode = self._mode(descriptor, word, fetch.batch)
            parts = self._constants(descriptor, mode, fetch.weights)
            sources += [part.view(np.uint8) for part in parts if part.size]
        regions = [region for step in steps for region in step.regions]
        if len(self._checked) >= MOST_JOBS:
            self._checked.clear()
        self._checked[fetch] = kept = Checked(
            steps=steps,
            descriptors=tuple(descriptors),
            generation=self._memory.generation,
            sources=tuple((view, view.copy()) for view in map(_in_words, sources)),
            reach=(
                min((region.offset for region in regions), default=0),
                max((region.offset + region.size for region in regions), default=0),
            ),
        )
        return kept

    def run(self, step: LayerStep, slots: Slots) -> int:
        """Compute a checked layer for every active slot; return the number of saturated outputs."""
        if step.layer is None:
            return 0
        inputs = self._load(step.input, slots)
        residual = None if step.residual is None else self._load(step.residual, slots)
        out, saturated = golden.run_layer_counting(step.layer, inputs, residual)
        if step.pool is not None:
            out = pool_map(out, step.pool)
        if step.filter is not None:
            out, more = golden.run_layer_counting(step.filter, out)
            saturated += more
        view = self._view(step.output, slots, Cause.BUS_WRITE)
        if len(view) == len(out):
            view[:] = out
        else:
            view[_indices(slots)] = out
        return saturated

    def slot(self, slots: Slots, index: int) -> npt.NDArray[np.uint8]:
        """View the bytes (stride,) of the active slot of this index. Raises LayerError with BUS_READ."""
        try:
            return self._memory.view(slots.base + slots.active[index] * slots.stride, slots.stride)
        except BusError:
            raise LayerError(Cause.BUS_READ) from None

    # -- decoding --------------------------------------------------------------------------------------------

    def _mode(self, d: Descriptor, word: int, batch: int) -> Mode:
        if (d, word, batch) not in self._modes:
            npu = self._design
            try:
                run = decode_layer(npu, word, d, batch)
            except FbcbError:
                raise LayerError(Cause.BAD_FBCB) from None
            if not d.merged and buffer_bytes(d, run) > npu.word_bytes * npu.buffer_words:
                raise LayerError(Cause.BAD_FBCB)
            self._modes[d, word, batch] = run.mode
        return self._modes[d, word, batch]

    def _step(self, d: Descriptor, mode: Mode, weights_base: int) -> LayerStep:
        parts = self._constants(d, mode, weights_base)
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part.data, checksum)
        cached = self._decoded.get((d, weights_base, mode))
        if cached is None or cached[0] != checksum:
            cached = self._decoded[d, weights_base, mode] = (checksum, self._decode(d, mode, *parts))
        return cached[1]

    def _constants(self, d: Descriptor, mode: Mode, base: int) -> tuple[Stored, Int16s, Int16s]:
        """Read a layer's weights, pieces and filter, each empty where it has none."""
        none = np.zeros(0, np.int16)
        return (
            none.astype(d.word.dtype) if d.kind or d.merged else self._weights(d, mode, base),
            self._pieces(d, mode, base) if d.pieces else none,
            self._filter(d, mode, base) if d.filter_kernel else none,
        )

    def _weights(self, d: Descriptor, mode: Mode, base: int) -> Stored:
        offset = d.weights[int(mode)]
        if offset == NO_WEIGHTS:
            raise LayerError(Cause.BAD_FBCB)
        if (base + offset) % ALIGNMENT:
            raise LayerError(Cause.BAD_DESCRIPTOR)
        p = d.kernel_h * d.kernel_w * d.group_words
        size = part_words(p=p, columns=d.columns, groups=d.groups, mode=mode, design=self._design)
        return self._read(base + offset, d.word_bytes * size).view(d.word.dtype)

    def _pieces(self, d: Descriptor, mode: Mode, base: int) -> Int16s:
        offset = pieces_at(d, mode, self._design)
        if offset == NO_WEIGHTS or (base + offset) % ALIGNMENT or not held(d, mode, self._design):
            raise LayerError(Cause.BAD_DESCRIPTOR)
        return self._read(base + offset, PIECE_BYTES * d.pieces).view(np.int16)

    def _filter(self, d: Descriptor, mode: Mode, base: int) -> Int16s:
        offset = filter_at(d, mode, self._design)
        if offset == NO_WEIGHTS or not filter_fits(d, mode, self._design):
            raise LayerError(Cause.BAD_DESCRIPTOR)
        return self._read(base + offset, 2 * filter_words(d, self._design)).view(np.int16)

    def _decode(self, d: Descriptor, mode: Mode, words: Stored, pieces: Int16s, filtered: Int16s) -> LayerStep:
        shape = (d.out_h, d.out_w, d.groups * d.columns)
        region = partial(TensorRegion, channel=d.word_bytes, word=d.word)
        source = region(offset=d.in_offset, shape=_extent(d), row=d.in_row_bytes, pixel=d.in_pixel_bytes)
        stored = (*d.pooled_hw, shape[2])
        target = region(offset=d.out_offset, shape=stored, row=d.out_row_bytes, pixel=d.out_pixel_bytes)
        residual = region(offset=d.residual_offset, shape=shape, row=d.residual_row_bytes, pixel=d.residual_pixel_bytes)
        if d.residual_spread:
            residual = replace(residual, channel=0)
        if not all(region.aligned for region in (source, target, residual)):
            raise LayerError(Cause.BAD_DESCRIPTOR)
        try:
            return LayerStep(
                layer=None if d.merged else self._layer(d, mode, words, pieces),
                input=source,
                residual=residual if d.has_residual else None,
                output=target,
                pool=d if d.pool_kernel else None,
                filter=filter_of(d, mode, self._design, filtered) if d.filter_kernel else None,
            )
        except NetworkError:  # an accumulator could wrap: no compiled program does, so the bytes are damaged
            raise LayerError(Cause.BAD_DESCRIPTOR) from None

    def _layer(self, d: Descriptor, mode: Mode, words: Stored, pieces: Int16s) -> QuantisedLayer:
        """Build the layer for the golden model, without padding: its input is the extent with the halo."""
        kind = _KINDS[d.kind]
        weights, header = np.zeros((0, 0, 0), d.word.dtype), np.zeros(0, np.int64)
        if kind is Kind.GEMM:
            p = d.kernel_h * d.kernel_w * d.group_words
            groups = [
                unpack_weights(part, p=p, columns=d.columns, mode=mode, design=self._design)
                for part in words.reshape(d.groups, -1)
            ]
            weights = np.stack([matrix for matrix, _ in groups])
            header = np.concatenate([vector for _, vector in groups])
        bias, multipliers, shifts = scales(header, self._design)
        unit = unit_of(d, mode, self._design, pieces) if d.activation else None
        layer = Layer(
            name="descriptor",
            kind=kind,
            input="in",
            output="out",
            channels=d.groups * d.columns,
            residual="residual" if d.has_residual else None,
            in_shape=_extent(d),
            kernel=(d.kernel_h, d.kernel_w),
            stride=(d.stride_h, d.stride_w),
            dilation=(d.dilation_h, d.dilation_w),
            groups=d.groups if kind is Kind.GEMM else 1,
            activation=None if unit is None else _activation(unit.use),
        )
        return QuantisedLayer(
            layer=layer,
            weights=weights,
            bias=bias,
            multipliers=multipliers,
            shifts=shifts,
            shift=d.shift,
            residual_shift=d.residual_shift,
            residual_multiplier=d.residual_multiplier,
            lo=d.lo,
            hi=d.hi,
            unit=unit,
        )

    # -- slots -----------------------------------------------------------------------------------------------

    def _load(self, region: TensorRegion, slots: Slots) -> Stored:
        """Return the tensor of every active slot, words (batch, *shape): a view if adjacent, else a copy."""
        view = self._view(region, slots, Cause.BUS_READ)
        return view if len(view) == len(slots.active) else view[_indices(slots)]

    def _view(self, region: TensorRegion, slots: Slots, cause: Cause) -> Stored:
        """Return a view of the tensor in all slots from the first active to the last: (slots, *shape)."""
        count = slots.active[-1] - slots.active[0] + 1
        strides = (slots.stride, region.row, region.pixel, region.channel)
        return np.ndarray((count, *region.shape), region.word.dtype, self._bytes(region, slots, cause), strides=strides)

    def _bytes(self, region: TensorRegion, slots: Slots, cause: Cause) -> npt.NDArray[np.uint8]:
        try:
            return self._memory.view(*region.span(slots))
        except BusError:
            raise LayerError(cause) from None

    def _read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        try:
            return self._memory.view(address, size)
        except BusError:
            raise LayerError(Cause.BUS_READ) from None


def _extent(d: Descriptor) -> tuple[int, int, int]:
    """Return rows, columns and channels that the windows of a layer reach."""
    high, wide = (d.out_h - 1) * d.stride_h + 1, (d.out_w - 1) * d.stride_w + 1
    return high + (d.kernel_h - 1) * d.dilation_h, wide + (d.kernel_w - 1) * d.dilation_w, d.groups * d.group_words


def _activation(use: Use) -> Activation:
    """Return a use of the unit as the golden model takes it; of a table only its pieces are known here."""
    return Activation(use=use, function="silu" if use is Use.TABLE else "")


def _in_words(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.generic]:
    """View bytes as the widest words that divide them, which compare the faster."""
    return data.view(np.uint64) if not len(data) % 8 else data


def _indices(slots: Slots) -> Sequence[int]:
    return [slot - slots.active[0] for slot in slots.active]
