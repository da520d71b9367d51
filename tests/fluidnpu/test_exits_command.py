"""`fluidnpu exits` and `dse --exits`: places listed, heads attached, wrong names refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main
from fluidnpu.models import read_onnx, shipped_file
from fluidnpu.models.exits import single_exit
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import random_network, skeleton, with_random_weights


@pytest.fixture
def table() -> Iterator[Path]:
    with shipped_file("layers_resnet50.json") as path:
        yield path


@pytest.fixture
def single(tmp_path: Path) -> Path:
    write_onnx(random_network(11, exits=1), tmp_path / "single.onnx")
    return tmp_path / "single.onnx"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def answer(*words: object) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


def test_places_of_resnet50_are_listed_without_weights() -> None:
    found = answer("exits", "resnet50")
    assert found["macs"] == 4_089_184_256
    shares = [place["share"] for place in found["places"]]
    assert shares == sorted(shares)
    assert {"layer2.3.conv3_out", "conv1_out"} <= {place["tensor"] for place in found["places"] if place["cut"]}
    assert [row["name"] for row in found["exits"]] == ["final"]
    shown = run("exits", "resnet50").stdout
    assert "layer2.3.conv3_out" in shown
    assert "56 x 56 x 64" in shown


def test_an_explored_exit_is_the_one_that_is_written(single: Path, tmp_path: Path) -> None:
    tensor = answer("exits", single)["places"][1]["tensor"]
    more = tmp_path / "sub" / "more.onnx"
    found = answer("exits", single, "--exits", f"at={tensor}", "--threshold", 0.6, "--out", more)
    assert [(row["name"], row.get("threshold")) for row in found["exits"]] == [("exit1", 0.6), ("exit0", None)]
    direct, from_file = tmp_path / "direct.json", tmp_path / "file.json"
    answer(
        "dse",
        single,
        "--board",
        "zcu104",
        "--b-max",
        2,
        "--cycles",
        "paper",
        "--exits",
        f"at={tensor}",
        "--out",
        direct,
    )
    answer("dse", more, "--board", "zcu104", "--b-max", 2, "--cycles", "paper", "--out", from_file)
    assert json.loads(direct.read_text())["layers"] == json.loads(from_file.read_text())["layers"]
    assert json.loads(direct.read_text())["latency"] == json.loads(from_file.read_text())["latency"]
    assert [exit.name for exit in read_onnx(more).exits] == ["exit1", "exit0"]


def test_layer_tables_are_cut_after_layers(table: Path, tmp_path: Path) -> None:
    design = tmp_path / "d.json"
    answer(
        "dse",
        table,
        "--board",
        "zc706",
        "--cycles",
        "paper",
        "--exits",
        "at=layer3.5.conv3,layer1.2.conv3",
        "--out",
        design,
    )
    stages = {layer["name"]: layer["stage"] for layer in json.loads(design.read_text())["layers"]}
    assert [stages[name] for name in ("layer1.2.conv3", "layer2.0.conv1", "layer3.5.conv3", "fc")] == [0, 1, 1, 2]
    assert "layer2.3.conv3" in refused(
        "dse", table, "--board", "zc706", "--cycles", "paper", "--exits", "at=layer2.conv3"
    )
    assert "comes twice" in refused("dse", table, "--board", "zc706", "--cycles", "paper", "--exits", "at=conv1,conv1")
    assert "last layer" in refused("dse", table, "--board", "zc706", "--cycles", "paper", "--exits", "at=fc")


@pytest.mark.parametrize("text", ["", "at=", "at=,", "some", "equidistant=", "equidistant=x", "-3", "1.5", "every=2"])
def test_what_exits_may_say(text: str, single: Path) -> None:
    assert "--exits must be N of at least 1, or at=NAME" in refused("exits", single, "--exits", text)


def test_refusals(single: Path, table: Path) -> None:
    assert "close to it" in refused("exits", single, "--exits", "at=layer_0")
    assert "layer table" in refused("exits", table)
    assert "confidence" in refused("exits", single, "--threshold", 2)
    assert "does not exist" in refused("exits", "resnet51.onnx")
    assert "number of exits" in refused("exits", single, "--exits", 400)
    with shipped_file("resnet8_fashion_mnist.onnx") as many:
        assert "one exit" in refused("exits", many, "--exits", 2)
        assert len(answer("exits", many, "--exits", "at=stem_out")["exits"]) == 4


@pytest.mark.long
def test_a_full_size_network_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "inception.onnx"
    answer("exits", "inception_v3", "--exits", 3, "--out", path)
    assert len(answer("check", path)["exits"]) == 3


def test_candidates_have_bridges_and_the_networks_own_head(tmp_path: Path) -> None:
    plain = tmp_path / "plain.onnx"
    write_onnx(with_random_weights(single_exit(skeleton("resnet20")), 0, 2), plain)
    places = answer("exits", plain)["places"]
    blocks = {place["block"]: place["tensor"] for place in places if place["block"]}
    assert list(blocks) == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3"]
    assert "block" in run("exits", plain).stdout
    more = tmp_path / "more.onnx"
    found = answer("exits", plain, "--candidates", 4, "--out", more)
    assert [row["name"] for row in found["exits"]] == ["exit1", "exit2", "exit3", "exit4", "final"]
    network = read_onnx(more)
    assert {"exit1.stage2_block1_a", "exit1.stage3_block1_b", "exit1.final_fc"} <= {one.name for one in network.layers}
    assert network.thresholds == (1.0,) * 4
    named = answer("exits", plain, "--candidates", f"at={blocks['2.2']},{blocks['1.3']}", "--threshold", 0.9)
    assert [row.get("threshold") for row in named["exits"]] == [0.9, 0.9, None]
    assert "not 9" in refused("exits", plain, "--candidates", 9)
    assert "--candidates must be N of at least 1" in refused("exits", plain, "--candidates", "few")
    assert "no end of a block" in refused("exits", plain, "--candidates", "at=stem_out")
    assert "use at=NAME" in refused("exits", more, "--candidates", 2)
    assert "only one of them" in refused("exits", plain, "--candidates", 2, "--exits", 2)
