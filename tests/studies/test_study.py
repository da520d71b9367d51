"""Any study: tasks run in any number of processes, and an interrupted study begins nothing more."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from click.testing import CliRunner
from waiting import eventually

from fluidnpu.cli import main
from fluidnpu.scheduler.comparison import HERE, Local, engines
from fluidnpu.scheduler.simulation import Interval
from fluidnpu.studies import STUDIES, AnswerFile, Size, Study, find_study, run_study, study_files
from fluidnpu.studies.running.exhibits import Exhibits
from fluidnpu.studies.running.study import StudyTask, run_tasks
from fluidnpu.studies.writing import dumps, mean_low_high, plus_minus

TINY = Size(seeds=2, requests=200)


def silent(done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def square(number: int) -> dict[str, Any]:
    return {"square": [number**2, None, float(number)]}


FACTS = {
    "title": "Toys",
    "heading": "Toys",
    "lead": "Toys, counted",
    "tables": "Tables of toys",
    "caution": "Simulated.",
    "shown": {"Fig. 1": "Fig. 1, again", "Fig. 2": "Figs. 1, 2: squares"},
    "statement": [
        {
            "where": where,
            "statement": "three is | odd",
            "paper": "yes",
            "holds": ["squares/0/square/mean > 0", "squares/1/square/mean > 0"],
            "why": "arithmetic",
        }
        for where in ("Fig. 1", "Fig. 2")
    ],
    "table": [{"title": "Figs. 1, 2: squares", "quantity": "squares"}],
}


def toy(tasks: Callable[[Size], list[StudyTask]]) -> Study:
    figures = {"Fig. 1, again": "<svg/>"}
    exhibits = Exhibits(FACTS, {})
    return Study(name="toy", exhibits=exhibits, tasks=tasks, figures=lambda body: figures, excerpt=("squares",))


def squares(size: Size) -> list[StudyTask]:
    return [StudyTask("squares", str(n), square, (n,)) for n in range(size.seeds)]


def test_every_study_of_the_catalogue_is_found() -> None:
    for name in STUDIES:
        assert find_study(name).name == name
    with pytest.raises(KeyError):
        find_study("no-such-paper")


def test_processes_change_nothing() -> None:
    one, two = (run_study(toy(squares), TINY, Local(processes=processes), silent) for processes in (1, 2))
    assert dumps(one) == dumps(two)
    assert one["parts"]["squares"]["1"] == {"square": [1, None, 1.0]}
    assert (one["study"], one["seeds"], one["requests"], one["sweep_requests"]) == ("toy", 2, 200, 200)


def test_progress_is_told_from_nothing_to_all() -> None:
    told: list[tuple[int, int]] = []
    run_study(toy(squares), TINY, HERE, lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (2, 2)]


def _leave_a_mark(path: Path, until: Path) -> None:
    """The first ends at once, all others when they are told."""
    path.touch()
    eventually(lambda: path.name == "0" or until.exists())


def test_tasks_stopped_in_the_middle_begin_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the pool has in hand when it is shut down end when every other one is cancelled."""
    marks, told = tmp_path / "marks", tmp_path / "told"
    marks.mkdir()
    tasks = [StudyTask("part", str(i), _leave_a_mark, (marks / str(i), told)) for i in range(100)]

    class Watched(ProcessPoolExecutor):
        def submit(self, *args: Any, **options: Any) -> Any:
            futures.append(super().submit(*args, **options))
            return futures[-1]

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            threading.Thread(target=tell).start()
            super().shutdown(wait, cancel_futures=cancel_futures)

    futures: list[Any] = []

    def tell() -> None:
        eventually(lambda: all(one.running() or one.done() for one in futures))
        told.touch()

    monkeypatch.setattr(engines, "ProcessPoolExecutor", Watched)

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, Local(processes=2), stop)
    assert len(list(marks.iterdir())) < 10


