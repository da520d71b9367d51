"""`fluidnpu place`: fleets as files, plans with their bounds, and refusals in one sentence."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main
from fluidnpu.commands.place import FORMS
from fluidnpu.models import shipped_file
from fluidnpu.scheduler.placement import Plan
from fluidnpu.scheduler.placement.planner import FORMS as PLANNED
from fluidnpu.scheduler.placement.testing import toy_fleet, two_networks

FLEET = """schema = 1
name = "toy"
[networks.toy]
exit_rates = [0.4, 0.6]
input_bytes = 10000
[links.lan]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_000_000_000
cost_per_hour = 0.1
cost_source = "made up"
networks.toy.profile = "toy.json"
[[devices]]
type = "board"
count = 4
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    (tmp_path / "toy.json").write_text(toy_fleet(1).types["board"].profiles["toy"].dumps())
    (tmp_path / "fleet.toml").write_text(FLEET)
    return tmp_path / "fleet.toml"


def test_a_fleet_gets_a_plan_with_value_bound_and_reason(fleet: Path) -> None:
    target = fleet.parent / "plan.json"
    shown = run("place", fleet, "--out", target, "--explain")
    assert shown.exit_code == 0, shown.output
    for words in ("data parallel, serial splits", "bound", "gap 0.00 %", "of the link 'lan'", "ramps"):
        assert words in shown.stdout
    said = json.loads(run("place", fleet, "--json").stdout)
    plan = Plan.loads(target.read_text())
    assert said["plan"]["digest"] == plan.digest
    assert said["value"] == pytest.approx(plan.rate_per_s, rel=1e-5)
    assert said["bound"] >= said["value"]
    assert [form["name"] for form in said["forms"]] == ["stock", "data parallel", "serial", "pipeline", "mix"]


