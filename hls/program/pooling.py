"""The max pool that a layer's outputs pass on their way to memory, on arrays. Arithmetic only; no I/O."""

from __future__ import annotations

import numpy as np

from fluidnpu.models.numeric import Stored

from .descriptor import Descriptor


def pool_map(maps: Stored, layer: Descriptor) -> Stored:
    """The largest of each window of maps (batch, out_h, out_w, channels): what `fluidnpu_output_pool` lets
    through. Rows and columns beside a map are in no window.

    >>> sizes = dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    >>> sizes |= dict.fromkeys(("in_offset", "in_row_bytes", "in_pixel_bytes"), 2)
    >>> sizes |= dict.fromkeys(("group_words", "groups", "columns"), 1)
    >>> sizes |= dict.fromkeys(("out_offset", "out_row_bytes", "out_pixel_bytes"), 2)
    >>> sizes |= {"out_h": 4, "out_w": 4}
    >>> conv = Descriptor(kind=0, **sizes, pool_kernel=3, pool_top=1, pool_left=1)
    >>> pool_map(np.arange(16, dtype=np.int16).reshape(1, 4, 4, 1), conv)[0, :, :, 0].tolist()
    [[5, 7], [13, 15]]
    """
    before = layer.pool_top, layer.pool_left
    needed = [2 * (count - 1) + layer.pool_kernel for count in layer.pooled_hw]
    behind = [most - size - pad for most, size, pad in zip(needed, maps.shape[1:3], before, strict=True)]
    sides = ((0, 0), *((pad, max(0, end)) for pad, end in zip(before, behind, strict=True)), (0, 0))
    padded: Stored = np.pad(maps, sides, constant_values=np.iinfo(maps.dtype).min)
    high, wide = layer.pooled_hw
    taps = [(y, x) for y in range(layer.pool_kernel) for x in range(layer.pool_kernel)]
    largest: Stored = np.maximum.reduce([padded[:, y:, x:][:, : 2 * high : 2, : 2 * wide : 2] for y, x in taps])
    return largest
