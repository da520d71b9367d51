"""Mistakes with data, as people make them: each is one true sentence, whatever command reads the data."""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from refusals import refused

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle
from fluidnpu.models import quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.exits import single_exit
from fluidnpu.models.onnx import write_onnx

TEN = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SORTED = sorted(TEN)
IMAGES = shipped_images(40)
COMMANDS = (
    "prepare {model} --calibrate {data}",
    "exits {model} --exits 2 --fit {data}",
    "build {model} --board zc706 --out {new} --data {data}",
    "stream {bundle} --rate 1000 --slo 20ms --data {data}",
    "train --from {model} --out {new}.onnx --epochs 1 --data {data}",
)


def run(words: str, places: Mapping[str, object]) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(main, words.format_map(places).split())


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of ten classes without names, and its bundle."""
    folder = tmp_path_factory.mktemp("mistakes")
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        write_onnx(single_exit(read_onnx(path)), folder / "model.onnx")
    network = read_onnx(folder / "model.onnx")
    design = explore(network.workload, load_board("zc706"), b_max=2, model="paper").design
    Bundle(design=design, program=compile_program(quantise(network), design)).write(folder / "bundle")
    return {"model": folder / "model.onnx", "bundle": folder / "bundle"}


# -- what people have ----------------------------------------------------------------------------------------


def save(path: Path, image: npt.NDArray[np.generic] = IMAGES.images[0, ..., 0]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
    return path


def classes(data: Path, names: list[str]) -> Path:
    """A folder a class; image n is of the n-th name as it is in this list, whatever the order of text."""
    for image, label in zip(IMAGES.images, IMAGES.labels, strict=True):
        if label < len(names):
            save(data / names[label] / f"{len(list(data.glob('*/*')))}.png", image[..., 0])
    return data


def flat(data: Path, table: str | bytes) -> Path:
    for name in ("a", "b"):
        save(data / f"{name}.png")
    (data / "labels.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    return data


def npz(data: Path, **arrays: npt.ArrayLike) -> Path:
    np.savez(data.with_suffix(".npz"), **arrays)
    return data.with_suffix(".npz")


def spoilt(path: Path, spoil: Callable[[bytes], bytes]) -> Path:
    path.write_bytes(spoil(path.read_bytes()))
    return path.parent


def idx(data: Path, shape: tuple[int, ...], count: int) -> Path:
    data.mkdir()
    name = data / "my-images-idx3-ubyte.gz"
    head = b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    name.write_bytes(gzip.compress(head + bytes(count)))
    return name


def with_file(data: Path, name: str, text: str) -> Path:
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    (data / name).write_text(text, encoding="utf-8")
    return data


def with_folder(data: Path, name: str) -> Path:
    (data / name).mkdir(parents=True)
    return data


PIXELS, LABELS = IMAGES.images[:8], IMAGES.labels[:8]
TIFF = np.zeros((28, 28), np.float32)
MISTAKES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "an empty folder": (lambda data: with_folder(data, ""), "must hold 1 to 200000 images"),
    "an empty class": (lambda data: with_folder(classes(data, TEN), "aa"), "aa' must hold images, since every folder is"),
    "nine of ten classes": (
        lambda data: classes(data, TEN[:9]),
        "tells 10 classes apart, and those in {data} have 9 (eight, five, four, ..., zero): name all 10 in their order",
    ),
    "eleven classes": (lambda data: save(classes(data, TEN) / "ten" / "0.png").parent.parent, "have 11 (eight,"),
    "labels 5..14": (lambda data: npz(data, images=PIXELS, labels=np.arange(8) + 7), "classes 0..9 of '{name}', and 7..14 came"),
    "labels -1..": (lambda data: npz(data, images=PIXELS, labels=LABELS - 2), "classes 0..9 of '{name}', and -1..7 came"),
    "labels from 1": (lambda data: npz(data, images=PIXELS, labels=np.arange(8) + 3), "and 3..10 came"),
    "one-hot labels": (lambda data: npz(data, images=PIXELS, labels=np.eye(10, dtype=np.int64)[:8]), "a label for each of 8"),
    "labels as text": (lambda data: npz(data, images=PIXELS, labels=np.array(["a"] * 8)), "must be whole numbers, not <U1"),
    "fewer labels": (lambda data: npz(data, images=PIXELS, labels=LABELS[:5]), "a label for each of 8 images"),
    "images of 16 bits in an archive": (lambda data: npz(data, images=PIXELS.astype(np.uint16)), "uint8 or floats, not uint16"),
    "floats of 0..255": (lambda data: npz(data, images=PIXELS.astype(np.float32), labels=LABELS), "must lie in 0..1, and 0..255"),
    "three channels for one": (
        lambda data: npz(data, images=np.repeat(PIXELS, 3, 3), labels=LABELS),
        "must be of shape (N, 28, 28, 1), not (8, 28, 28, 3)",
    ),
    "another size": (lambda data: save(data / "a.png", IMAGES.images[0, :20, :, 0]).parent, "a resize can be set with"),
    "an archive without images": (lambda data: npz(data, x=PIXELS), "images"),
    "an archive cut short": (
        lambda data: spoilt(npz(data, images=PIXELS), lambda raw: raw[: len(raw) // 2]) / f"{data.name}.npz",
        "must be an .npz",
    ),
    "a picture cut short": (lambda data: spoilt(save(data / "a.png"), lambda raw: raw[:150]), "reading it failed"),
    "another file under its name": (lambda data: spoilt(save(data / "a.jpg"), lambda raw: b"%PDF" + raw), "must be an image"),
    "floats in a TIFF": (lambda data: save(data / "a.tif", TIFF).parent, "mode F, whose white is not known"),
    "classes and loose images": (lambda data: save(classes(data, TEN) / "loose.png").parent, "and it holds both ('eight' and"),
    "the parts of a set": (
        lambda data: save(save(data / "train" / "a" / "0.png").parents[2] / "test" / "a" / "0.png").parents[2],
        "not the parts of a set: name one of 'test', 'train'",
    ),
    "a table with names of classes": (lambda data: flat(data, "a.png,cat\nb.png,dog\n"), "line 1 must be a file's name, a comma"),
    "a table with -1": (lambda data: flat(data, "a.png,-1\nb.png,0\n"), "a whole number from 0, not 'a.png,-1'"),
    "a table of semicolons": (lambda data: flat(data, "\ufefffile;class\r\na.png;1\r\n".encode()), "line 1 must be"),
    "a file named twice": (lambda data: flat(data, "a.png,1\nb.png,0\na.png,2\n"), "line 3 names 'a.png' again"),
    "a file without a class": (lambda data: flat(data, "file,class\na.png,1\n"), "has none for 'b.png'"),
    "a class out of the table's names": (
        lambda data: with_file(flat(data, "a.png,1\nb.png,10\n"), "classes.txt", "\n".join(TEN)),
        "must be among the 10 classes named there, not 10",
    ),
    "a class that is not named": (
        lambda data: with_file(classes(data, TEN), "classes.txt", "\n".join(TEN[:9])), "once, one a line, and it lacks 'nine'"
    ),
    "too many names": (
        lambda data: with_file(classes(data, TEN), "classes.txt", "\n".join([*TEN, "ten"])), "have 11 (zero, one, two, ..., ten)"
    ),
    "an idx file that is too short": (lambda data: idx(data, (4, 28, 28), 100), "whose length fits its header"),
    "a path that is none": (lambda data: data / "nothing", "does not exist"),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "words"), [*zip(MISTAKES, cycle(COMMANDS), strict=False)])
def test_a_mistake_is_one_true_sentence(mistake: str, words: str, places: dict[str, Path], tmp_path: Path) -> None:
    make, sentence = MISTAKES[mistake]
    data = make(tmp_path / "data")
    known: dict[str, object] = {**places, "data": data, "new": tmp_path / "new", "name": "resnet8_fashion_mnist"}
    refused(run(words, known), sentence.format_map(known))
    assert not (tmp_path / "new").exists()


def test_there_are_enough_mistakes() -> None:
    assert len(MISTAKES) >= 25


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_refuses_what_is_not_the_networks(words: str, places: dict[str, Path], tmp_path: Path) -> None:
    """One door: whatever reads labelled data refuses nine of ten classes, and labels out of range."""
    nine, beyond = classes(tmp_path / "nine", TEN[:9]), npz(tmp_path / "beyond", images=PIXELS, labels=LABELS + 5)
    for data, sentence in ((nine, "tells 10 classes apart"), (beyond, "labels must be classes 0..9")):
        refused(run(words, {**places, "data": data, "new": tmp_path / "new"}), sentence)


# -- what can be meant ---------------------------------------------------------------------------------------


@pytest.fixture
def names(tmp_path: Path) -> Path:
    (tmp_path / "names.txt").write_text("\n".join(TEN), encoding="utf-8-sig")
    return tmp_path / "names.txt"


def accuracy(words: str, places: dict[str, Path]) -> float:
    result = run(words + " --json", places)
    assert result.exit_code == 0, (result.output, result.exception)
    return float(json.loads(result.stdout.splitlines()[-1])["accuracy"])


def test_names_make_nine_folders_of_ten_right(places: dict[str, Path], tmp_path: Path, names: Path) -> None:
    """By their names folders are the right classes, however they are sorted and however many are missing."""
    serve = "stream {bundle} --rate 1000 --slo 20ms --data {data}"
    known = {**places, "data": npz(tmp_path / "all", images=IMAGES.images, labels=IMAGES.labels), "names": names}
    right = accuracy(serve, known)
    assert right > 0.8
    assert accuracy(serve + " --classes {names}", known) == right
    known["data"] = classes(tmp_path / "ten", TEN)
    assert accuracy(serve, known) < 0.5  # in the order of text, which is not the network's
    assert accuracy(serve + " --classes {names}", known) == right
    known["data"] = classes(tmp_path / "nine", TEN[:9])
    assert accuracy(serve + " --classes {names}", known) > 0.8
    (tmp_path / "nine" / "one").rename(tmp_path / "nine" / "uno")
    refused(run(serve + " --classes {names}", known), "'uno' is none of zero, one, two, ..., nine: rename it")
    names.write_text("zero\none\n")
    refused(run(serve + " --classes {names}", known), "must name the 10 classes of 'resnet8", "and it names 2")


def test_labels_that_are_no_classes_are_left_out_when_asked(places: dict[str, Path], tmp_path: Path) -> None:
    known = {**places, "data": classes(tmp_path / "nine", TEN[:9]), "new": tmp_path / "new.onnx"}
    result = run("prepare {model} --calibrate {data} --classes none --out {new}", known)
    assert result.exit_code == 0, result.output
    network = read_onnx(tmp_path / "new.onnx")
    assert (network.class_names, network.exits) == ((), read_onnx(places["model"]).exits)
    assert network.calibration


def test_what_was_left_out_is_said(places: dict[str, Path], tmp_path: Path) -> None:
    data = classes(tmp_path / "data", TEN)
    save(data / "__MACOSX" / "zero" / "._0.png")
    result = run(
        "prepare {model} --calibrate {data} --out {new}", {**places, "data": data, "new": tmp_path / "new.onnx"}
    )
    assert result.exit_code == 0, result.output
    assert f"note: folders of '{data}' that are left out: __MACOSX\n" in result.stderr
    assert read_onnx(tmp_path / "new.onnx").class_names == tuple(SORTED)  # as the folders were called


def test_names_go_from_a_file_into_model_and_bundle(places: dict[str, Path], tmp_path: Path, names: Path) -> None:
    known = {**places, "names": names, "named": tmp_path / "named.onnx", "new": tmp_path / "new"}
    assert run("prepare {model} --classes {names} --out {named}", known).exit_code == 0
    assert read_onnx(tmp_path / "named.onnx").class_names == tuple(TEN)
    assert "classes: 10 (zero, one, two, ..., nine)" in run("check {named}", known).stdout
    known["data"] = npz(tmp_path / "few", images=PIXELS, labels=LABELS)
    result = run("build {named} --board zc706 --model paper --out {new} --data {data}", known)
    assert result.exit_code == 0, result.output
    assert Bundle.read(tmp_path / "new" / "bundle").program.class_names == tuple(TEN)
    stream = "stream {new} --rate 1000 --slo 20ms --data {data}"
    report = json.loads(run(stream + " --json", known).stdout.splitlines()[-1])
    assert sum(report["classes"].values()) == len(PIXELS)
    most = max(report["classes"].values())
    screen = re.search(r"answers by class: (\w+) (\d+), ", run(stream, known).stdout)
    assert screen is not None
    assert report["classes"][screen[1]] == int(screen[2]) == most
    for words in (
        "stream {new} --rate 1000 --slo 20ms --classes {names}",
        "dse {model} --board zc706 --cycles paper --classes {names}",
        "verify {model} --board zc706 --classes {names}",
        "simulate {bundle}/design.json --policy serial --rate 9 --slo 9ms --classes {names}",
    ):
        refused(run(words, known), "--classes names the classes of the images that are read here, so it needs --data")
    refused(run("train --classes {names} --out {new}.onnx", known), "--classes belongs to fine-tuning")
    refused(
        run("serve {bundle} --http 0 --classes {names}", known),
        "serve has no --classes: write `fluidnpu stream BUNDLE --classes ...`",
    )
