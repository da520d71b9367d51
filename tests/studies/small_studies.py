"""Small runs of the studies, and what is checked of every study's run."""

import json
import re
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from narrow_pages import check_narrow

from fluidnpu.scheduler.comparison import HERE
from fluidnpu.studies import Size, Study, find_study, run_study, study_files
from fluidnpu.studies.statements import slug

SIZES = {"delen": (2, 600), "pame": (2, 400), "tetris": (1, 200), "ensemble": (1, 200)}
SMALLER: dict[str, Any] = {
    "delen.shares.FLOOD_S": 8,
    "delen.shares.PHASE_S": 6,
    "delen.energy.SPLITS": 4,
    "pame.simulations.PROOF_NODES": 100,
    "pame.simulations.PROOF_SAMPLES": 320,
    "pame.load.REQUESTS": 3000,
    "tetris.simulations.DRAWN_BATCHES": (1, 16),
    "tetris.simulations.FORECAST_SEEDS": 2,
    "tetris.simulations.placement.FORECASTS": ("last", "ewma"),  # as without statsmodels
    "tetris.study.DRAWN": 1,
    "tetris.simulations.SIZES": (1, 4, 16),
    "tetris.simulations.V100S": {"V100": 4},
    "tetris.simulations.MIXED": {"V100": 2, "P100": 2, "K80": 2},
    "tetris.study.SPACES": {"2 + 2": {"V100": 2, "P100": 2}},
    "tetris.study.BOARDS": ((0, 2),),
    "ensemble.study.DRAWN": 1,
    "ensemble.study.GPUS": (1, 3, 4, 16),
    "ensemble.study.NAMES": ("IMN1", "IMN4", "IMN12"),
    "ensemble.bench.MAX_ITER": 1,
    "ensemble.simulations.DRAWN_CELLS": {"IMN1": (1, 16), "IMN12": (3, 4)},
}
EXHIBITS = {  # of the papers: figures, and tables by the numerals that they have
    "fluid-batching": (range(1, 11), ("I", "II")),
    "pame": (range(1, 19), ("1",)),
    "delen": (range(1, 17), ("1", "2", "3")),
    "tetris": (range(1, 20), ("1",)),
    "ensemble": ((), ("I", "II", "III")),
}
LOADED = re.compile(r"""(src|href)\s*=\s*["'](?!#|data:)|url\(\s*["']?http|<script|@import""")
Body = dict[str, Any]


@lru_cache
def small_body(name: str) -> Body:
    """The numbers of a small run, of any study but the one whose policies take long to solve."""
    patches = [
        patch(f"fluidnpu.studies.{target}", value) for target, value in SMALLER.items() if target.startswith(name)
    ]
    for one in patches:
        one.start()
    try:
        seeds, requests = SIZES[name]
        return run_study(find_study(name), Size(seeds=seeds, requests=requests), HERE, lambda done, total: None)
    finally:
        for one in patches:
            one.stop()


def check_study(study: Study, body: Body) -> dict[str, str]:
    """Check that a study's table names what its tasks produce, and its files; return these."""
    files = dict(study_files(study, body, "the command"))
    verdicts = study.verdicts(body)
    assert json.loads(files["study.json"]) == body
    assert json.loads(files["summary.json"])["verdicts"] == [verdict.to_dict() for verdict in verdicts]
    for exhibit in missing_exhibits(study.name, [verdict.where for verdict in verdicts]):
        raise AssertionError(f"no statement about {exhibit}")
    places = set(re.findall(r"^## (.*)$", files["tables.md"], re.MULTILINE)) | set(study.figures(body))
    assert {verdict.shown for verdict in verdicts if verdict.holds} <= places
    for table in study.exhibits.tables(body["parts"]):
        assert table.rows, table.title
        assert {len(row) for row in table.rows} == {len(table.head)}, table.title
    rows = [line for line in files["statements.md"].splitlines() if line.startswith("| **")]
    assert len(rows) == len(verdicts)
    assert {line.count("|") for line in rows} == {7}
    page = files["report.html"]
    assert not LOADED.search(page)
    assert page.count('class="verdict') >= len(verdicts)
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(re.findall(r'id="([^"]*)"', page))
    assert all(f'id="{slug(place)}"' in page for place in places)
    check_narrow(page)
    return files


def missing_exhibits(name: str, wheres: list[str]) -> list[str]:
    """Figures and tables of a paper that no statement is about."""
    found: set[str] = set()
    for where in wheres:
        for kind, numbers in re.findall(
            r"(Figs?\.|Tables?) ([0-9IV]+[a-c]?\b(?:(?:, | to | and )[0-9IV]+[a-c]?\b)*)", where.partition(":")[0]
        ):
            for first, last in re.findall(r"([0-9IV]+)[a-c]?(?: to ([0-9]+))?", numbers):
                numbered = range(int(first), int(last or first) + 1) if kind.startswith("Fig") else [first]
                found.update(f"{kind[:3]} {number}" for number in numbered)
    figures, tables = EXHIBITS[name]
    return [key for key in (*(f"Fig {n}" for n in figures), *(f"Tab {n}" for n in tables)) if key not in found]
