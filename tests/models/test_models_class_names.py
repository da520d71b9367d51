"""Names of classes: read from files and metadata, kept by the model file and the program."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from fluidnpu import hls
from fluidnpu.dse.testing import design_for
from fluidnpu.models import ImageSet, ModelsError, NetworkError, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.exits import single_exit, with_map_head
from fluidnpu.models.graph import MapTask
from fluidnpu.models.images import check_class_names
from fluidnpu.models.images.class_names import names_of_metadata, read_class_names
from fluidnpu.models.onnx import with_metadata, write_onnx

TEN = tuple(f"class {number}" for number in range(10))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file without names."""
    path = tmp_path_factory.mktemp("names") / "plain.onnx"
    with shipped_file("resnet8_fashion_mnist.onnx") as shipped:
        write_onnx(single_exit(read_onnx(shipped)), path)
    return path


def _with(plain: Path, path: Path, **metadata: str) -> Path:
    model = onnx.load(plain)
    kept = {pair.key: pair.value for pair in model.metadata_props}
    onnx.helper.set_model_props(model, kept | {key.replace("__", "."): value for key, value in metadata.items()})
    onnx.save(model, path)
    return path


def test_a_model_file_keeps_the_names(plain: Path, tmp_path: Path) -> None:
    network = replace(read_onnx(plain), class_names=TEN)
    write_onnx(network, tmp_path / "exported.onnx")
    (tmp_path / "rewritten.onnx").write_bytes(with_metadata(plain, network))
    for name in ("exported", "rewritten"):
        assert read_onnx(tmp_path / f"{name}.onnx").class_names == TEN
    assert read_onnx(plain).class_names == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (repr(dict(enumerate(TEN))), TEN),
        (json.dumps({str(number): name for number, name in enumerate(TEN)}), TEN),
        (json.dumps(TEN), TEN),
        (repr(dict(enumerate(TEN[:9]))), ()),  # of other classes than these logits
        ("{0: 'a', 2: 'b'}", ()),
        ("names", ()),
        ("__import__('os')", ()),
        ("[" * 5000, ()),
    ],
)
def test_the_names_of_another_tool_are_taken_where_they_fit(
    plain: Path, tmp_path: Path, text: str, names: tuple[str, ...]
) -> None:
    """Ultralytics writes a dictionary as Python prints it."""
    assert read_onnx(_with(plain, tmp_path / "model.onnx", names=text)).class_names == names


def test_names_are_counted(plain: Path, tmp_path: Path) -> None:
    network = read_onnx(plain)
    with pytest.raises(NetworkError, match="a name for each of its 10 classes, not 9"):
        replace(network, class_names=TEN[:9])
    nine = _with(plain, tmp_path / "nine.onnx", fluidnpu__classes=json.dumps(TEN[:9]))
    with pytest.raises(NetworkError, match="a name for each of its 10 classes, not 9"):
        read_onnx(nine)
    for text, why in (('{"0": "a"}', "must be a list of names, not dict"), ('["a", 7]', "the name of class 1")):
        with pytest.raises(ModelsError, match=why):
            read_onnx(_with(plain, tmp_path / "odd.onnx", fluidnpu__classes=text))
    named = replace(network, class_names=TEN)
    assert with_map_head(named, MapTask.SEGMENTATION, 10).class_names == ()  # they named other things


def test_a_file_of_names(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes("\ufeffcat\r\n\r\n chien noir \n".encode())
    assert read_class_names(path) == ("cat", "chien noir")
    for content, why in ((b"", "must be 1 to 65536, not 0"), (b"a\n" + b"b" * 300, "the name of class 1")):
        path.write_bytes(content)
        with pytest.raises(ModelsError, match=why):
            read_class_names(path)
    assert check_class_names(["crane", "crane"], "ImageNet") == ("crane", "crane")
    assert names_of_metadata("x" * (1 << 25)) == ()


def test_a_program_keeps_the_names_and_one_without_is_as_it_was(plain: Path, tmp_path: Path) -> None:
    network = read_onnx(plain)
    design = design_for(network.workload)
    images = shipped_images(4).images
    programs = {}
    for names in ((), TEN):
        program = hls.compile_program(quantise(replace(network, class_names=names), images), design)
        program.save(tmp_path)
        assert hls.Program.load(tmp_path).class_names == names
        programs[names] = json.loads((tmp_path / "program.json").read_text())
    assert "classes" not in programs[()]
    assert programs[TEN]["digest"] != programs[()]["digest"]


def test_a_set_keeps_the_names_of_its_parts() -> None:
    images = ImageSet(images=np.zeros((3, 2, 2, 1), np.uint8), class_names=("cat", "dog"))
    assert images[1:].class_names == ("cat", "dog")
