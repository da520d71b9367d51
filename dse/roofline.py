"""The roofline: cycles that no NPU of so many multipliers before such a memory can undercut, whatever its dataflow. Pure arithmetic.

>>> from models import LayerShape
>>> layer = LayerShape(name="conv", r=196, p=256, c=1024)
>>> roofline_cycles(layer, batch=1, macs_per_cycle=900, words_per_cycle=34.0)
57089.137777777774
>>> roofline_cycles(layer, batch=1, macs_per_cycle=900, words_per_cycle=4.0)
128256.0
"""

from __future__ import annotations

from models import Kind, LayerShape

from .dram import DramModel


def layer_words(layer: LayerShape, batch: int) -> int:
    """Words of 16 bits that must cross the memory's pins: weights, inputs, residual and outputs, each once. A layer without a window is taken to read
    each input once for every kernel position, as a matrix product does.
    """
    window = layer.window
    outputs = layer.r * layer.groups * layer.c
    if window is None:
        inputs = layer.r * layer.groups * layer.p
    else:
        high, wide = (
            (window.out[i] - 1) * min(window.stride[i], window.kernel[i])
            + (window.kernel[i] - 1) * window.dilation[i]
            + 1
            for i in (0, 1)
        )
        inputs = high * wide * window.channels
    weights = layer.groups * layer.p * layer.c if layer.kind is Kind.GEMM else 0
    return weights + batch * (inputs + (2 if layer.residual else 1) * outputs)


def roofline_cycles(layer: LayerShape, *, batch: int, macs_per_cycle: float, words_per_cycle: float) -> float:
    """The longer of computing and moving; a pool has nothing to compute. `words_per_cycle`: 0 for no limit."""
    moved = layer_words(layer, batch) / words_per_cycle if words_per_cycle else 0.0
    return max(batch * layer.macs / macs_per_cycle, moved)


def awake_words(dram: DramModel) -> float:
    """Words a cycle of all ports together, refresh counted; 0 for no limit."""
    refresh = dram.refresh_cycles / dram.refresh_interval_cycles if dram.refresh_cycles else 0.0
    return dram.total_words * (1.0 - refresh)
