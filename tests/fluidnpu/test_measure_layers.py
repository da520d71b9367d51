"""`fluidnpu measure --layers`: what an NPU counts in each layer, beside the exact model."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.commands.modes import measure_layers
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, LayerCounts
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_network


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    qnet = quantise(random_network(5, exits=2))
    design = design_for(qnet.network.workload).changed(board="zc706", facts=load_board("zc706"))
    Bundle(design=design, program=compile_program(qnet, design)).write(tmp_path / "bundle")
    return tmp_path


def test_every_layer_is_printed_beside_the_model(bundle: Path) -> None:
    names = [layer.name for layer in Bundle.read(bundle / "bundle").design.layers]
    ran = CliRunner().invoke(main, ["measure", str(bundle), "--layers", "--json"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.output)
    assert (report["batch"], report["differing_layers"]) == (Bundle.read(bundle / "bundle").design.b_max, 0)
    assert [layer["layer"] for layer in report["layers"]] == names
    assert all(layer["counted"] == layer["exact"] and layer["counted"]["cycles"] > 0 for layer in report["layers"])
    ran = CliRunner().invoke(main, ["measure", str(bundle), "--layers", "--batch", "1"])
    assert f"0 of {len(names)} layers differ from the exact model" in ran.output


def test_a_difference_stands_behind_its_number(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measure_layers.measure_layers(bundle / "bundle", "simulated", 1, {})
    one = found.counted[0]
    more = LayerCounts(**{**vars(one), "starved": one.starved + 1500})
    other = measure_layers.LayersMeasured(**{**vars(found), "counted": (more, *found.counted[1:])})
    assert (found.differing, other.differing) == (0, 1)
    monkeypatch.setattr("fluidnpu.commands.measure.measure_layers", lambda *_: other)
    ran = CliRunner().invoke(main, ["measure", str(bundle), "--layers"])
    assert f"{one.starved + 1500:,} (+1,500)" in ran.output
    assert f"1 of {len(found.names)} layers differ" in ran.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--layers", "--batch", "200"), "--batch must lie in 1.."),
        (("--layers", "--threads", "2"), "--threads is for times on a processor"),
        (("--device", "rtl"), "--device is for --layers"),
        (("--reserved", "0x30000000:1MiB"), "--reserved is for --layers"),
        (("--layers", "--reserved", "12"), "--reserved must be ADDRESS:SIZE"),
    ],
)
def test_refusals(bundle: Path, words: tuple[str, ...], says: str) -> None:
    ran = CliRunner().invoke(main, ["measure", str(bundle / "bundle"), *words])
    assert ran.exit_code == 2
    assert says in ran.output
    assert "--layers is for a BUNDLE" in CliRunner().invoke(main, ["measure", "pyproject.toml", "--layers"]).output
