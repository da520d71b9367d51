"""The study of a paper: every piece runs, its page stands alone, its numbers diff, and a verdict follows the numbers, not the author."""

import copy
import functools
import importlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fluidnpu import study, study_hardware, study_report
from fluidnpu.cli import main
from fluidnpu.scheduler import Interval, Recorded, solve_counts
from fluidnpu.studies import Size, run_study
from fluidnpu.studies.fluid_batching.paper import table2_rows
from fluidnpu.studies.fluid_batching.report import render_study, summary
from fluidnpu.studies.fluid_batching.simulations import crossing
from fluidnpu.studies.fluid_batching.tables import goals, tables_markdown
from fluidnpu.studies.fluid_batching.tasks import study_tasks
from fluidnpu.studies.fluid_batching.verdicts import AGREES, DIFFERS, FITTED, PARTLY, Verdict, verdicts
from fluidnpu.studies.study import Task
from fluidnpu.studies.writing import dumps

TINY = Size(seeds=2, requests=200)


@pytest.fixture(scope="module")
def small_world() -> Iterator[None]:
    """Solved tables that are good enough to look at, and few recorded samples: the study's pieces, quickly."""
    setting = importlib.import_module("fluidnpu.scheduler.policies.setting")
    rng = np.random.default_rng(0)
    sure = np.sort(rng.random((50, 3)), axis=1)
    recorded = Recorded(confidences=sure, correct=rng.random((50, 3)) < sure)
    design = study_hardware.explore(*_shipped()).design
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setting, "solve_counts", functools.partial(solve_counts, tolerance=0.5, queue_max=12))
        patch.setattr(study, "recorded_images", lambda: (recorded, design))
        patch.setattr(study, "MAP_LOADS", (0.2,))
        setting._solved.cache_clear()
        yield
    setting._solved.cache_clear()


def _shipped() -> tuple:
    with study_hardware.shipped_file(study_hardware.MODEL) as path:
        return study_hardware.read_onnx(path).workload, study_hardware.load_board("zc706")


@pytest.fixture(scope="module")
def done(small_world: None) -> dict:
    told: list[tuple[int, int]] = []
    found = run_study(TINY, 1, lambda at, of: told.append((at, of)))
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] == len(study_tasks(TINY))
    return found


def test_every_part_is_there(done: dict) -> None:
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


def test_numbers_read_back_and_do_not_depend_on_when_they_were_made(done: dict) -> None:
    text = dumps(done)
    assert json.loads(text) == json.loads(json.dumps(done))
    assert dumps(json.loads(text)) == text
    pick = [task for task in study_tasks(TINY) if task.part in ("Fig. 7", "codesign")][:3]
    for task in pick:
        assert task() == done["parts"][task.part][task.key]


