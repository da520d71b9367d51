"""`fluidnpu simulate --adapt` and `serve --adapt` as commands: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.scheduler.tuning import AdaptationPlan, CandidateTable, Goal


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with two exits: samples of class 0 are sure at the first one, those of class 1 are not."""
    rng = np.random.default_rng(0)
    truths = rng.integers(2, size=600)
    sure = np.clip(np.stack([rng.beta(6, 2, 600) - 0.3 * truths, np.ones(600)], axis=1), 0, 1)
    plan = AdaptationPlan(
        names=("exit1",),
        goal=Goal(eta=0.9, batch=2, late=0.9),
        chain=((0, 0.6),),
        confidence=sure,
        classes=np.stack([truths, truths], axis=1),
        truths=truths,
        reference=np.ones(600, bool),
        times=CandidateTable(names=("exit1",), segments=((10_000, 18_000), (20_000, 36_000)), heads=((100, 150),)),
    )
    path = tmp_path_factory.mktemp("plan") / "plan.npz"
    path.write_bytes(plan.content())
    return path


def test_a_drift_is_told_with_its_numbers(plan_file: Path) -> None:
    words = ("simulate", "--adapt", str(plan_file), "--requests", "900", "--seeds", "2", "--json")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    streams = json.loads(done.output)["streams"]
    assert [one["classes"] for one in streams] == [[1], [1]]
    for one in streams:
        before, during, after = (phase["early"] for phase in one["fixed"])
        assert during < before - 0.2 < after
        assert 0 < one["noticed"] < 100
        assert one["events"][0]["kind"] == "alarm"


def test_a_certificate_is_served_beside_the_others(plan_file: Path) -> None:
    words = (
        "simulate",
        "--adapt",
        str(plan_file),
        "--requests",
        "1500",
        "--seeds",
        "1",
        "--certify",
        "eta=0.8,share=50%",
    )
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "certified at the end: at least" in done.output
    assert "by utility" in done.output
    (one,) = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)["streams"]
    whole = one["certificate"]["whole"]
    assert whole["answers"] == 1500
    assert whole["early"] > 0
    assert min(phase["same"] for phase in one["others"]["certified"]) >= whole["kept_at_least"] >= 0.8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulate", "--drift", "hard"), "it needs --adapt PLAN.npz"),
        (("simulate", "--certify", "eta=0.9"), "needs those of a plan: --adapt PLAN.npz"),
        (("simulate", "--adapt", "{plan}", "--certify", "0.9"), "must be asked for as eta=0.99,risk=0.05,share=1%"),
        (("simulate", "--adapt", "{plan}", "--policy", "serial,fluid"), "must be one policy with --adapt, not 2"),
        (("simulate", "{plan}", "--adapt", "{plan}"), "--adapt takes no DESIGN or TABLE.json"),
        (("simulate", "--adapt", __file__), "must be a plan that fluidnpu exits --select wrote"),
        (
            ("stream", "x", "--adapt", "{plan}"),
            "stream has no --adapt: write `fluidnpu serve [NAME=]BUNDLE... --adapt ...`",
        ),
        (("serve", "x", "--http", "0", "--shadow", "0.5"), "--shadow is about adaptation, so it needs --adapt"),
    ],
)
def test_bad_input_gets_one_sentence(plan_file: Path, words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, [word.format(plan=plan_file) for word in words])
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
