"""Commands that spread their work over processes or a Ray cluster: the same numbers, and what is refused."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.dse import Design
from fluidnpu.models import shipped_file

TABLE = {"schema": 1, "latency_ns": [[1_000_000, 1_500_000], [2_000_000, 2_500_000]], "exit_rates": [0.5, 0.5]}
LOAD = ("--rate", "300", "--slo", "20ms")
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'"
)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def emitted(*words: str) -> Any:
    code, printed = run(*words, "--json")
    assert code == 0, printed
    return json.loads(printed)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(TABLE))
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        copy = tmp_path / "small.onnx"
        copy.write_bytes(path.read_bytes())
    return str(copy)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--ray-address", "x:1"), "--ray-address is for --engine ray"),
        (("--engine", "ray"), "must have the address of a cluster"),
        (("--engine", "ray", "--ray-address", "x:1", "--processes", "2"), "--processes is for --engine local"),
        (("--engine", "dask"), "'dask' is not one of 'local', 'ray'"),
    ],
)
def test_engines_that_cannot_be_are_refused(table: str, words: tuple[str, ...], sentence: str) -> None:
    for command in (("simulate", table, *LOAD), ("tune", table, *LOAD, "--generations", "1", "--out", "w.json")):
        code, printed = run(*command, *words)
        assert code == 2
        assert sentence in " ".join(printed.split())


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_a_machine_without_ray_is_said(table: str) -> None:
    code, printed = run("simulate", table, *LOAD, "--engine", "ray", "--ray-address", "127.0.0.1:6379")
    assert code == 2
    assert "needs Ray, which is not installed" in " ".join(printed.split())


def test_an_engine_without_several_pieces_of_work_is_refused(table: str, model: str) -> None:
    code, printed = run("tune", table, *LOAD, "--out", "w.json", "--processes", "2")
    assert (code, "need its --generations" in " ".join(printed.split())) == (2, True)
    code, printed = run("dse", model, "--board", "zc706", "--processes", "2")
    assert (code, "need --each FOLDER" in " ".join(printed.split())) == (2, True)


def each(model: str, folder: Path, *more: str) -> Any:
    words = ("dse", model, "--board", "zc706,pynqz2", "--b-max", "2", "--cycles", "paper", "--each", str(folder))
    return emitted(*words, *more)["designs"]


def test_a_design_is_searched_for_each_board_by_any_number_of_processes(model: str, tmp_path: Path) -> None:
    alone, spread = each(model, tmp_path / "a"), each(model, tmp_path / "b", "--processes", "2")
    assert [one["board"] for one in alone] == ["zc706", "pynqz2"]
    for one, other in zip(alone, spread, strict=True):
        made = Design.loads(Path(one["design"]).read_text())
        assert made.board == one["board"]
        assert Path(other["design"]).read_bytes() == Path(one["design"]).read_bytes()
        assert {**one, "design": ""} == {**other, "design": ""}
    single = tmp_path / "single.json"
    assert run("dse", model, "--board", "pynqz2", "--b-max", "2", "--cycles", "paper", "--out", str(single))[0] == 0
    assert single.read_text() == Path(alone[1]["design"]).read_text(), "the same question has the same answer"


def test_what_is_for_one_search_is_refused_for_several(model: str, tmp_path: Path) -> None:
    words = ("dse", model, "--board", "zc706", "--each", str(tmp_path / "a"))
    code, printed = run(*words, "--out", str(tmp_path / "d.json"))
    assert (code, "--out is for one model, and --each asks for several" in " ".join(printed.split())) == (2, True)
    code, printed = run("dse", model, model, *words[2:])
    assert (code, "must have names of their own" in " ".join(printed.split())) == (2, True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, ...]]:
    from campaigns.cluster import LocalCluster

    with LocalCluster(nodes=2, boards=1) as nodes:
        yield "--engine", "ray", "--ray-address", nodes.address


@pytest.mark.long
@needs_ray
def test_a_cluster_makes_the_same_numbers(cluster: tuple[str, ...], table: str, model: str, tmp_path: Path) -> None:
    usual = ("simulate", table, *LOAD, "--requests", "2000", "--seeds", "6", "--policy", "greedy,fluid")
    assert emitted(*usual, *cluster) == emitted(*usual)
    for name, more in (("here", ()), ("there", cluster)):
        words = ("simulate", "--study", "ensemble", "--seeds", "1", "--requests", "200", "--out", str(tmp_path / name))
        assert run(*words, *more)[0] == 0
    here, there = (tmp_path / name / "study.json" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()
    assert each(model, tmp_path / "a", *cluster) == each(model, tmp_path / "a")


@pytest.mark.long
@needs_ray
def test_a_cluster_tunes_the_same_weights(
    cluster: tuple[str, ...], table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fluidnpu.scheduler.tuning import tune

    monkeypatch.setattr(tune, "JUDGED", (2, 400))
    words = ("tune", table, *LOAD, "--generations", "1", "--out")
    here, there = run(*words, str(tmp_path / "here.json")), run(*words, str(tmp_path / "there.json"), *cluster)
    assert here[0] == there[0]
    means = [np.load(tmp_path / f"{name}.search.npz")["mean"].tolist() for name in ("here", "there")]
    assert means[0] == means[1]