def test_processes_change_nothing(small_world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [task for task in study_tasks(TINY) if task.part == "fig10"]
    monkeypatch.setattr(study, "study_tasks", lambda size: few)
    one, two = (run_study(TINY, n, lambda at, of: None) for n in (1, 2))
    assert dumps(one) == dumps(two)


def _leave_a_mark(path: Path) -> None:
    time.sleep(0.05)
    path.touch()


def test_a_study_stopped_in_the_middle_begins_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = [Task("part", str(i), _leave_a_mark, (tmp_path / str(i),)) for i in range(100)]
    monkeypatch.setattr(study, "study_tasks", lambda size: marks)

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(TINY, 2, stop)
    assert len(list(tmp_path.iterdir())) < 50


def test_the_page_stands_alone(done: dict) -> None:
    text = render_study(json.loads(dumps(done)), "the command")
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


def test_the_summary_is_the_study_in_brief(done: dict) -> None:
    brief = summary(done, "the command")
    assert brief["command"] == "the command"
    assert sum(brief["tally"].values()) == len(brief["verdicts"]) == 41
    assert {v["verdict"] for v in brief["verdicts"]} <= {AGREES, PARTLY, DIFFERS, FITTED}
    json.dumps(brief, allow_nan=False)


def test_the_tables_hold_every_policy_and_world(done: dict) -> None:
    text = tables_markdown(json.loads(dumps(done)), "the command")
    assert "Written by `the command`" in text
    blocks = {block.splitlines()[0]: block.splitlines() for block in text.split("\n\n")}
    by_policy = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    for name in (*study.BASELINES, "lazy", *study.OURS, *study.ANYTIME):
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


def said(body: dict, where: str, statement: str) -> Verdict:
    (one,) = [v for v in verdicts(body) if v.where.startswith(where) and v.statement.startswith(statement)]
    return one


def test_violations_of_table_2_are_judged_by_their_distance(done: dict) -> None:
    name = "ResNet-50, ZC706"
    for value, verdict in ((10.4, AGREES), (12.3, AGREES), (12.4, DIFFERS), (8.2, DIFFERS)):
        body = copy.deepcopy(done)
        body["parts"]["table2"][name]["policies"]["fluid"]["violations_pct"] = [value, value - 1, value + 1]
        assert said(body, f"Table II: {name}", "Fluid: SLO violations").verdict == verdict
    assert said(done, f"Table II: {name}", "Fluid: average").verdict == FITTED


def test_lazy_batching_without_a_fitting_cost_differs(done: dict) -> None:
    body = copy.deepcopy(done)
    body["parts"]["lazy"]["ResNet-50, ZC706"] |= {"fitted_cost_us": None, "fitted": None}
    one = said(body, "Table II: ResNet-50, ZC706", "LazyBatching: SLO violations")
    assert (one.verdict, one.ours) == (DIFFERS, "unstable")
    assert "no cost" in said(body, "Table II: ResNet-50, ZC706", "LazyBatching: average").why


def test_what_fluid_sustains_decides(done: dict) -> None:
    for last, verdict in (("22.5", AGREES), ("18.75", DIFFERS)):
        body = copy.deepcopy(done)
        for x, at in body["parts"]["Fig. 7"].items():
            at["lines"]["fluid"]["unstable"] = float(x) > float(last)
        one = said(body, "Fig. 7", "sustained")
        assert (one.verdict, one.ours) == (verdict, f"{last}/s, the highest stable rate tried")


def test_no_violations_means_none_at_the_papers_objective(done: dict) -> None:
    for at_400, verdict in ((0.0, AGREES), (3.0, PARTLY)):
        body = copy.deepcopy(done)
        for x, at in body["parts"]["Fig. 9a"].items():
            at["lines"]["fluid"]["violations_pct"] = [0.0 if x == "600" else at_400] * 3
        assert said(body, "Fig. 9a", "Fluid: no violations").verdict == verdict


def test_fewer_violations_than_serial_everywhere_somewhere_nowhere(done: dict) -> None:
    for at_100, elsewhere, verdict in ((1, 1, AGREES), (9, 1, PARTLY), (9, 9, DIFFERS)):
        body = copy.deepcopy(done)
        for x, at in body["parts"]["Fig. 9a"].items():
            at["lines"]["serial"]["violations_pct"] = [5.0] * 3
            at["lines"]["fluid"]["violations_pct"] = [float(at_100 if x == "100" else elsewhere)] * 3
        assert said(body, "Fig. 9a", "similar or fewer").verdict == verdict


def test_batch_16_and_stackable_pes(done: dict) -> None:
    for ms, verdict in ((280.0, AGREES), (310.0, DIFFERS)):
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


def test_intervals_are_written_short() -> None:
    assert study.three(Interval(1.23456789, 0.5)) == [1.2346, 0.73457, 1.7346]
    assert study.three(Interval(1.0, float("inf"))) == [1.0, None, None]


def test_the_command_writes_page_and_numbers(done: dict, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Size, int]] = []

    def quick(size: Size, processes: int, progress: object) -> dict:
        asked.append((size, processes))
        return done

    monkeypatch.setattr(study, "run_study", quick)
    monkeypatch.setattr(study_report, "render_study", lambda body, command: f"page of {command}")
    monkeypatch.setattr(study_report, "study_figures", lambda body: {"Fig. 7": "<svg/>"})
    words = ["simulate", "--study", "fluid-batching", "--out", str(tmp_path / "s"), "--seeds", "2", "--requests", "200"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert asked == [(TINY, 1)]
    assert {p.name for p in (tmp_path / "s").iterdir()} == {
        "report.html",
        "study.json",
        "summary.json",
        "statements.md",
        "tables.md",
        "figures",
    }
    assert (tmp_path / "s" / "figures" / "fig-7.svg").read_text() == "<svg/>"
    assert "agrees" in result.stdout
    table = (tmp_path / "s" / "statements.md").read_text().splitlines()
    assert sum(line.startswith("| **") for line in table) == 41
    assert {line.count("|") for line in table if line.startswith("|")} == {7}
    assert (tmp_path / "s" / "tables.md").read_text() == tables_markdown(
        json.loads(dumps(done)), f"fluidnpu {' '.join(words[:3])} {' '.join(words[-4:])}"
    )
    assert json.loads((tmp_path / "s" / "summary.json").read_text())["command"] == "fluidnpu " + " ".join(
        w for w in words if w not in ("--out", str(tmp_path / "s"))
    )
    as_json = CliRunner().invoke(main, [*words, "--json"])
    assert json.loads(as_json.stdout)["tally"] == json.loads((tmp_path / "s" / "summary.json").read_text())["tally"]


def test_tasks_are_named_once() -> None:
    tasks: list[Task] = study_tasks(TINY)
    assert len({(task.part, task.key) for task in tasks}) == len(tasks)
