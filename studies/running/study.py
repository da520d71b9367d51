"""Run a study and render its files.

A study is one list of tasks, each deterministic in its seeds, run in any order by any engine.
The result is one plain dictionary that says nothing about when or how fast it was made, so two runs can be
diffed. An interval is `[mean, low, high]`, 95 % over seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from fluidnpu.scheduler.comparison import Engine

from ..drawing.page import statements_page
from ..statements import Verdict, slug, statements_markdown, tables_markdown, tally
from ..writing import dumps
from .answers import AnswerFile
from .exhibits import Exhibits

Body = Mapping[str, Any]
SCHEMA = 1
HEADER = ("study", "schema", "seeds", "requests", "sweep_requests", "interval", "simulated")


@dataclass(frozen=True, kw_only=True)
class Size:
    """Number of seeds and of requests a seed.

    Sweeps over many circumstances take a quarter of the requests in each.
    """

    seeds: int = 30
    requests: int = 20_000

    @property
    def sweep_requests(self) -> int:
        """Requests per seed in sweeps."""
        return max(200, self.requests // 4)


@dataclass(frozen=True)
class StudyTask:
    """One piece of work, and the part and key of the study under which its answer is filed."""

    part: str
    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        """Compute the answer, in plain JSON types."""
        return self.function(*self.arguments)


@dataclass(frozen=True, kw_only=True)
class Study:
    """One paper's study: its tasks, its table of statements and exhibits, and its figures.

    `figures` gives SVG text by name; `excerpt` names the parts that a summary shows; `stretches` gives the
    schedules that the page shows.
    """

    name: str
    exhibits: Exhibits
    tasks: Callable[[Size], list[StudyTask]]
    figures: Callable[[Body], dict[str, str]]
    excerpt: Sequence[str] = ()
    stretches: Callable[[], list[Any]] = list

    def verdicts(self, body: Body) -> list[Verdict]:
        """Judge every statement, in the paper's order."""
        return self.exhibits.verdicts(body["parts"])

    def summary(self, body: Body, command: str) -> dict[str, Any]:
        """Give the statements with their verdicts and the excerpt, in plain JSON types."""
        verdicts = self.verdicts(body)
        return {
            "command": command,
            **{key: body[key] for key in HEADER},
            "tally": dict(tally(verdicts)),
            "verdicts": [verdict.to_dict() for verdict in verdicts],
            **{part: body["parts"][part] for part in self.excerpt},
        }


def run_study(
    study: Study, size: Size, engine: Engine, progress: Callable[[int, int], None], answers: AnswerFile | None = None
) -> dict[str, Any]:
    """Run every task of the study, and give what its file, read again, gives.

    The engine changes no number. `answers` has those of tasks that were run before, which are
    not run again, and keeps each new one.
    """
    body = {
        "schema": SCHEMA,
        "study": study.name,
        "seeds": size.seeds,
        "requests": size.requests,
        "sweep_requests": size.sweep_requests,
        "interval": "[mean, low, high], 95 % over seeds",
        "simulated": True,
        "parts": run_tasks(study.tasks(size), engine, progress, answers),
    }
    settled: dict[str, Any] = json.loads(dumps(body))
    return settled


def run_tasks(
    tasks: Sequence[StudyTask],
    engine: Engine,
    progress: Callable[[int, int], None],
    answers: AnswerFile | None = None,
) -> dict[str, dict[str, Any]]:
    """Run the tasks, and file their answers by part and key."""
    stored = {} if answers is None else answers.answers
    done = {index: stored[task.part, task.key] for index, task in enumerate(tasks) if (task.part, task.key) in stored}
    progress(len(done), len(tasks))
    wanted = [index for index in range(len(tasks)) if index not in done]
    with closing(engine.results([tasks[index] for index in wanted])) as results:
        for place, answer in results:
            index = wanted[place]
            done[index] = answer
            if answers is not None:
                answers.keep(tasks[index].part, tasks[index].key, answer)
            progress(len(done), len(tasks))
    parts: dict[str, dict[str, Any]] = {}
    for index, task in enumerate(tasks):
        parts.setdefault(task.part, {})[task.key] = done[index]
    return parts


def study_files(study: Study, body: Body, command: str) -> Iterator[tuple[str, str]]:
    """Render the files of a study one by one, numbers first, as (path inside the study's folder, text).

    `command` is the one that made the study, for the reader to repeat.
    """
    yield "study.json", dumps(body)
    yield "summary.json", dumps(study.summary(body, command))
    facts, figures = study.exhibits.facts, study.figures(body)
    verdicts, tables = study.verdicts(body), study.exhibits.tables(body["parts"])
    yield (
        "report.html",
        statements_page(
            facts=facts,
            command=command,
            verdicts=verdicts,
            figures=figures,
            tables=tables,
            stretches=study.stretches(),
        ),
    )
    yield "statements.md", statements_markdown(facts["title"], verdicts, command, figures)
    yield "tables.md", tables_markdown(facts, command, tables)
    for name, svg in figures.items():
        yield f"figures/{slug(name)}.svg", svg
