"""Layer tables: the published ones, and malformed ones, each refused in a sentence that names the entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fluidnpu.models import FileError, Kind, Network, Workload, read_layer_table, read_model, shipped_file
from fluidnpu.models.errors import LayerTableError
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import random_network

LAYER = {"name": "a", "R": 4, "P": 9, "C": 2, "something": "else"}


def table(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "table.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "layers", "macs"), [("resnet50", 54, 4_089_184_256), ("inception_v3", 95, 5_713_216_096)]
)
def test_the_published_tables(name: str, layers: int, macs: int) -> None:
    with shipped_file(f"layers_{name}.json") as path:
        workload = read_layer_table(path)
    assert (workload.name, len(workload.layers), workload.macs) == (name, layers, macs)


def test_stages_exits_and_kinds(tmp_path: Path) -> None:
    pool = {"name": "p", "R": 1, "P": 4, "C": 2, "kind": "max_pool", "stage": 1}
    found = read_layer_table(
        table(tmp_path, {"layers": [LAYER, pool], "exits": ["early", "late"], "exit_rates": [0.25, 0.75]})
    )
    assert found == read_model(tmp_path / "table.json")
    assert (found.name, found.exits, found.exit_rates) == ("table", ("early", "late"), (0.25, 0.75))
    assert [layer.kind for layer in found.layers] == [Kind.GEMM, Kind.MAX_POOL]
    assert found.macs == 72


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ([], "with a list 'layers' of at least one layer"),
        ({"layers": []}, "with a list 'layers' of at least one layer"),
        ({"layers": [LAYER, 7]}, "layer 1 of .* must be an object"),
        ({"layers": [{**LAYER, "R": 0}]}, r"layer 0 of .* \('a'\) needs a whole number R of at least 1, not 0"),
        ({"layers": [{**LAYER, "P": "nine"}]}, "whole number P of at least 1, not nine"),
        ({"layers": [{**LAYER, "C": True}]}, "whole number C of at least 1, not True"),
        ({"layers": [{**LAYER, "C": 1 << 50}]}, "whole number C"),
        ({"layers": [{**LAYER, "stage": -1}]}, "whole number stage of at least 0"),
        ({"layers": [{**LAYER, "name": 5}]}, "must have a text as its name"),
        ({"layers": [{"name": "a", "R": 1, "P": 1}]}, "whole number C of at least 1, not None"),
        ({"layers": [LAYER, LAYER]}, "'a' comes twice"),
        ({"layers": [{**LAYER, "stage": 3}]}, "must be a list of names|must stand in stages"),
        ({"layers": [LAYER], "exits": "all"}, "'exits' of .* must be a list of names"),
        ({"layers": [LAYER], "exit_rates": [0.5]}, "shares that sum to 1"),
        ({"layers": [LAYER], "exit_rates": 1}, "shares that sum to 1"),
    ],
)
def test_malformed_tables(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read_layer_table(table(tmp_path, content))
    assert str(caught.value).isprintable()


def test_missing_tables_and_folders(tmp_path: Path) -> None:
    with pytest.raises(LayerTableError, match="does not exist"):
        read_layer_table(tmp_path / "no.json")
    with pytest.raises(FileError, match="must be a regular file, and it is a folder"):
        read_layer_table(tmp_path)


def test_models_are_told_apart_by_suffix_or_content(tmp_path: Path) -> None:
    write_onnx(random_network(1), tmp_path / "net")
    table(tmp_path, {"layers": [LAYER]}).rename(tmp_path / "list")
    assert isinstance(read_model(tmp_path / "net"), Network)
    assert isinstance(read_model(tmp_path / "list"), Workload)
