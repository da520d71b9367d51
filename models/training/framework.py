"""PyTorch as training uses it: loaded where it is needed, on one thread, so that a seed gives one result."""

from __future__ import annotations

from typing import Any

from ..errors import TrainingError


def load_torch() -> Any:
    """Return the module torch, set to one thread. Raises TrainingError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise TrainingError("training needs PyTorch, which is not installed: pip install 'fluidnpu[train]'") from None
    torch.set_num_threads(1)
    return torch


def convolve(
    x: Any,
    weight: Any,
    bias: Any,
    stride: tuple[int, int],
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Any:
    """Return the convolution of x (N, C, H, W), as torch's `conv2d`; a kernel of one tap takes no stride.

    The gradient of such a kernel with a stride writes past oneDNN's workspace where channels are last and
    few (oneDNN issue 6035, seen with PyTorch 2.13 on a processor without AVX-512), and training aborts.
    """
    if tuple(weight.shape[2:]) == (1, 1) and tuple(padding) == (0, 0):
        x, stride = x[:, :, :: stride[0], :: stride[1]], (1, 1)
    return load_torch().nn.functional.conv2d(x, weight, bias, stride, padding, dilation, groups)
