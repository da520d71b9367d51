"""The layer descriptor: 32 little-endian words with all that the data plane knows of a layer. Pure packing.

Positions, widths and meanings of its fields stand in `hls.formats.DESCRIPTOR`.

>>> sizes = dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
>>> sizes |= dict.fromkeys(("out_h", "out_w", "group_words", "groups", "columns"), 28)
>>> places = dict.fromkeys(("in_offset", "in_row_bytes", "in_pixel_bytes"), 64)
>>> places |= dict.fromkeys(("out_offset", "out_row_bytes", "out_pixel_bytes"), 64)
>>> layer = Descriptor(kind=0, **sizes, **places, shift=12)
>>> Descriptor.unpack(layer.pack()) == layer, len(layer.pack())
(True, 128)
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import ClassVar

from fluidnpu.dse.hardware import LayerGeometry
from fluidnpu.models.numeric import WORDS, Word

from ..errors import DescriptorError, FormatError
from ..formats.format import Format
from ..formats.table import DESCRIPTOR, MAGIC, NO_WEIGHTS, ActivationCode, KindCode

DESCRIPTOR_BYTES = DESCRIPTOR.wire_bits // 8
TABLE_PIECES = 258  # 256 segments, and a piece on either side of them
WITH_PIECES = (ActivationCode.TABLE, ActivationCode.SLOPE, ActivationCode.AFFINE)
_SUMMED = 0xF1D0_0001  # magic of the first layout, whose words sum to zero modulo 2**32
_BEFORE = (_SUMMED, 0xF1D0_0002, 0xF1D0_0003)  # of earlier versions: fields of units, or of filters, were zero


@dataclass(frozen=True, kw_only=True)
class Descriptor(LayerGeometry):
    """One layer as the data plane reads it: geometry, kind, scales and the places of its weights.

    `layout` has the place, the meaning and the limits of each field; DescriptorError for a value beyond a
    limit. A kernel row is `kernel_w * group_words` contiguous words when `dilation_w` is 1 and one group
    takes the whole pixel. `weights[m]` are those of core mode m (NORMAL, WIDE, LANES, SPLIT), NO_WEIGHTS
    when the FBCB never asks for it.
    """

    layout: ClassVar[Format] = DESCRIPTOR

    kind: int
    shift: int = 0
    residual_shift: int = 0
    residual_multiplier: int = 0
    byte_words: int = 0
    lo: int = -32768
    hi: int = 32767
    weights: tuple[int, int, int, int] = (NO_WEIGHTS,) * 4
    activation_window: int = 0
    activation_shift: int = 0
    activation_lo: int = 0
    activation_hi: int = 0
    filter_shift: int = 0
    filter_lo: int = 0
    filter_hi: int = 0
    filter_window: int = 0
    filter_unit_shift: int = 0
    filter_unit_lo: int = 0
    filter_unit_hi: int = 0

    def __post_init__(self) -> None:
        for bits in self.layout.fields:
            least, most = bits.limits
            if bits.least is not None and not least <= getattr(self, bits.name) <= most:
                raise DescriptorError(f"{bits.name} must lie in {least}..{most}, not {getattr(self, bits.name)}")
        if self.pool_kernel and self.merged:
            raise DescriptorError(
                f"a layer that the one before it has computed must pass no pool, not {self.pool_kernel}"
            )
        if self.pool_kernel == 1 or (self.pool_kernel and self.kind != KindCode.GEMM):
            raise DescriptorError(
                f"pool_kernel must be 2 or 3, or 0 where a layer of kind {self.kind} passes no pool, not {self.pool_kernel}"
            )
        if not 0 <= self.kind <= 2:
            raise DescriptorError(f"kind must be 0, 1 or 2, not {self.kind}")
        shift, residual_shift = (self.layout.field(name).limits[1] for name in ("shift", "residual_shift"))
        if not (0 <= self.shift <= shift and 0 <= self.residual_shift <= residual_shift):
            raise DescriptorError(
                f"shifts must lie in 0..{shift} and 0..{residual_shift}, not {self.shift} and {self.residual_shift}"
            )
        if not self._ordered(self.lo, self.hi):
            raise DescriptorError(f"clip bounds must be ordered {self.word.dtype}, not {self.lo}..{self.hi}")
        self._check_unit()
        self._check_filter()

    def _check_unit(self) -> None:
        """Raise DescriptorError where the fields of the activation unit contradict each other (ADR 69)."""
        use, most = self.activation, self.layout.field("activation").limits[1]
        if not 0 <= use <= most:
            raise DescriptorError(f"activation must lie in 0..{most}, not {use}")
        if use and self.merged:
            raise DescriptorError(f"a layer that the one before it has computed must have no activation, not {use}")
        if use == ActivationCode.TABLE and (self.activation_window < 8 or self.pieces != TABLE_PIECES):
            raise DescriptorError(
                f"a table must have an activation_window of 8..15 and {TABLE_PIECES} pieces, not {self.activation_window} "
                f"and {self.pieces}"
            )
        if (self.pieces > 0) != (use in WITH_PIECES):
            raise DescriptorError(
                f"pieces must be there for tables and channels alone, not {self.pieces} for code {use}"
            )
        if use == ActivationCode.PRODUCT and not self.has_residual:
            raise DescriptorError("a product must have a residual to multiply by, and has_residual is 0")
        if self.residual_spread and not self.has_residual:
            raise DescriptorError("a residual must be there to be spread over channels, and has_residual is 0")
        lo, hi = self.activation_lo, self.activation_hi
        if not self._ordered(lo, hi):
            raise DescriptorError(f"clip bounds of the unit must be ordered {self.word.dtype}, not {lo}..{hi}")

    def _check_filter(self) -> None:
        """Raise DescriptorError where the fields of the filter contradict each other (ADR 70)."""
        kernel = self.filter_kernel
        if not kernel:
            if self.filter_rows or self.filter_table:
                raise DescriptorError(
                    f"filter_rows and filter_table must be 0 without a filter, not {self.filter_rows} and {self.filter_table}"
                )
            return
        if not 2 <= kernel <= 7 or self.filter_stride not in (1, 2):
            raise DescriptorError(
                f"a filter must have 2 to 7 taps a side and a stride of 1 or 2, not {kernel} and {self.filter_stride}"
            )
        if self.kind != KindCode.GEMM or self.groups != 1 or self.pool_kernel or self.merged:
            raise DescriptorError(
                "a filter must stand behind a GEMM of one group that runs and has no pool, not behind kind "
                f"{self.kind} with groups {self.groups}, pool_kernel {self.pool_kernel} and merged {self.merged}"
            )
        if not (self.filter_top < kernel and self.filter_left < kernel):
            raise DescriptorError(
                f"a filter of {kernel} must have less than {kernel} rows and columns of padding, not {self.filter_top} and "
                f"{self.filter_left}"
            )
        for name, walk, size in (("walk_h", self.walk_h, self.out_h), ("walk_w", self.walk_w, self.out_w)):
            if not size <= walk < size + kernel:
                raise DescriptorError(f"{name} must lie in {size}..{size + kernel - 1}, not {walk}")
        if self.filter_rows < 1:
            raise DescriptorError("a filter must have filter_rows of 1 or more, not 0")
        if self.filter_shift > self.layout.field("filter_shift").limits[1]:
            raise DescriptorError(f"filter_shift must be at most 47, not {self.filter_shift}")
        if not (self.filter_window >= 8 if self.filter_table else self.filter_window == 0):
            raise DescriptorError(
                f"filter_window must be 8..15 with a table and 0 without, not {self.filter_window} with filter_table {self.filter_table}"
            )
        for name in ("filter", "filter_unit"):
            lo, hi = getattr(self, f"{name}_lo"), getattr(self, f"{name}_hi")
            if not self._ordered(lo, hi):
                raise DescriptorError(f"{name}_lo and {name}_hi must be ordered {self.word.dtype}, not {lo}..{hi}")

    def _ordered(self, lo: int, hi: int) -> bool:
        """Tell whether bounds are words, and the lower one comes first."""
        return self.word.lowest <= lo <= hi <= self.word.highest

    @property
    def word(self) -> Word:
        """The kind of its words."""
        return WORDS[8 if self.byte_words else 16]

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return self.word.bytes

    @property
    def ordered(self) -> bool:
        """True where outputs pass a pool or a filter, in the order of the image."""
        return self.pool_kernel > 0 or self.filter_kernel > 0

    @property
    def adds(self) -> bool:
        """True where the core adds the residual to its sums."""
        return bool(self.has_residual) and not self.multiplies

    @property
    def multiplies(self) -> bool:
        """True where the residual is a factor of the activation unit, and the core gets none."""
        return self.activation == ActivationCode.PRODUCT

    def words(self) -> tuple[int, ...]:
        """The 32 words, the last a CRC-32 of the others. Raises DescriptorError for a value that is too
        wide.
        """
        try:
            packed = self.layout.pack({**vars(self), "magic": MAGIC})
        except FormatError as error:
            raise DescriptorError(f"descriptor {error}") from None
        return with_checksum(packed)

    def pack(self) -> bytes:
        """128 bytes, little endian."""
        return struct.pack("<32I", *self.words())

    @classmethod
    def unpack(cls, data: bytes, *, older: bool = False) -> Descriptor:
        """Read 128 bytes. Raises DescriptorError when magic or checksum is wrong or a field is out of range.

        With `older` also those in files of earlier versions, which no NPU of today takes.
        """
        if len(data) != DESCRIPTOR_BYTES:
            raise DescriptorError(f"a descriptor has {DESCRIPTOR_BYTES} bytes, not {len(data)}")
        values = cls.layout.unpack(int.from_bytes(data, "little"))
        magic = values.pop("magic")
        if magic != MAGIC and not (older and magic in _BEFORE):
            raise DescriptorError(f"a descriptor must begin with {MAGIC:#x}, not {magic:#x}")
        words = struct.unpack("<32I", data)
        if sum(words) & 0xFFFF_FFFF if magic == _SUMMED else words[-1] != zlib.crc32(data[:-4]):
            raise DescriptorError("a descriptor must have the checksum of its other words; this one is damaged")
        del values["checksum"]
        return cls(**values)  # type: ignore[arg-type]


def with_checksum(packed: int) -> tuple[int, ...]:
    """Return the 32 words of a packed descriptor; its last one becomes the CRC-32 of those before."""
    body = packed.to_bytes(DESCRIPTOR_BYTES, "little")[:-4]
    return (*struct.unpack("<31I", body), zlib.crc32(body))
