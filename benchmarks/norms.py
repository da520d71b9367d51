"""int16 error of LayerNorms made of the NPU's layers, on the maps that a network's own norms read (ADR 69).

`python benchmarks/norms.py convnext_tiny.onnx` runs onnxruntime on six images of smooth noise. Each map that
a LayerNorm of parts reads is normalised by golden layers in two forms: the first three images calibrate, the
others are measured, and once are their own calibration. Drawn pixels show what variances far apart cost.
benchmarks/coverage_zoo.py has the networks.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from fluidnpu.models import Exit, Kind, Network, golden, quantise
from fluidnpu.models.graph import Activation, Builder, Use
from fluidnpu.models.graph.network import Parameters
from fluidnpu.models.numeric.float_reference import examine

IMAGES, SIDE, EPSILON = 6, 14, 1e-6  # SIDE: of the pixels that are taken of a larger map
Floats = npt.NDArray[np.float32]
PRODUCT = Activation(use=Use.PRODUCT)


def smooth_noise(rng: np.random.Generator, shape: list[int]) -> Floats:
    """Return an image whose spectrum falls as that of photographs does, of standard deviation 1."""
    square = np.fft.fftfreq(shape[2])[:, None] ** 2 + np.fft.rfftfreq(shape[3]) ** 2
    square[0, 0] = square[0, 1]
    image = np.fft.irfft2(np.fft.rfft2(rng.standard_normal(shape)) / np.sqrt(square), s=shape[2:])
    return np.asarray(image / image.std(), np.float32)


def maps_of_norms(path: str) -> dict[str, Floats]:
    """Return what each LayerNorm of parts reads, (images, height, width, channels)."""
    model = onnx.load(path)
    producers = {name: node for node in model.graph.node for name in node.output}
    subs = [node for node in model.graph.node if node.op_type == "Sub" and node.input[1] in producers]
    names = [node.input[0] for node in subs if producers[node.input[1]].op_type == "ReduceMean"]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in names)
    session = ort.InferenceSession(model.SerializeToString())
    image, rng = session.get_inputs()[0], np.random.default_rng(0)
    runs = [session.run(names, {image.name: smooth_noise(rng, image.shape)}) for _ in range(IMAGES)]
    return {name: np.concatenate(maps) for name, maps in zip(names, zip(*runs, strict=True), strict=True)}


def norm(shape: tuple[int, int, int], span: float, matrix: bool) -> Network:
    """Return a norm of pixels span * (image - 1/2): centred by a matrix, or by a mean that is taken away."""
    channels = shape[2]
    net = Builder({"image": shape})
    own = {"fc": Parameters(weights=np.ones((1, channels, 1), np.float32), bias=np.zeros(1, np.float32))}
    mean = np.full((1, channels, 1), 1 / channels, np.float32)
    if matrix:
        centred = net.conv("centred", "image", channels, 1, clip=(None, None))
        weights = (span * (np.eye(channels) - 1 / channels)).astype(np.float32)[None]
        own["centred"] = Parameters(weights=weights, bias=np.zeros(channels, np.float32))
    else:
        less = net.conv("less", "image", 1, 1, clip=(None, None))
        own["less"] = Parameters(weights=-mean, bias=np.zeros(1, np.float32))
        spread = {"residual": less, "residual_spread": True, "clip": (None, None)}
        centred = net.add(Kind.MAX_POOL, "centred", "image", channels, (1, 1), **spread)
    square = net.add(Kind.MAX_POOL, "square", centred, channels, (1, 1), residual=centred, activation=PRODUCT)
    epsilon = EPSILON if matrix else EPSILON / span**2
    function = Activation(use=Use.TABLE, function="reciprocal_root", parameters=(epsilon,))
    root = net.conv("root", square, 1, 1, clip=(None, None), activation=function)
    own["root"] = Parameters(weights=mean, bias=np.zeros(1, np.float32))
    product = {"residual": root, "residual_spread": True, "activation": PRODUCT}
    net.add(Kind.MAX_POOL, "normed", centred, channels, (1, 1), **product)
    net.classifier(("mean", "fc"), "normed_out", 1, "logits")
    return replace(net.network("norm", [Exit(name="final", logits="logits")]), parameters=own)


def errors(x: Floats, matrix: bool) -> tuple[float, float]:
    """Return the rms error and the worst pixel's, in per cent of the norm's standard deviation."""
    seen, span = IMAGES // 2, 2 * float(np.abs(x[: IMAGES // 2]).max())
    images = np.clip(x / span + 0.5, 0, 1)
    network = norm((x.shape[1], x.shape[2], x.shape[3]), span, matrix)
    network = network.recalibrated(examine(network, images[:seen]).ranges)
    qnet = quantise(network)
    stored = {network.input: qnet.quantise_input(images[seen:])}
    golden.run_stage(qnet, 0, stored)
    real = x[seen:].astype(np.float64)
    want = (real - real.mean(3, keepdims=True)) / np.sqrt(real.var(3, keepdims=True) + EPSILON)
    square = np.square(qnet.real("normed_out", stored["normed_out"]) - want)
    spread = 100 / want.std()
    return spread * float(np.sqrt(square.mean())), spread * float(np.sqrt(square.mean(3)).max())


def main(path: str) -> None:
    """Print a row for each norm, and the medians."""
    print("channels  matrix: rms, worst pixel %   mean: rms, worst pixel %   mean, its own calibration")
    rows = []
    for name, x in maps_of_norms(path).items():
        step = max(1, x.shape[1] // SIDE)
        x = x[:, ::step, ::step]  # pixels are normalised alone
        own = np.concatenate([x[IMAGES // 2 :]] * 2)
        rows.append([*errors(x, matrix=True), *errors(x, matrix=False), *errors(own, matrix=False)])
        print(f"{x.shape[3]:8d}  " + "  ".join(f"{error:10.3f}" for error in rows[-1]), name)
    for text, values in (("median", np.median(rows, axis=0)), ("most", np.max(rows, axis=0))):
        print(f"{text:8s}  " + "  ".join(f"{error:10.3f}" for error in values))
    print("96 channels, calibrated on what is measured; variances apart: mean: rms, worst pixel %")
    rng = np.random.default_rng(0)
    for factor in (1, 10, 100, 1000):
        shape = (IMAGES // 2, SIDE, SIDE)
        deviation = np.sqrt(float(factor) ** rng.uniform(size=(*shape, 1)))
        drawn = (rng.standard_normal((*shape, 96)) * deviation).astype(np.float32)
        print("{:8d}  {:11.3f} {:11.3f}".format(factor, *errors(np.concatenate([drawn, drawn]), matrix=False)))


if __name__ == "__main__":
    main(sys.argv[1])
