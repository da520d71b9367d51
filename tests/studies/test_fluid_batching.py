"""The study of Fluid Batching: its page stands alone, and a verdict follows the numbers, not the author."""

import copy
import dataclasses
import functools
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from narrow_pages import check_narrow

from fluidnpu import studies
from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.dse import explore
from fluidnpu.models import read_onnx, shipped_file
from fluidnpu.scheduler.comparison import HERE, Engine
from fluidnpu.scheduler.exits import Recorded
from fluidnpu.scheduler.policies.solving.decision_process import solve_counts
from fluidnpu.studies import Size, Study, find_study, run_study
from fluidnpu.studies.fluid_batching import simulations, tasks
from fluidnpu.studies.fluid_batching.figures import study_figures
from fluidnpu.studies.fluid_batching.hardware import MODEL
from fluidnpu.studies.fluid_batching.paper import table2_rows
from fluidnpu.studies.fluid_batching.report import render_study
from fluidnpu.studies.fluid_batching.settings import ANYTIME, BASELINES, OURS
from fluidnpu.studies.fluid_batching.simulations import crossing
from fluidnpu.studies.fluid_batching.study import STUDY
from fluidnpu.studies.fluid_batching.tables import goals, tables_markdown
from fluidnpu.studies.fluid_batching.tasks import study_tasks
from fluidnpu.studies.fluid_batching.verdicts import verdicts
from fluidnpu.studies.statements import AGREES, DIFFERS, FITTED, PARTLY, UNTESTED, Verdict
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


