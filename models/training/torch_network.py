"""Run any network in torch, so that gradients reach its weights: every layer that the NPU knows.

The float reference in NumPy (`numeric/float_reference.py`) is the definition; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..exits.heads import layers_needed
from ..graph.activations import Activation, Clip, Use
from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind
from ..onnx.writing.export import from_oihw, oihw
from .fake_quantisation import fake_weights, fake_words
from .framework import convolve, load_torch

Weights = dict[str, tuple[Any, Any]]  # by layer: weight (OIHW) and bias, torch tensors


def torch_weights(network: Network) -> Weights:
    """Return copies of the network's weights as torch tensors. Raises NetworkError where a layer has none."""
    torch, parts = load_torch(), {}
    for layer in network.layers:
        if layer.kind is Kind.GEMM:
            if layer.name not in network.parameters:
                raise NetworkError(
                    f"'{network.name}' must have weights to be trained, and layer '{layer.name}' has none"
                )
            own = network.parameters[layer.name]
            weight = torch.from_numpy(np.array(oihw(layer, own), np.float32))
            parts[layer.name] = (
                weight.contiguous(memory_format=torch.channels_last),
                torch.from_numpy(np.array(own.bias, np.float32)),
            )
    return parts


def with_weights(network: Network, weights: Weights) -> Network:
    """Return the network with these weights; ranges, rates and accuracies are forgotten."""
    layers = {layer.name: layer for layer in network.layers}
    parameters = dict(network.parameters)
    for name, (weight, bias) in weights.items():
        parameters[name] = replace(
            parameters[name],
            weights=from_oihw(layers[name], weight.detach().contiguous().numpy()),
            bias=bias.detach().numpy().copy(),
        )
    exits = tuple(replace(exit, rate=None, accuracy=None) for exit in network.exits)
    return replace(network.recalibrated({}), parameters=parameters, exits=exits)


def backbone_layers(network: Network) -> frozenset[str]:
    """Return the names of the layers that the last exit depends on."""
    return frozenset(network.layers[index].name for index in layers_needed(network, network.exits[-1].classes))


def forward(
    network: Network,
    weights: Weights,
    images: Any,
    frozen: Collection[str] = (),
    largest: Mapping[str, float] | None = None,
) -> list[Any]:
    """Return the logits (N, classes) of every exit for values (N, C, H, W) of the input tensor.

    Maps are flat as they lie in memory, (N, height * width * channels). No gradient passes through the
    layers named in `frozen`. `largest` magnitudes of tensors and words, in real units, let weights and values
    be those of int8.
    """
    torch = load_torch()
    values = _Tensors(network, images if largest is None else fake_words(images, largest[network.input]))
    for layer in network.layers:
        own = weights.get(layer.name)
        with torch.set_grad_enabled(torch.is_grad_enabled() and layer.name not in frozen):
            if largest is None:
                values.write(layer, _run(layer, own, values))
            else:
                rounded = None if own is None else (fake_weights(own[0]), own[1])
                value = _run(layer, rounded, values, None if layer.inner is None else largest[layer.inner])
                values.write(layer, fake_words(value, largest[layer.output]))
    return [values.read(exit.classes).permute(0, 2, 3, 1).flatten(1) for exit in network.exits]


class _Tensors:
    """Tensors as they are written, piece by piece where several layers write one."""

    def __init__(self, network: Network, images: Any) -> None:
        self.network = network
        self.whole: dict[str, Any] = {network.input: images}
        self.pieces: dict[str, list[tuple[Layer, Any]]] = {}

    def write(self, layer: Layer, value: Any) -> None:
        if layer.fills(self.network.tensors[layer.output]):
            self.whole[layer.output] = value
        else:
            self.pieces.setdefault(layer.output, []).append((layer, value))
            self.whole.pop(layer.output, None)

    def read(self, tensor: str) -> Any:
        """Return a tensor with zeros where nothing was written yet."""
        if tensor not in self.whole:
            self.whole[tensor] = self._joined(tensor)
        return self.whole[tensor]

    def _joined(self, tensor: str) -> Any:
        torch, (height, width, channels) = load_torch(), self.network.tensors[tensor]
        pieces = sorted(self.pieces[tensor], key=lambda piece: piece[0].output_channel)
        if any(layer.output_step != (1, 1) for layer, _ in pieces):
            return self._interleaved(tensor, pieces)
        ends = [0, *(layer.output_channel + layer.channels for layer, _ in pieces)]
        starts = [*(layer.output_channel for layer, _ in pieces), channels]
        if starts == ends and all(layer.out_hw == (height, width) for layer, _ in pieces):
            return torch.cat([value for _, value in pieces], 1)
        total = None
        for layer, value in pieces:
            (top, left), (rows, columns) = layer.output_at, layer.out_hw
            first = layer.output_channel
            sides = (left, width - left - columns, top, height - top - rows, first, channels - first - layer.channels)
            padded = torch.nn.functional.pad(value, sides)
            total = padded if total is None else total + padded
        return total

    def _interleaved(self, tensor: str, pieces: list[tuple[Layer, Any]]) -> Any:
        """Put pieces that lie between one another into their pixels."""
        height, width, channels = self.network.tensors[tensor]
        whole = pieces[0][1].new_zeros((len(pieces[0][1]), channels, height, width))
        for layer, value in pieces:
            layer.written(whole.permute(0, 2, 3, 1))[...] = value.permute(0, 2, 3, 1)
        return whole


