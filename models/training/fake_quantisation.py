"""Fake quantisation: what int8 makes of weights and words, in floats, and gradients straight through it.

Training that sees the rounding learns weights that it hurts less (Jacob et al., "Quantization and Training
of Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018). `fine_tune` with a schedule
of 8 bits does it for a network of ours; `fake_quantised` for a PyTorch module, in a loop of the user's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..numeric.words import INT8
from .framework import load_torch


def fake_weights(weight: Any) -> Any:
    """Return weights (C, ...) rounded to 127 steps of a channel's largest; gradients pass."""
    largest = weight.detach().abs().flatten(1).amax(1).clamp(min=1e-12)
    step = (largest / INT8.highest).reshape(-1, *[1] * (weight.dim() - 1))
    return weight + ((weight / step).round() * step - weight).detach()


def fake_words(value: Any, largest: float) -> Any:
    """Return values rounded to 127 steps of `largest`; what lies beyond is clamped, and has no gradient."""
    step = max(largest, 1e-12) / INT8.highest
    held = value.clamp(INT8.lowest * step, INT8.highest * step)
    return held + ((held / step).round() * step - held).detach()


@contextmanager
def fake_quantised(module: Any, images: Any) -> Iterator[Any]:
    """Let a PyTorch module compute as int8 would while it is trained; later its weights are floats again.

    `images` are inputs of the module, whose pass measures the largest output of every layer. Weights of
    convolutions and linear layers are rounded by channel and their outputs by layer, so batch norms should be
    folded or frozen first. The module is exported behind the block, as ever.
    """
    torch = load_torch()
    layers = [part for part in module.modules() if isinstance(part, torch.nn.Conv2d | torch.nn.Linear)]
    sizes = _sizes(module, layers, images)
    handles = [layer.register_forward_hook(lambda part, _, value: fake_words(value, sizes[part])) for layer in layers]
    parametrise = torch.nn.utils.parametrize
    for layer in layers:
        parametrise.register_parametrization(layer, "weight", _rounding())
    try:
        yield module
    finally:
        for handle in handles:
            handle.remove()
        for layer in layers:
            parametrise.remove_parametrizations(layer, "weight", leave_parametrized=False)


def _rounding() -> Any:
    torch = load_torch()

    class Rounding(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, weight: Any) -> Any:
            return fake_weights(weight)

    return Rounding()


def _sizes(module: Any, layers: list[Any], images: Any) -> dict[Any, float]:
    """Return the largest magnitude of every layer's outputs."""
    sizes = dict.fromkeys(layers, 0.0)

    def seen(part: Any, _: Any, value: Any) -> None:
        sizes[part] = max(sizes[part], float(value.detach().abs().max()))

    handles = [layer.register_forward_hook(seen) for layer in layers]
    training = module.training
    module.eval()
    with load_torch().no_grad():
        module(images)
    module.train(training)
    for handle in handles:
        handle.remove()
    return sizes
