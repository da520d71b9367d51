"""`fluidnpu exits` and `dse --exits`: places listed, heads attached, wrong names refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main
from fluidnpu.models import golden, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.exits import attach_bridges, candidate_tensors, scores, single_exit
from fluidnpu.models.graph import MapTask
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import Architecture, random_network, skeleton, with_random_weights
from fluidnpu.models.zoo.hourglass import random_hourglass

SMALL = Architecture(name="small", blocks=1, widths=(4, 8, 8), stem_stride=4)


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


@pytest.fixture
def exits_that_agree(tmp_path: Path) -> Path:
    """Two early exits that see all that the last one sees, and 900 images labelled by it: always right."""
    network = with_random_weights(single_exit(skeleton(SMALL)), 3, 2)
    more = attach_bridges(network, candidate_tensors(network, 2))
    write_onnx(more, tmp_path / "more.onnx")
    write_onnx(network, tmp_path / "single.onnx")
    images = shipped_images(900).images
    labels = golden.run(quantise(network), images)[-1].argmax(-1)
    np.savez(tmp_path / "unseen.npz", images=images, labels=labels)
    np.savez(tmp_path / "few.npz", images=images[:100], labels=labels[:100])
    return tmp_path / "more.onnx"


def test_a_selection_is_guaranteed_printed_and_written(exits_that_agree: Path) -> None:
    model, folder = exits_that_agree, exits_that_agree.parent
    words = ("exits", model, "--select", folder / "unseen.npz", "--board", "zc706", "--cycles", "paper", "--eta", 0.9)
    found = answer(*words, "--reference", folder / "single.onnx", "--out", folder / "out.onnx")["selection"]
    assert found["samples"] == {"proposed": 300, "tested": 600}
    assert found["reference"] == f"'{folder / 'single.onnx'}'"
    assert [row["name"] for row in found["candidates"]] == ["exit1", "exit2"]
    chosen = {row["name"]: row["threshold"] for row in found["guaranteed"]["exits"]}
    network = read_onnx(folder / "out.onnx")
    assert {exit.name: exit.threshold for exit in network.exits[:-1]} == chosen
    assert [exit.rate for exit in network.exits] == pytest.approx(found["guaranteed"]["rates"])
    measured = {row["name"]: row["accuracy"] for row in found["candidates"]}
    assert {exit.name: exit.accuracy for exit in network.exits[:-1]} == {name: measured[name] for name in chosen}
    assert network.exits[-1].accuracy == 1  # the labels are its own
    assert found["naive"]["exits"] == found["guaranteed"]["exits"] == []  # no exit saves time here
    assert "no exit keeps the precision and saves time" in found["why_none"]
    kept = answer(*words, "--keep", "--out", folder / "kept.onnx")
    assert kept["selection"]["reference"] == "the last exit"
    every = {exit.name: exit.threshold for exit in read_onnx(folder / "kept.onnx").exits[:-1]}
    assert every == {"exit1": 1.0, "exit2": 1.0} | chosen
    shown = run(*words).stdout
    assert "naive, in-sample" in shown
    assert "guaranteed" in shown
    assert "the guarantee costs" in shown


def test_selections_that_cannot_be_are_refused(exits_that_agree: Path) -> None:
    model, folder = exits_that_agree, exits_that_agree.parent
    words = ("exits", model, "--select", folder / "unseen.npz", "--cycles", "paper")
    assert "--select goes by the times of a board" in refused(*words)
    assert "needs at least 458 labelled samples" in refused(
        "exits", model, "--select", folder / "few.npz", "--board", "zc706", "--cycles", "paper"
    )
    assert "--eta belongs to a selection" in refused("exits", model, "--eta", 0.9)
    assert "--thresholds must not be given" in refused(*words, "--board", "zc706", "--thresholds", "1,1")
    assert "has none; --candidates attaches them" in refused(
        "exits", folder / "single.onnx", "--select", folder / "unseen.npz", "--board", "zc706"
    )
    nowhere = ("exits", model, "--select", folder / "nowhere.npz", "--board", "zc706")  # which is not read
    for option, value, what in (("--sure", 1, "a probability"), ("--eta", 1.5, "a share"), ("--late", 2, "a share")):
        assert f"{option} must be {what}" in refused(*nowhere, option, value)
    images = shipped_images(900)
    np.savez(folder / "wrong.npz", images=images.images, labels=images.labels * 0 + 10)
    assert "labels must be classes 0..9" in refused(
        "exits", model, "--select", folder / "wrong.npz", "--board", "zc706", "--cycles", "paper"
    )


def test_no_is_an_answer_with_exit_code_1(exits_that_agree: Path, tmp_path: Path) -> None:
    """The reference is right on every image, and the model is another network."""
    other = with_random_weights(single_exit(skeleton(SMALL)), 8, 2)
    write_onnx(attach_bridges(other, candidate_tensors(other, 1)), tmp_path / "other.onnx")
    words = (
        "--select",
        tmp_path / "unseen.npz",
        "--board",
        "zc706",
        "--cycles",
        "paper",
        "--out",
        tmp_path / "no.onnx",
    )
    result = run("exits", tmp_path / "other.onnx", *words, "--reference", tmp_path / "single.onnx")
    assert result.exit_code == 1, result.output
    assert "no number of samples will do" in result.stderr
    assert not (tmp_path / "no.onnx").exists()


def test_a_map_becomes_the_answer_of_exits(tmp_path: Path) -> None:
    """From a network without classes to selected exits with maps, by commands alone."""
    network = random_hourglass(4, MapTask.SEGMENTATION, exits=0)
    model = build_onnx(network)
    del model.metadata_props[:]
    plain, more, other = (tmp_path / f"{name}.onnx" for name in ("plain", "more", "other"))
    plain.write_bytes(model.SerializeToString())
    words = ("--head", "segmentation", "--every", 2, "--candidates", 3)
    images = network.intake.random(60, 0)
    values = run_float(network, images)[0].reshape(60, 12, 8, 3)
    data = tmp_path / "data.npz"
    np.savez(data, images=images, labels=values.argmax(-1))
    found = answer("exits", plain, *words, "--calibrate", data, "--out", more)
    assert [row["name"] for row in found["exits"]] == ["exit1", "exit2", "exit3", "final"]
    assert found["exits"][-1]["accuracy"] == 1.0
    assert found["check"] == "segmentation:shape=12x8x3,count=0.5,every=2"
    counted = answer("exits", more, "--count", 0.9, "--thresholds", "0.5,0.5,0.5", "--out", other)
    assert counted["check"] == "segmentation:shape=12x8x3,count=0.9,every=2"
    assert read_onnx(other).check.text == counted["check"]
    chosen = answer(
        "exits", more, "--select", data, "--board", "zc706", "--cycles", "paper", "--eta", 0.5, "--late", 1,
        "--sure", 0.8, "--arrivals", 500, "--out", tmp_path / "ready.onnx",
    )["selection"]  # fmt: skip
    arrival = chosen["arrival"]
    assert (arrival["rate_per_s"], arrival["policy"]) == (500, "fluid")
    assert arrival["rows"]["guaranteed"]["average_ms"] <= arrival["rows"]["single exit"]["average_ms"]
    each = np.array([scores(one, values.argmax(-1), network.check) for one in run_float(read_onnx(more), images)])
    shown = [row["accuracy"] for row in chosen["candidates"]]
    assert shown == pytest.approx(each[:-1].mean(axis=1), abs=0.02)
    assert chosen["guaranteed"]["kept"] >= 0.5
    assert "labels of (60, 12, 8) came" in refused("exits", single_of(tmp_path), "--calibrate", data)
    assert "--output names what --head is about" in refused("exits", plain, "--output", "final")
    assert "is for exits that give maps" in refused("exits", single_of(tmp_path), "--every", 2)
    assert "a linear head tells classes apart" in refused("exits", more, "--exits", "at=r1b1_b_out")
    assert "'top' is a check of classes" in refused("exits", more, "--check", "top")
    assert "at least 0 below 1" in refused("exits", more, "--count", 1)
    assert "decides between classes" in refused("exits", single_of(tmp_path), "--head", "landmarks")
    plan = ("--select", data, "--board", "zc706", "--keep", "--plan", tmp_path / "plan.npz")
    assert "--plan is for exits that name classes" in refused("exits", more, *plan)


def test_a_classifier_gets_a_new_head_of_maps_and_exits_before_it(tmp_path: Path) -> None:
    model, new = single_of(tmp_path), tmp_path / "new.onnx"
    words = ("--head", "landmarks", "--maps", 3, "--top", 2, "--candidates", 1, "--seed", 5)
    found = answer("exits", model, *words, "--out", new)
    assert [row["name"] for row in found["exits"]] == ["exit1", "final"]
    assert found["check"] == "landmarks:shape=8x4x3,count=0.5,top=2"  # doubled twice, to at least a quarter
    written = read_onnx(new)
    assert written.check.text == found["check"]
    first = {layer.name for layer in read_onnx(model).layers} & {layer.name for layer in written.layers}
    assert all(
        np.array_equal(read_onnx(model).parameters[name].weights, written.parameters[name].weights)
        for name in first & set(written.parameters)
    )
    answer("exits", model, "--head", "landmarks", "--maps", 3, "--enlarge", 1, "--out", new)
    assert read_onnx(new).tensors[read_onnx(new).exits[-1].classes] == (4, 2, 3)
    assert "needs no --output" in refused("exits", model, "--maps", 3)
    assert "needs no --output" in refused("exits", model, "--maps", 3, "--head", "landmarks", "--output", "final")
    assert "--enlarge is about a new head" in refused("exits", model, "--enlarge", 1)
    assert "2 to 256 labels" in refused("exits", model, "--maps", 1, "--head", "segmentation")
    assert "--maps N puts a new head in their place" in refused("exits", model, "--head", "landmarks")


def single_of(folder: Path) -> Path:
    """A classifier with one exit, whose images are those of the hourglass."""
    small = Architecture(name="small", blocks=1, widths=(4, 8, 8), stem_stride=4, input_shape=(24, 16, 3))
    write_onnx(with_random_weights(single_exit(skeleton(small)), 0, 2), folder / "classes.onnx")
    return folder / "classes.onnx"