def _run(layer: Layer, own: tuple[Any, Any] | None, values: _Tensors, largest: float | None = None) -> Any:
    functional = load_torch().nn.functional
    x = values.read(layer.input)[:, layer.input_channel : layer.input_channel + layer.in_shape[2]]
    top, left, bottom, right = layer.padding
    if layer.kind is Kind.GEMM:
        assert own is not None
        x, padding = (
            (x, (top, left))
            if (top, left) == (bottom, right) and min(top, left) >= 0
            else (
                functional.pad(x, (left, right, top, bottom)),
                (0, 0),
            )
        )
        value = convolve(x, *own, layer.stride, padding, layer.dilation, layer.groups)
    elif layer.kind is Kind.MAX_POOL:
        x = functional.pad(x, (left, right, top, bottom), value=-float("inf"))
        value = functional.max_pool2d(x, layer.kernel, layer.stride, 0, layer.dilation)
    else:
        x = functional.pad(x, (left, right, top, bottom))
        value = _average(layer, x)
    residual: Any = None
    if layer.residual is not None:
        taken: Any = layer.added(values.read(layer.residual).permute(0, 2, 3, 1))
        residual = taken.permute(0, 3, 1, 2)
    word = _clamped(value + residual if layer.adds else value, layer.clip)
    if layer.activation is None:
        return word
    word = word if largest is None else fake_words(word, largest)
    return _clamped(
        _activated(layer.activation, word, residual, values.network.parameters.get(layer.name)), layer.activation.clip
    )


def _clamped(value: Any, clip: Clip) -> Any:
    low, high = clip
    return value if low is None and high is None else value.clamp(low, high)


def _activated(activation: Activation, word: Any, residual: Any, own: Parameters | None) -> Any:
    """Apply an activation before its clip. The lines of channels are not trained."""
    if activation.use is Use.TABLE:
        return _function(activation.function)(word, *activation.parameters)
    if activation.use is Use.PRODUCT:
        return word * residual
    if own is None:
        raise NetworkError("a layer with lines of channels must have them to be trained, and it has none")
    torch = load_torch()
    slopes, offsets = (
        torch.from_numpy(np.array(values, np.float32)).reshape(-1, 1, 1) for values in (own.slopes, own.offsets)
    )
    if activation.use is Use.SLOPE:
        return torch.where(word < 0, word * slopes, word)
    return word * slopes + offsets


def _function(name: str) -> Callable[..., Any]:
    """Return a function of `FUNCTIONS` in torch, of values and its parameters."""
    torch = load_torch()
    functional = torch.nn.functional
    functions: Mapping[str, Callable[..., Any]] = {
        "silu": lambda x, beta: x * torch.sigmoid(beta * x),
        "hard_swish": functional.hardswish,
        "hard_sigmoid": lambda x, alpha, beta: (alpha * x + beta).clamp(0, 1),
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "mish": functional.mish,
        "elu": functional.elu,
        "celu": functional.celu,
        "selu": lambda x, alpha, gamma: gamma * functional.elu(x, alpha),
        "softplus": functional.softplus,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "leaky_relu": functional.leaky_relu,
        "reciprocal_root": lambda x, epsilon: (x.clamp(min=0) + epsilon).rsqrt(),
    }
    return functions[name]


def _average(layer: Layer, x: Any) -> Any:
    torch = load_torch()
    if layer.dilation == (1, 1):
        return torch.nn.functional.avg_pool2d(x, layer.kernel, layer.stride)
    taps = torch.full((layer.in_shape[2], 1, *layer.kernel), 1 / (layer.kernel[0] * layer.kernel[1]))
    return torch.nn.functional.conv2d(x, taps, None, layer.stride, 0, layer.dilation, layer.in_shape[2])


def input_values(network: Network, images: npt.NDArray[Any]) -> Any:
    """Return a user's images as values (N, C, H, W) of the input tensor, channels last in memory."""
    torch = load_torch()
    values = torch.from_numpy(network.intake.values(images).astype(np.float32)).permute(0, 3, 1, 2)
    return values.contiguous(memory_format=torch.channels_last)


def snapshot(weights: Weights) -> Mapping[str, tuple[Any, Any]]:
    """Return copies that later steps do not change."""
    return {name: (weight.detach().clone(), bias.detach().clone()) for name, (weight, bias) in weights.items()}
