"""Two screens of one job agree: a design's speed by text, JSON and page, its capacity wherever it stands."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.commands.serve import _described
from fluidnpu.dse import Exploration, explore
from fluidnpu.host.fleet.boards.leaf import Times
from fluidnpu.host.serving import ModelOptions, default_slo_ns
from fluidnpu.models import shipped_file
from fluidnpu.models.zoo import random_network
from fluidnpu.quantities import plain, round_floats, significant
from fluidnpu.scheduler import Serving, comparison
from fluidnpu.scheduler.comparison.compare import compare
from fluidnpu.scheduler.policies import SERVING_POLICY
from fluidnpu.show import design_report

FLEET = """schema = 1
name = "pair"
[networks.resnet8]
exit_rates = [0.8568, 0.073, 0.0702]
input_bytes = 784
[links.lan]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_000_000_000
networks.resnet8.bundle = "project/bundle"
[[devices]]
type = "board"
count = 2
"""
PAPER = ("--board", "zc706", "--b-max", 2, "--cycles", "paper")


def run(*words: object) -> str:
    done = CliRunner(env={"COLUMNS": "160"}).invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


@st.composite
def explorations(draw: st.DrawFn) -> Exploration:
    """A design for a drawn network with exit rates, on a drawn board."""
    exits = draw(st.integers(1, 3))
    shares = draw(st.lists(st.integers(1, 9), min_size=exits, max_size=exits))
    network = random_network(draw(st.integers(0, 30)), exits=exits)
    rates = tuple(share / sum(shares) for share in shares)
    board = load_board(draw(st.sampled_from(["zc706", "zcu104", "pynqz2"])))
    work = replace(network.workload, exit_rates=rates)
    return explore(work, board, b_max=draw(st.integers(1, 4)), model="paper")


@settings(max_examples=6)
@given(explorations())
def test_a_capacity_is_one_number_wherever_it_stands(found: Exploration) -> None:
    design = found.design
    capacity = comparison.design_capacity(design)
    if capacity is None:
        assert design.exit_rates is None
        return
    model = SimpleNamespace(
        label="m",
        bundle=SimpleNamespace(design=design),
        npu=SimpleNamespace(options=ModelOptions()),
        slo_ns=default_slo_ns(design),
    )
    assert _described(model)["capacity_per_s"] == capacity  # type: ignore[arg-type]
    rates = design.exit_rates or (1.0,)
    assert 1 / Times.of(design.latency, rates).sample_s == pytest.approx(capacity, rel=1e-9)
    report = round_floats(design_report(found, front=False))
    assert report["capacity_per_s"] == significant(capacity, 6)
    assert capacity <= 1 / Serving.of(design).least_load(1.0) * (1 + 1e-9), "no policy serves more"
    assert max(report["gops_by_batch"]) <= report["peak_gops"] * (1 + 1e-5)
    for batch, (frames, ms) in enumerate(zip(report["frames_per_second"], report["batch_ms"], strict=True), 1):
        assert ms == pytest.approx(1e3 * batch / frames, rel=1e-5)


@settings(max_examples=3)
@given(explorations(), st.sampled_from([0.8, 1.25]))
def test_a_simulated_server_keeps_up_below_its_capacity_and_not_above(found: Exploration, load: float) -> None:
    capacity = comparison.design_capacity(found.design)
    if capacity is None:
        return
    serving = Serving.of(found.design)
    done = compare(serving, [SERVING_POLICY], rate_per_s=load * capacity, slo_ns=10**9, requests=3000, seeds=1)
    (metrics,) = done.metrics[SERVING_POLICY]
    assert metrics.unstable == (load > 1)


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object], str]:
    """One design as text, as JSON and as a page."""
    page = tmp_path_factory.mktemp("page") / "dse.html"
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        text = run("dse", path, *PAPER)
        report = json.loads(run("dse", path, *PAPER, "--json", "--report", page))
    return text, report, Path(page).read_text(encoding="utf-8")


def test_text_json_and_page_show_the_same_speed(screens: tuple[str, dict[str, list[float]], str]) -> None:
    text, report, page = screens
    for batch, (frames, ms) in enumerate(zip(report["frames_per_second"], report["batch_ms"], strict=True), 1):
        assert re.search(rf"^{batch} +{frames:.1f} +{ms:.3f}", text, re.MULTILINE)
        assert re.search(rf"<td>{batch}</td><td>{frames:.1f}</td>(<td>[\d.]+</td>)?<td>{ms:.3f}</td>", page)


def test_the_project_of_a_design_has_its_capacity(few_images: Path, tmp_path: Path) -> None:
    """`dse`, then `build` and what a server reads: with the rates of the images that were given to both."""
    design, project = tmp_path / "design.json", tmp_path / "project"
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        before = json.loads(run("dse", path, *PAPER, "--out", design, "--json"))
        text = run("dse", path, *PAPER)
        built = json.loads(run("build", path, "--board", "zc706", "--design", design, "--out", project, "--json"))
    assert built["design"] == before["digest"]
    assert built["exit_rates"] == before["exit_rates"]
    assert f"requests/s: {plain(before['capacity_per_s'], 4)}, predicted" in text
    kept = Serving.loads((project / "bundle" / "design.json").read_text())
    slo_ns = 5 * sum(row[0] for row in kept.latency.ns)
    (tmp_path / "fleet.toml").write_text(FLEET)
    placed = json.loads(run("place", tmp_path / "fleet.toml", "--slo", "20ms", "--json"))
    most = 0.9 / kept.least_load(1.0)  # of a board: its headroom is a tenth
    assert most < placed["value"] <= 2 * most * (1 + 1e-5), "two boards carry more than one, and no more than two"
    assert comparison.predicted_capacity(kept, SERVING_POLICY, slo_ns) == pytest.approx(
        before["capacity_per_s"], rel=1e-5
    )