def test_the_page_stands_alone(done: Body) -> None:
    text = render_study(done, "the command", study_figures(done))
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)|url\(\s*["']?http|<script|@import""", text)
    for words in (
        "the command",
        "Table II",
        "Fig. 10",
        "Who wins where",
        "early exits halved",
        "Co-design",
        "back-fill",
        "paper: LazyBatching",
    ):
        assert words in text
    assert text.count("<svg") == 12
    check_narrow(text)


def test_the_summary_is_the_study_in_brief(done: Body) -> None:
    brief = STUDY.summary(done, "the command")
    assert brief["command"] == "the command"
    assert sum(brief["tally"].values()) == len(brief["verdicts"]) == 54
    assert {v["verdict"] for v in brief["verdicts"]} <= {AGREES, PARTLY, DIFFERS, FITTED, UNTESTED}
    json.dumps(brief, allow_nan=False)


def test_the_tables_hold_every_policy_and_world(done: Body) -> None:
    text = tables_markdown(done, "the command")
    assert "Written by `the command`" in text
    blocks = {block.splitlines()[0]: block.splitlines() for block in text.split("\n\n")}
    by_policy = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    for name in (*BASELINES, "lazy", *OURS, *ANYTIME):
        assert f"| `{name}`" in by_policy
    for lines in blocks.values():
        if lines[0].startswith("|"):
            assert len({line.count(" | ") for line in lines if "---" not in line}) == 1
    body = copy.deepcopy(done)
    for row in body["parts"]["table2"].values():
        for field in ("minus_fluid", "minus_half_of_fluid"):
            for one in row[field].values():
                one.update({key: [-1.0, -1.5, -0.5] for key in one})
        row["minus_fluid"]["guarded"]["p99_ms"] = [-1.0, -2.5, 0.5]
    assert [line.split(" | ")[-1] for line in goals(body["parts"]["table2"])[2:]] == ["yes |", "no |", "yes |", "yes |"]


def said(body: Body, where: str, statement: str) -> Verdict:
    (one,) = [v for v in verdicts(body) if v.where.startswith(where) and v.statement.startswith(statement)]
    return one


def test_violations_of_table_2_are_judged_by_their_distance(done: Body) -> None:
    name = "ResNet-50, ZC706"
    for value, verdict in ((10.4, AGREES), (12.3, AGREES), (12.4, DIFFERS), (8.2, DIFFERS)):
        body = copy.deepcopy(done)
        body["parts"]["table2"][name]["policies"]["fluid"]["violations_pct"] = [value, value - 1, value + 1]
        assert said(body, f"Table II: {name}", "Fluid: SLO violations").verdict == verdict
    for value, verdict in ((121.0, FITTED), (116.0, FITTED), (110.0, DIFFERS)):
        body = copy.deepcopy(done)
        body["parts"]["table2"][name]["policies"]["fluid"]["average_ms"] = [value, value - 1, value + 1]
        assert said(body, f"Table II: {name}", "Fluid: average").verdict == verdict


def test_lazy_batching_without_a_fitting_cost_differs(done: Body) -> None:
    body = copy.deepcopy(done)
    body["parts"]["lazy"]["ResNet-50, ZC706"] |= {"fitted_cost_us": None, "fitted": None}
    one = said(body, "Table II: ResNet-50, ZC706", "LazyBatching: SLO violations")
    assert (one.verdict, one.ours) == (DIFFERS, "unstable")
    assert "no cost" in said(body, "Table II: ResNet-50, ZC706", "LazyBatching: average").why


def test_what_fluid_sustains_decides(done: Body) -> None:
    for last, verdict in (("22.5", AGREES), ("18.75", DIFFERS)):
        body = copy.deepcopy(done)
        for x, at in body["parts"]["Fig. 7"].items():
            at["lines"]["fluid"]["unstable"] = float(x) > float(last)
        one = said(body, "Fig. 7", "sustained")
        assert (one.verdict, one.ours) == (verdict, f"{last}/s, the highest stable rate tried")


def test_no_violations_means_none_at_the_papers_objective(done: Body) -> None:
    for at_400, verdict in ((0.0, AGREES), (3.0, PARTLY)):
        body = copy.deepcopy(done)
        for x, at in body["parts"]["Fig. 9a"].items():
            at["lines"]["fluid"]["violations_pct"] = [0.0 if x == "600" else at_400] * 3
        assert said(body, "Fig. 9a", "Fluid: no violations").verdict == verdict


def test_fewer_violations_than_serial_everywhere_somewhere_nowhere(done: Body) -> None:
    for at_100, elsewhere, verdict in ((1, 1, AGREES), (9, 1, PARTLY), (9, 9, DIFFERS)):
        body = copy.deepcopy(done)
        for x, at in body["parts"]["Fig. 9a"].items():
            at["lines"]["serial"]["violations_pct"] = [5.0] * 3
            at["lines"]["fluid"]["violations_pct"] = [float(at_100 if x == "100" else elsewhere)] * 3
        assert said(body, "Fig. 9a", "similar or fewer").verdict == verdict


def test_batch_16_and_stackable_pes(done: Body) -> None:
    for ms, verdict in ((280.0, AGREES), (310.0, PARTLY), (150.0, DIFFERS)):
        body = copy.deepcopy(done)
        body["parts"]["fig10"]["batch 16"]["batch_16_ms"] = ms
        assert said(body, "Section IV", "ResNet-50 on ZCU104").verdict == verdict
    body = copy.deepcopy(done)
    for ways in body["parts"]["fig10"]["share of peak"].values():
        ways["fluid + stackable"]["share_pct"] = [x * (1.1 - k / 100) for k, x in enumerate(ways["fluid"]["share_pct"])]
    assert said(body, "Fig. 10", "Stackable").verdict == AGREES


def test_a_cost_is_found_between_those_tried() -> None:
    assert crossing((0, 100), (10.0, 20.0), 12.0) == 20
    assert crossing((0, 100), (10.0, float("inf")), 12.0) is None


def test_the_command_writes_page_and_numbers(done: Body, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Size, Engine]] = []

    def quick(study: Study, size: Size, engine: Engine, progress: object, answers: object) -> Body:
        asked.append((study.name, size, engine))
        return done

    drawn_elsewhere = dataclasses.replace(
        STUDY, figures=lambda body: {"Fig. 7": "<svg/>"}, page=lambda body, command, figures: f"page of {command}"
    )
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
    assert (folder / "report.html").read_text() == f"page of {command}"
    assert (folder / "study.json").read_text() == dumps(done)
    assert "agrees" in result.stdout
    table = (folder / "statements.md").read_text().splitlines()
    assert sum(line.startswith("| **") for line in table) == 54
    assert {line.count("|") for line in table if line.startswith("|")} == {7}
    assert (folder / "tables.md").read_text() == tables_markdown(done, command)
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