def test_less_is_asked_at_less_cost_and_lost_boards_are_left_out(fleet: Path) -> None:
    cheap = json.loads(run("place", fleet, "--rate", "300", "--json").stdout)
    assert cheap["plan"]["cost_micros"] == 200_000
    lost = json.loads(run("place", fleet, "--lost", "board-1,board-3", "--json").stdout)
    assert sorted(lost["plan"]["pools"][0]["devices"]) == ["board-0", "board-2"]
    most = json.loads(run("place", fleet, "--budget", "0.25", "--json").stdout)
    assert most["value"] == pytest.approx(lost["value"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--slo", "5ms"], 1, "must answer 'toy' within 4.5 ms"),
        (["--rate", "3000"], 1, "must carry 3000/s of 'toy'"),
        (["--slo", "5"], 2, "--slo must be a positive number with a unit"),
        (["--rate", "-1"], 2, "--rate must be above zero"),
        (["--rate", "1", "--budget", "1"], 2, "give one of them"),
        (["--slack", "much"], 2, "--slack must be a share such as 10%, not 'much'"),
        (["--headroom", "100%"], 2, "--headroom must be a share of 0 to below 100%"),
        (["--lost", "ghost"], 2, "ghost are not"),
        (["--network", "cat"], 2, "network must be one of toy, not 'cat'"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_sentence(fleet: Path, words: list[str], code: int, said: str) -> None:
    result = run("place", fleet, *words)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_several_networks_are_planned_side_by_side(tmp_path: Path) -> None:
    fleet = two_networks(3)
    text = (
        FLEET.split("[networks.toy]")[0] + "[networks.big]\n[networks.small]\n[links.lan]\nbytes_per_s = 117_700_000\n"
    )
    text += "[types.board]\nmemory_bytes = 20_000_000\n"
    for name, profile in fleet.types["board"].profiles.items():
        (tmp_path / f"{name}.json").write_text(profile.dumps())
        text += f'networks.{name}.profile = "{name}.json"\n'
    (tmp_path / "two.toml").write_text(text + '[[devices]]\ntype = "board"\ncount = 3\n')
    shown = run("place", tmp_path / "two.toml")
    assert shown.exit_code == 0, shown.output
    assert "several networks" in shown.stdout
    assert "equal turns of the same matrix" in shown.stdout
    assert "in turns" in shown.stdout
    assert run("place", tmp_path / "two.toml", "--rate", "5").exit_code == 2
    alone = run("place", tmp_path / "two.toml", "--network", "small", "--json")
    assert json.loads(alone.stdout)["form"] == "data parallel"


def test_a_bundle_is_a_type(few_images: Path, tmp_path: Path) -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        board = ("--board", "zcu104", "--b-max", 2, "--cycles", "paper")
        words = (*board, "--data", few_images, "--out", tmp_path / "project")
        assert run("build", model, *words).exit_code == 0
    text = FLEET.replace('networks.toy.profile = "toy.json"', 'networks.toy.bundle = "project/bundle"')
    (tmp_path / "fleet.toml").write_text(text.replace("exit_rates = [0.4, 0.6]", "exit_rates = [0.5, 0.3, 0.2]"))
    said = run("place", tmp_path / "fleet.toml", "--slo", "20ms", "--json")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["value"] > 0
    two = text.replace("[networks.toy]", "[networks.other]\nexit_rates = [0.5, 0.3, 0.2]\n[networks.toy]")
    two = two.replace("exit_rates = [0.4, 0.6]", "exit_rates = [0.5, 0.3, 0.2]").replace("count = 4", "count = 2")
    (tmp_path / "two.toml").write_text(two.replace("[[dev", 'networks.other.bundle = "project/bundle"\n[[dev'))
    plan = ("place", tmp_path / "two.toml", "--measure", "3", "--samples", "4")
    scores = json.loads(run(*plan, "--json").stdout)["measured"]
    assert [0 < score["measured_per_s"] <= 1.5 * score["planned_per_s"] for score in scores] == [True] * 3
    assert set(scores[0]["allocation"]) == {"board-0", "board-1"}
    shown = run(*plan, "--explain")
    assert shown.exit_code == 0, shown.output
    assert "Measured on simulated NPUs, 4 samples of all networks" in shown.stdout
    kept = tmp_path / "kept.json"
    for more, sentence in (
        (("--samples", "4"), "--samples are those of --measure N"),
        (("--measure", "2", "--network", "toy"), "--measure is for allocations of several networks"),
        (("--measure", "2", "--samples", "200000"), "at most 200000 samples are computed for scores"),
    ):
        refused = run("place", tmp_path / "two.toml", "--out", kept, *more)
        assert refused.exit_code == 2, refused.output
        assert sentence in refused.stderr
        assert not kept.exists(), "nothing is planned before"
        assert len(refused.stderr.strip().splitlines()) == 1
    (tmp_path / "project" / "bundle" / "program.bin").unlink()
    lost = run("place", tmp_path / "fleet.toml")
    assert (lost.exit_code, len(lost.stderr.strip().splitlines())) == (2, 1)


def test_forms_are_the_planners_and_may_be_chosen(fleet: Path) -> None:
    assert FORMS == PLANNED
    found = json.loads(run("place", fleet, "--forms", "stock, pipeline", "--json").output)
    assert [form["name"] for form in found["forms"]] == ["stock", "pipeline"]
    for words, said in (
        (("--forms", "ring"), "forms must be among stock, data parallel, serial, pipeline, mix, not ring"),
        (("--parts", fleet.parent / "parts"), "--parts are those of a plan that is kept, so it needs --out PLAN.json"),
    ):
        refused = run("place", fleet, *words)
        assert refused.exit_code == 2
        assert said in " ".join(refused.output.split())


def test_a_plan_that_no_board_can_serve_has_no_parts(fleet: Path, tmp_path: Path) -> None:
    refused = run("place", fleet, "--out", tmp_path / "plan.json", "--parts", tmp_path / "parts")
    assert refused.exit_code == 2
    assert "must name the bundle of 'toy' to be served, and it names the profile 'toy.json'" in " ".join(
        refused.output.split()
    )
    assert (tmp_path / "plan.json").exists()
