"""The roofline: a lower bound of cycles from the multipliers and the memory alone. Pure arithmetic.

>>> from fluidnpu.models import LayerShape
>>> layer = LayerShape(name="conv", r=196, p=256, c=1024)
>>> roofline_cycles(layer, batch=1, macs_per_cycle=900, words_per_cycle=34.0)
57089.137777777774
>>> roofline_cycles(layer, batch=1, macs_per_cycle=900, words_per_cycle=4.0)
128256.0
"""

from __future__ import annotations

from fluidnpu.models import Kind, LayerShape, Window

from .activation import residual_words


def touched_words(layer: LayerShape) -> int:
    """Input words that the windows of one sample touch, each once.

    Without a window each counts once for every kernel position, as a matrix product reads them.

    >>> from fluidnpu.models import Window
    >>> window = Window(kernel=(3, 3), dilation=(8, 8), out=(2, 2), channels=1)
    >>> touched_words(LayerShape(name="conv", r=4, p=9, c=1, window=window))
    36
    """
    window = layer.window
    if window is None:
        return layer.r * layer.groups * layer.p
    gemm = layer.kind is Kind.GEMM
    channels = layer.groups * (layer.p // (window.kernel[0] * window.kernel[1])) if gemm else layer.c
    return _touched(window, 0) * _touched(window, 1) * channels


def _touched(window: Window, axis: int) -> int:
    """Rows (0) or columns (1) of the input that some window touches."""
    out, kernel, stride, dilation = (
        sizes[axis] for sizes in (window.out, window.kernel, window.stride, window.dilation)
    )
    return len({o * stride + k * dilation for o in range(out) for k in range(kernel)})


def layer_words(layer: LayerShape, batch: int) -> int:
    """Words that must cross the memory's pins: weights, inputs, residual, outputs, each once.

    Of outputs that pass a pool or a filter, those behind it; a layer that is merged moves nothing itself.
    """
    if layer.merged:
        return 0
    weights = layer.groups * layer.p * layer.c if layer.kind is Kind.GEMM else 0
    return weights + batch * (touched_words(layer) + layer.stored + residual_words(layer))


def roofline_cycles(layer: LayerShape, *, batch: int, macs_per_cycle: float, words_per_cycle: float) -> float:
    """Cycles of computing or of moving, the longer; a pool has nothing to compute.

    What a filter computes of a layer that is merged counts where its outputs pass the filter.
    `words_per_cycle`: of the memory, refresh counted; 0 for no limit.
    """
    moved = layer_words(layer, batch) / words_per_cycle if words_per_cycle else 0.0
    macs = 0 if layer.merged else layer.macs + filtered_macs(layer)
    return max(batch * macs / macs_per_cycle, moved)


def filtered_macs(layer: LayerShape) -> int:
    """Multiply-accumulates of a sample in the filter that a layer's outputs pass; 0 without one."""
    filtering = layer.filtering
    return 0 if filtering is None else filtering.kernel**2 * filtering.out[0] * filtering.out[1] * layer.c