def test_a_stopped_study_goes_on_where_it_was(tmp_path: Path) -> None:
    size, ran = Size(seeds=5, requests=200), []

    def counted(number: int) -> dict[str, Any]:
        ran.append(number)
        return square(number)

    def tasks(size: Size) -> list[StudyTask]:
        return [StudyTask("squares", str(n), counted, (n,)) for n in range(size.seeds)]

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(toy(tasks), size, HERE, stop, AnswerFile.open(tmp_path, "toy", "5"))
    assert ran == [0, 1, 2]
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-3])  # killed while the last line was written
    assert AnswerFile.open(tmp_path, "toy", "6").answers == {}
    told: list[tuple[int, int]] = []
    body = run_study(toy(tasks), size, HERE, lambda *at: told.append(at), AnswerFile.open(tmp_path, "toy", "5"))
    assert ran == [0, 1, 2, 2, 3, 4]
    assert told == [(2, 5), (3, 5), (4, 5), (5, 5)]
    assert dumps(body) == dumps(run_study(toy(tasks), size, HERE, silent))
    assert len(AnswerFile.open(tmp_path, "toy", "5").answers) == 5
    AnswerFile.open(tmp_path, "toy", "5").forget()
    assert not list(tmp_path.iterdir())


def test_the_command_says_where_a_stopped_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = [True]

    def stopped(number: int) -> dict[str, Any]:
        if number == 1 and stops:
            stops.pop()
            raise KeyboardInterrupt
        return square(number)

    def tasks(size: Size) -> list[StudyTask]:
        return [StudyTask("squares", str(n), stopped, (n,)) for n in range(size.seeds)]

    monkeypatch.setattr("fluidnpu.studies.find_study", lambda name: toy(tasks))
    words = ["simulate", "--study", "pame", "--seeds", "3", "--processes", "1", "--out", str(tmp_path / "out")]
    first = CliRunner().invoke(main, words)
    assert first.exit_code == 130
    (line,) = first.stderr.splitlines()
    assert line.startswith("fluidnpu: stopped by the user; nothing half-written was kept; 1 of 3 answers lie in '")
    (file,) = (tmp_path / "out").iterdir()
    second = CliRunner().invoke(main, words)
    assert second.exit_code == 0, second.output
    assert "resuming with the 1 answers" in " ".join(second.output.split())
    assert not file.exists()
    assert json.loads((tmp_path / "out" / "study.json").read_text())["parts"]["squares"]["2"]["square"][0] == 4


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path\n"
        "from fluidnpu.scheduler.comparison import Local\n"
        "from fluidnpu.studies.running.study import StudyTask, run_tasks\n"
        "def work(name):\n    Path(sys.argv[1], str(os.getpid())).touch(); time.sleep(3600)\n"
        "run_tasks([StudyTask('a', str(n), work, (n,)) for n in range(4)], Local(processes=2), lambda at, of: None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as parent:
        while len(list(tmp_path.iterdir())) < 2:
            assert parent.poll() is None, "the parent ended before its workers began"
            sleep(0.05)
        workers = [int(path.name) for path in tmp_path.iterdir()]
        parent.kill()
    eventually(lambda: not [pid for pid in workers if Path(f"/proc/{pid}").exists()])


def test_the_files_of_a_study() -> None:
    study = toy(squares)
    body = run_study(study, TINY, HERE, silent)
    files = dict(study_files(study, body, "the command"))
    assert list(files)[:2] == ["study.json", "summary.json"]
    assert set(files) >= {"report.html", "statements.md", "tables.md", "figures/fig-1-again.svg"}
    assert json.loads(files["study.json"]) == body
    brief = json.loads(files["summary.json"])
    assert brief == study.summary(body, "the command")
    assert (brief["tally"], list(brief["squares"])) == ({"partly": 2}, ["0", "1"])
    lines = files["statements.md"].splitlines()
    assert (lines[0], "2 statements: 2 partly;" in lines[3]) == ("# Toys", True)
    assert lines[-2].startswith(
        "| **partly** | [Fig. 1](figures/fig-1-again.svg) | three is / odd | yes | - | arithmetic"
    )
    assert "[Fig. 2](tables.md#figs-1-2-squares)" in lines[-1]
    assert "| 1 | 1.0 ± 0.0 |" in files["tables.md"]


def test_numbers_are_written_canonically() -> None:
    body = {"b": [1.5, None, 2.0], "a": {"x": [[1, 2], [3, 4]]}}
    text = dumps(body)
    assert json.loads(text) == body
    assert dumps(json.loads(text)) == text
    assert '"b": [1.5, null, 2.0]' in text


def test_intervals_are_written_short() -> None:
    assert mean_low_high(Interval(1.23456789, 0.5)) == [1.2346, 0.73457, 1.7346]
    assert mean_low_high(Interval(1.0, float("inf"))) == [1.0, None, None]
    assert plus_minus([1.0, None, None], unit=" ms") == "1.0 ms"
