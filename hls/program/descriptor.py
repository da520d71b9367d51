"""The layer descriptor: 32 little-endian words that tell the data plane all about one layer. Packing and unpacking only.

Offsets are bytes; those named `*_offset` count from the base of the sample's slot, `weights_*` from the weight image.

>>> one = Descriptor(kind=0, in_offset=64, in_row_bytes=60, in_pixel_bytes=2, kernel_h=3, kernel_w=3, stride_h=1, stride_w=1,
...     dilation_h=1, dilation_w=1, out_h=28, out_w=28, group_words=1, groups=1, columns=16, out_offset=4096,
...     out_row_bytes=960, out_pixel_bytes=32, shift=12, lo=0, hi=32767, weights=(0, 512, 1024, 1536))
>>> Descriptor.unpack(one.pack()) == one
True
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

DESCRIPTOR_BYTES = 128
MAGIC = 0xF1D0_0001  # low half: version of this layout
NO_WEIGHTS = 0xFFFF_FFFF


class DescriptorError(ValueError):
    """A descriptor holds what the hardware would refuse."""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """One layer as the data plane reads it.

    `kind`: 0 GEMM, 1 max pool, 2 sum pool. `group_words`: input channels of one group (all channels of a pool); a kernel row is
    `kernel_w * group_words` contiguous words when `dilation_w` is 1 and one group takes the whole pixel. `columns`: output
    channels of one group. Group g reads from `in_offset + 2 * g * group_words` and writes to `out_offset + 2 * g * columns`.
    `weights[m]`: where the weights for core mode m (NORMAL, WIDE, LANES, SPLIT) begin, NO_WEIGHTS when the FBCB never asks for it.
    """

    kind: int
    in_offset: int
    in_row_bytes: int
    in_pixel_bytes: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    out_h: int
    out_w: int
    group_words: int
    groups: int
    columns: int
    out_offset: int
    out_row_bytes: int
    out_pixel_bytes: int
    has_residual: int = 0
    residual_offset: int = 0
    residual_row_bytes: int = 0
    residual_pixel_bytes: int = 0
    shift: int = 0
    residual_shift: int = 0
    lo: int = -32768
    hi: int = 32767
    weights: tuple[int, int, int, int] = (NO_WEIGHTS,) * 4

    def __post_init__(self) -> None:
        for name in ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"):
            if not 1 <= getattr(self, name) <= 255:
                raise DescriptorError(f"{name} must lie in 1..255, not {getattr(self, name)}")
        for name in ("out_h", "out_w", "group_words", "groups", "columns"):
            if not 1 <= getattr(self, name) <= 65535:
                raise DescriptorError(f"{name} must lie in 1..65535, not {getattr(self, name)}")
        if not 0 <= self.kind <= 2:
            raise DescriptorError(f"kind must be 0, 1 or 2, not {self.kind}")
        if not (0 <= self.shift <= 47 and 0 <= self.residual_shift <= 31):
            raise DescriptorError(f"shifts must lie in 0..47 and 0..31, not {self.shift} and {self.residual_shift}")
        if not -32768 <= self.lo <= self.hi <= 32767:
            raise DescriptorError(f"clip bounds must be ordered int16, not {self.lo}..{self.hi}")

    def words(self) -> tuple[int, ...]:
        """The 32 words, checksum last: all of them sum to zero modulo 2**32."""
        low16 = self.lo & 0xFFFF | (self.hi & 0xFFFF) << 16
        body: tuple[int, ...] = (
            MAGIC,
            self.kind | self.has_residual << 2 | self.shift << 8 | self.residual_shift << 16,
            self.kernel_h | self.kernel_w << 8 | self.stride_h << 16 | self.stride_w << 24,
            self.dilation_h | self.dilation_w << 8,
            self.out_h | self.out_w << 16,
            self.group_words | self.groups << 16,
            self.columns,
            low16,
            self.in_offset,
            self.in_row_bytes,
            self.in_pixel_bytes,
            self.out_offset,
            self.out_row_bytes,
            self.out_pixel_bytes,
            self.residual_offset,
            self.residual_row_bytes,
            self.residual_pixel_bytes,
            *self.weights,
        )
        body += (0,) * (31 - len(body))
        return (*body, -sum(body) & 0xFFFF_FFFF)

    def pack(self) -> bytes:
        """128 bytes, little endian."""
        return struct.pack("<32I", *self.words())

    @classmethod
    def unpack(cls, data: bytes) -> Descriptor:
        """Read 128 bytes; DescriptorError when magic or checksum is wrong or a field is out of range."""
        if len(data) != DESCRIPTOR_BYTES:
            raise DescriptorError(f"a descriptor has {DESCRIPTOR_BYTES} bytes, not {len(data)}")
        w = struct.unpack("<32I", data)
        if w[0] != MAGIC:
            raise DescriptorError(f"a descriptor must begin with {MAGIC:#x}, not {w[0]:#x}")
        if sum(w) & 0xFFFF_FFFF:
            raise DescriptorError("the words of a descriptor must sum to zero; this one is damaged")

        def int16(value: int) -> int:
            return value - 0x1_0000 if value & 0x8000 else value

        return cls(
            kind=w[1] & 3,
            has_residual=w[1] >> 2 & 1,
            shift=w[1] >> 8 & 0xFF,
            residual_shift=w[1] >> 16 & 0xFF,
            kernel_h=w[2] & 0xFF,
            kernel_w=w[2] >> 8 & 0xFF,
            stride_h=w[2] >> 16 & 0xFF,
            stride_w=w[2] >> 24,
            dilation_h=w[3] & 0xFF,
            dilation_w=w[3] >> 8 & 0xFF,
            out_h=w[4] & 0xFFFF,
            out_w=w[4] >> 16,
            group_words=w[5] & 0xFFFF,
            groups=w[5] >> 16,
            columns=w[6] & 0xFFFF,
            lo=int16(w[7] & 0xFFFF),
            hi=int16(w[7] >> 16),
            in_offset=w[8],
            in_row_bytes=w[9],
            in_pixel_bytes=w[10],
            out_offset=w[11],
            out_row_bytes=w[12],
            out_pixel_bytes=w[13],
            residual_offset=w[14],
            residual_row_bytes=w[15],
            residual_pixel_bytes=w[16],
            weights=(w[17], w[18], w[19], w[20]),
        )
