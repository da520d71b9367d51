"""The geometry of one layer as hardware sees it: its windows, and the places of its tensors in memory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LayerGeometry:
    """The windows of a layer and the places of its tensors, as its descriptor has them.

    Offsets and distances are bytes; `*_offset` counts from the base of a sample's slot. `group_words`: input
    channels of one group (all channels of a pool). `columns`: output channels of one group. Group g reads
    from `in_offset + 2 * g * group_words` and writes to `out_offset + 2 * g * columns`.
    """

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

    @property
    def geometry(self) -> dict[str, Any]:
        """The fields of this base by name, to make another record of the same layer with."""
        return {field.name: getattr(self, field.name) for field in fields(LayerGeometry)}
