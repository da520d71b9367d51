"""The study of Fluid Batching: its page stands alone, and a verdict follows the numbers, not the author."""

import copy
import dataclasses
import functools
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from small_studies import check_study

from fluidnpu import studies
from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.dse import explore
from fluidnpu.models import read_onnx, shipped_file
from fluidnpu.scheduler.comparison import HERE, Engine
from fluidnpu.scheduler.exits import Recorded
from fluidnpu.scheduler.policies.solving.decision_process import solve_counts
from fluidnpu.studies import Size, Study, find_study, run_study
from fluidnpu.studies.fluid_batching import simulations
from fluidnpu.studies.fluid_batching import study as tasks
from fluidnpu.studies.fluid_batching.hardware import MODEL
from fluidnpu.studies.fluid_batching.paper import table2_rows
from fluidnpu.studies.fluid_batching.quantities import goal_rows
from fluidnpu.studies.fluid_batching.settings import ANYTIME, BASELINES, OURS
from fluidnpu.studies.fluid_batching.simulations import crossing
from fluidnpu.studies.fluid_batching.study import STUDY, study_tasks
from fluidnpu.studies.statements import DIFFERS
from fluidnpu.studies.writing import dumps

TINY = Size(seeds=2, requests=200)
Body = dict[str, Any]


@pytest.fixture(scope="module")
def small_world(few_trials: None) -> Iterator[None]:
    """Solved tables that are good enough to look at, and few recorded samples: all pieces, quickly."""
    setting = importlib.import_module("fluidnpu.scheduler.policies.setting")
    rng = np.random.default_rng(0)
    sure = np.sort(rng.random((50, 3)), axis=1)
    recorded = Recorded(confidences=sure, correct=rng.random((50, 3)) < sure)
    with shipped_file(MODEL) as path:
        design = explore(read_onnx(path).workload, load_board("zc706"), memory="ps", model="paper", core="rtl").design
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setting, "solve_counts", functools.partial(solve_counts, tolerance=0.5, queue_max=12))
        patch.setattr(simulations, "record_images", lambda: (recorded, design))
        patch.setattr(tasks, "MAP_LOADS", (0.2,))
        setting._solved.cache_clear()
        yield
    setting._solved.cache_clear()


@pytest.fixture(scope="module")
def done(small_world: None) -> Body:
    return run_study(STUDY, TINY, HERE, lambda at, of: None)


@pytest.mark.cpu(10, "a small study runs once for all tests of it")
def test_every_part_is_there(done: Body) -> None:
    assert set(done["parts"]) >= {
        "table2",
        "lazy",
        "frontier",
        "drift",
        "codesign",
        "accuracy",
        "fig10",
        "Fig. 7",
        "Fig. 8",
        "Fig. 9a",
        "Fig. 9b",
    }
    assert set(done["parts"]["table2"]) == {row.name for row in table2_rows()}
    for row in done["parts"]["table2"].values():
        assert row["policies"]["fluid"]["violations_pct"][0] >= row["bound_pct"][0] - 1e-9


def test_numbers_do_not_depend_on_when_they_were_made(done: Body) -> None:
    pick = [task for task in study_tasks(TINY) if task.part in ("Fig. 7", "codesign")][:3]
    for task in pick:
        assert json.loads(dumps(task())) == done["parts"][task.part][task.key]


def test_the_small_run_is_judged_and_written(done: Body) -> None:
    files = check_study(STUDY, done)
    assert sum(json.loads(files["summary.json"])["tally"].values()) == 54
    for words in ("early exits halved", "Co-design", "back-fill", "Batches over time"):
        assert words in files["report.html"]
    by_policy = [line.split(" | ")[0] for line in files["tables.md"].splitlines() if line.startswith("| `")]
    assert {f"| `{name}`" for name in (*BASELINES, "lazy", *OURS, *ANYTIME)} <= set(by_policy)


def test_a_goal_holds_where_every_interval_lies_below_zero(done: Body) -> None:
    body = copy.deepcopy(done)
    for row in body["parts"]["table2"].values():
        for field in ("minus_fluid", "minus_half_of_fluid"):
            for one in row[field].values():
                one.update({key: [-1.0, -1.5, -0.5] for key in one})
        row["minus_fluid"]["guarded"]["p99_ms"] = [-1.0, -2.5, 0.5]
    assert [row["holds"] for row in goal_rows(body["parts"])] == [True, False, True, True]


def test_lazy_batching_without_a_fitting_cost_differs(done: Body) -> None:
    body = copy.deepcopy(done)
    body["parts"]["lazy"]["ResNet-50, ZC706"] |= {"fitted_cost_us": None, "fitted": None}
    (one,) = [
        v for v in STUDY.verdicts(body) if v.where[:26] == "Table II: ResNet-50, ZC706" and "at the cost" in v.statement
    ]
    assert (one.verdict, one.ours) == (DIFFERS, "unstable")


def test_a_cost_is_found_between_those_tried() -> None:
    assert crossing((0, 100), (10.0, 20.0), 12.0) == 20
    assert crossing((0, 100), (10.0, float("inf")), 12.0) is None


def test_the_command_writes_page_and_numbers(done: Body, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Size, Engine]] = []

    def quick(study: Study, size: Size, engine: Engine, progress: object, answers: object) -> Body:
        asked.append((study.name, size, engine))
        return done

    drawn_elsewhere = dataclasses.replace(STUDY, figures=lambda body: {"Fig. 7": "<svg/>"}, stretches=list)
    monkeypatch.setattr(studies, "run_study", quick)
    monkeypatch.setattr(studies, "find_study", {"fluid-batching": drawn_elsewhere}.__getitem__)
    folder = tmp_path / "s"
    words = ["simulate", "--study", "fluid-batching", "--out", str(folder), "--seeds", "2", "--requests", "200"]
    command = "fluidnpu simulate --study fluid-batching --seeds 2 --requests 200"
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert asked == [("fluid-batching", TINY, HERE)]
    names = {"report.html", "study.json", "summary.json", "statements.md", "tables.md", "figures"}
    assert {p.name for p in folder.iterdir()} == names
    assert (folder / "figures" / "fig-7.svg").read_text() == "<svg/>"
    assert command in (folder / "report.html").read_text()
    assert (folder / "study.json").read_text() == dumps(done)
    assert "agrees" in result.stdout
    table = (folder / "statements.md").read_text().splitlines()
    assert sum(line.startswith("| **") for line in table) == 54
    assert {line.count("|") for line in table if line.startswith("|")} == {7}
    assert f"Written by `{command}`" in (folder / "tables.md").read_text()
    brief = json.loads((folder / "summary.json").read_text())
    assert brief["command"] == command
    as_json = CliRunner().invoke(main, [*words, "--json"])
    assert json.loads(as_json.stdout)["tally"] == brief["tally"]


def test_the_command_knows_every_study() -> None:
    words = " ".join(CliRunner().invoke(main, ["simulate", "--help"]).stdout.split())
    assert f"--study [{'|'.join(studies.STUDIES)}]" in words
    assert find_study("fluid-batching") is STUDY


def test_tasks_are_named_once() -> None:
    named = [(task.part, task.key) for task in study_tasks(TINY)]
    assert len(set(named)) == len(named)
