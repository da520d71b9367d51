"""The table of the data that is taken, held against the files' reader and against the network surface."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import HostWorld, world
from PIL import Image

from fluidnpu.host.errors import HostError
from fluidnpu.host.oip.admission.limits import Limits, bounds_of
from fluidnpu.host.oip.interface import input_of
from fluidnpu.host.oip.wire.http_body import read_call
from fluidnpu.host.oip.wire.tensors import DTYPES, KNOWN, OF_PIXELS
from fluidnpu.models import ModelsError
from fluidnpu.models.images import Intake, Preprocessing, read_images
from fluidnpu.models.images.picture import FORMATS, SUFFIXES

SHAPE = world(3, loaded=False).program.input_intake.shape
SIZE = SHAPE[0] * SHAPE[1]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "own-data.md"


def rows() -> dict[str, tuple[str, str]]:
    """What the page says of each kind of data: the cells for files and for the network."""
    part = PAGE.read_text(encoding="utf-8").partition("\n## What data is taken\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")][2:]
    return {kind.strip(): (files.strip(), network.strip()) for kind, files, network in lines}


@dataclass(frozen=True)
class Kind:
    """One kind of data: what makes it as files or an archive, and its tensors as bytes by datatype."""

    files: tuple[Callable[[Path], object], ...]
    tensors: dict[str, Any]
    shape: tuple[int, ...] = SHAPE  # of the tensor
    resize: str = "none"


GREY = np.arange(SIZE, dtype=np.uint8).reshape(SHAPE[:2])
SIDE = Image.Exif()
SIDE[0x0112] = 6


def picture(name: str, image: Any, **options: Any) -> Callable[[Path], object]:
    return lambda folder: Image.fromarray(image).save(folder / name, **options)


def archive(images: Any) -> Callable[[Path], object]:
    return lambda folder: np.savez(folder / "data.npz", images=images)


def mode(name: str) -> Callable[[Path], object]:
    return lambda folder: Image.fromarray(GREY).convert("RGB").convert(name).save(folder / f"{name}.tif")


def pages(folder: Path) -> None:
    image = Image.fromarray(GREY)
    image.save(folder / "two.tif", save_all=True, append_images=[image])


def floats(values: Any) -> dict[str, bytes]:
    """The bytes of float pixels in every float datatype; BF16 is the upper half of FP32."""
    raw = {name: values.astype(DTYPES[name]).tobytes() for name in OF_PIXELS if name.startswith("FP")}
    return raw | {"BF16": (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()}


NOT_NUMBERS = np.full((1, *SHAPE), np.nan)
FLOAT = GREY[None, ..., None] / 255
WIDE = GREY.astype(np.uint16) * 257
KINDS = {
    "pixels of 8 bits": Kind(
        (archive(GREY[None]), *(mode(name) for name in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr"))),
        {"UINT8": GREY.tobytes()},
    ),
    "grey of 16 bits": Kind(
        tuple(picture(f"wide.{suffix}", WIDE) for suffix in ("png", "tif", "pgm")), {"UINT16": WIDE.tobytes()}
    ),
    "an array of 16 bits": Kind((archive(WIDE[None]),), {"UINT16": WIDE.tobytes()}),
    "floats of the declared range": Kind((archive(FLOAT), archive(FLOAT.astype(np.float16))), floats(FLOAT)),
    "floats beside that range, NaN": Kind(
        (archive(255 * FLOAT), archive(NOT_NUMBERS)), floats(255 * FLOAT) | {"FP64": NOT_NUMBERS.tobytes()}
    ),
    "stored numbers of the NPU": Kind((archive(GREY[None].astype(np.int16)),), {"INT16": WIDE.tobytes()}),
    "other integers, booleans, texts": Kind(
        tuple(archive(GREY[None].astype(dtype)) for dtype in (np.int8, np.int32, np.int64, np.uint32, bool, "U1")),
        {name: bytes(8 * SIZE) for name in KNOWN if name not in (*OF_PIXELS, "INT16", "UINT16")},
    ),
    "a TIFF of floats or of 32 bits": Kind(
        (picture("0.tif", GREY.astype(np.float32)), picture("1.tif", GREY.astype(np.int32))), {}
    ),
    "a photo that lies on its side in EXIF": Kind((picture("side.jpg", np.ascontiguousarray(GREY.T), exif=SIDE),), {}),
    "several pages of a TIFF": Kind((pages,), {}),
    "the network's channels in another number": Kind(
        (mode("RGB"), mode("RGBA")), {"UINT8": bytes(3 * SIZE)}, (*SHAPE[:2], 3)
    ),
    "another size, without `--resize`": Kind(
        (archive(GREY[None, :4]), picture("0.png", GREY[:4])), {"UINT8": bytes(4 * SHAPE[1])}, (4, *SHAPE[1:])
    ),
    "another size, with `--resize`": Kind(
        (archive(GREY[None, :4]), picture("0.png", GREY[:4])),
        {"UINT8": bytes(4 * SHAPE[1])},
        (4, *SHAPE[1:]),
        "stretch",
    ),
}


def outcome(refusal: type[Exception], work: Callable[[], object]) -> str:
    try:
        work()
    except refusal:
        return "refused"
    return "taken"


def encoded(w: HostWorld, head: bytes, raw: bytes) -> object:
    """Take the one image of a body as a server does: read within the model's bounds, then by the driver."""
    info = input_of(w.program)
    call = read_call("m", "", head + raw, len(head), bounds_of(Limits(), info))
    return w.driver.encode(call.inputs[info.name][0])


def resizing(w: HostWorld, resize: str) -> HostWorld:
    """The world with a program that resizes."""
    intake = replace(w.program.input_intake, preprocessing=Preprocessing(resize=resize))
    w.program = replace(w.program, intake=intake)
    return w


def test_the_table_has_these_kinds_in_this_order() -> None:
    assert list(rows()) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_taken_as_the_table_says(kind: str, tmp_path: Path) -> None:
    intake = Intake.of(Preprocessing(resize=KINDS[kind].resize), SHAPE)
    first_word = re.match(r"taken|refused", rows()[kind][0])
    assert first_word is not None
    for number, make in enumerate(KINDS[kind].files):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder)
        data = folder / "data.npz"
        read = partial(read_images, data if data.exists() else folder, intake)
        assert outcome(ModelsError, read) == first_word[0], number


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_taken_as_the_table_says(kind: str) -> None:
    about, cell = KINDS[kind], rows()[kind][1]
    if cell == "-":
        assert not about.tensors
        return
    w = resizing(world(3, loaded=False), about.resize)
    w.driver.programs = (w.program,)
    named = set(re.findall(r"`([A-Z]+[0-9]*)`", cell.partition(";")[0])) - {"INT8", "INT64"}
    assert named <= set(about.tensors), "every datatype that the table names is tried"
    info = input_of(w.program)
    for datatype, raw in about.tensors.items():
        tensor = {"name": info.name, "datatype": datatype, "shape": [1, *about.shape]}
        head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": len(raw)}}]}).encode()
        taken = outcome(HostError, partial(encoded, w, head, raw))
        assert cell.startswith(taken), datatype


def test_the_page_names_every_format_and_the_reader_every_ending() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}" in text
    endings = {ending for ending, name in Image.registered_extensions().items() if name in FORMATS}
    assert endings >= SUFFIXES
