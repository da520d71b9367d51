"""The geometry of one layer as hardware sees it: its windows, and the places of its tensors in memory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LayerGeometry:
    """The windows of a layer and the places of its tensors, as its descriptor has them.

    Offsets and distances are bytes; `*_offset` counts from the base of a sample's slot. `group_words`: input
    channels of one group (all channels of a pool). `columns`: output channels of one group. Group g reads
    from word g * group_words from `in_offset` and writes to word g * columns from `out_offset`.

    A `pool_kernel` of 2 or 3 says that outputs pass a max pool of stride 2 before they are stored (ADR 51):
    `out_offset` and its distances are then those of the pooled map, `pool_top` and `pool_left` the rows above
    and columns left of the map that its first windows reach into, `pool_pitch` the entries of pooled maxima
    from a pixel to the next. `merged`: a layer that the one before it has computed.

    A `filter_kernel` of 2 to 7 says that outputs pass a depthwise filter instead (ADR 70): `filter_top` and
    `filter_left` are its padding, `walk_h` and `walk_w` the rows and columns of the positions that it visits.
    `filter_rows` of weights, `pool_pitch` beats of a pixel. `filter_table`: a table comes behind the filter.

    `activation`: code of what the activation unit does with the words of the layer (ADR 69), 0 for nothing;
    a product takes the residual, which is then not added. `pieces` of 32 bits: those that it takes for that.
    `residual_spread`: the residual has one word a pixel; residual distances of 0 repeat one pixel.
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
    pool_kernel: int = 0
    pool_top: int = 0
    pool_left: int = 0
    pool_pitch: int = 0
    merged: int = 0
    residual_spread: int = 0
    activation: int = 0
    pieces: int = 0
    filter_kernel: int = 0
    filter_stride: int = 0
    filter_top: int = 0
    filter_left: int = 0
    filter_table: int = 0
    filter_rows: int = 0
    walk_h: int = 0
    walk_w: int = 0

    @property
    def pooled_hw(self) -> tuple[int, int]:
        """Rows and columns of the map that is stored.

        >>> sizes = dict.fromkeys((field.name for field in fields(LayerGeometry)), 0)
        >>> LayerGeometry(**sizes | {"out_h": 112, "out_w": 147, "pool_kernel": 3, "pool_top": 1}).pooled_hw
        (56, 73)
        >>> filtered = {"walk_h": 113, "walk_w": 148, "filter_kernel": 3, "filter_stride": 2, "filter_top": 1}
        >>> LayerGeometry(**sizes | filtered).pooled_hw
        (56, 73)
        """
        if self.filter_kernel:
            walks = (self.walk_h + self.filter_top, self.walk_w + self.filter_left)
            high, wide = ((walk - self.filter_kernel) // self.filter_stride + 1 for walk in walks)
            return high, wide
        if not self.pool_kernel:
            return self.out_h, self.out_w
        last = (self.out_h - 1 + self.pool_top, self.out_w - 1 + self.pool_left)  # from where the first window begins
        high, wide = ((at + 1) // 2 if self.pool_kernel == 3 else at // 2 + 1 for at in last)
        return high, wide

    @property
    def geometry(self) -> dict[str, Any]:
        """The fields of this base by name, to make another record of the same layer with."""
        return {field.name: getattr(self, field.name) for field in fields(LayerGeometry)}
