"""Every rule of every study can come out each way: in worlds that are not ours, every part of it changes."""

import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from fluidnpu.studies import STUDIES, find_study
from fluidnpu.studies.reversing import RuleVerdict, list_rules, outcomes
from fluidnpu.studies.statements import AGREES, DIFFERS, FITTED, PARTLY, UNTESTED, Verdict, slug

BODIES = Path(__file__).parent / "bodies"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "verdicts.md"
PAGE_HEAD = """# Verdicts that could have been otherwise

A verdict is a function of a study's numbers and of nothing else. For every statement this list names, for
each verdict that its rule gives, the first world that gives it. *Ours* is a small run, whose verdict may
differ from the study's own. The others change its numbers: all that a key names is scaled, shifted, turned
over or taken away, or two things that are compared change places. `tests/studies/test_verdicts.py` finds
the rules by asking each study for its statements, and fails for a rule of which a part never holds or never
fails in any world. Lines that are only *untested* have no rule."""
SURE = "fluidnpu.studies.statements.MOST_LEAST"  # one drawn world, if the rule asks for no more, is enough to judge by
EXHIBITS = {  # of the papers: figures, and tables by the numerals that they have
    "fluid-batching": (range(1, 11), ("I", "II")),
    "pame": (range(1, 19), ("1",)),
    "delen": (range(1, 17), ("1", "2", "3")),
    "tetris": (range(1, 20), ("1",)),
    "ensemble": ((), ("I", "II", "III")),
}


@lru_cache
def body_of(name: str) -> dict[str, Any]:
    """The numbers of a small run, with one of its drawn worlds."""
    body: dict[str, Any] = json.loads((BODIES / f"{name}.json").read_text())
    drawn = body["parts"].get("drawn", {})
    for key in list(drawn)[:-1]:
        del drawn[key]
    return body


@lru_cache
def rules_of(name: str) -> Sequence[RuleVerdict]:
    with pytest.MonkeyPatch.context() as patch:
        if "drawn" in body_of(name)["parts"]:
            patch.setattr(SURE, 0.2)
        return outcomes(body_of(name), find_study(name).verdicts)


def verdicts_of(name: str) -> list[Verdict]:
    return find_study(name).verdicts(body_of(name))


@pytest.mark.cpu(8, "worlds are tried until every part of every rule has changed")
@pytest.mark.parametrize("name", STUDIES)
def test_every_part_of_every_rule_comes_out_each_way(name: str) -> None:
    stuck = [
        f"{rule.statement.where}: {rule.statement.statement}, part {number}"
        for rule in rules_of(name)
        for number, part in enumerate(rule.parts)
        if not part.both
    ]
    assert not stuck


@pytest.mark.cpu(8, "the search of the test above, where that did not run")
@pytest.mark.parametrize("name", STUDIES)
def test_every_verdict_can_be_another(name: str) -> None:
    for rule in rules_of(name):
        known = set(rule.verdicts)
        if rule.statement.verdict == UNTESTED:
            assert known == {UNTESTED}, rule.statement
        else:
            assert known & {AGREES, FITTED, PARTLY}, rule.statement
            assert known & {DIFFERS, PARTLY}, rule.statement
            assert len(known) > 1, rule.statement


@pytest.mark.parametrize("name", STUDIES)
def test_every_exhibit_of_the_paper_has_a_line(name: str) -> None:
    figures: set[int] = set()
    tables: set[str] = set()
    for verdict in verdicts_of(name):
        where = verdict.where.partition(":")[0]
        for kind, numbers in re.findall(
            r"(Figs?\.|Tables?) ([0-9IV]+[a-c]?\b(?:(?:, | to | and )[0-9IV]+[a-c]?\b)*)", where
        ):
            for first, last in re.findall(r"([0-9IV]+)[a-c]?(?: to ([0-9]+))?", numbers):
                if kind.startswith("Fig"):
                    figures.update(range(int(first), int(last or first) + 1))
                else:
                    tables.add(first)
    wanted, named = EXHIBITS[name]
    assert set(wanted) <= figures
    assert set(named) <= tables


@pytest.mark.parametrize("name", STUDIES)
def test_every_statement_that_is_tested_leads_to_its_numbers(name: str) -> None:
    study = find_study(name)
    titles = {verdict.shown for verdict in verdicts_of(name) if verdict.holds}
    assert "" not in titles
    headings = (
        set(re.findall(r"^## (.*)$", study.tables(body_of(name), "the command"), re.MULTILINE))
        if _whole(name)
        else set()
    )
    figures = set(study.figures(body_of(name))) if _whole(name) else set()
    if _whole(name):
        assert titles <= headings | figures
        assert len({slug(title) for title in titles}) == len(titles)


def test_the_list_of_verdicts_is_todays() -> None:
    parts = [PAGE_HEAD]
    for name in STUDIES:
        rules = rules_of(name)
        asked = sum(bool(rule.parts) for rule in rules)
        parts.append(f"## {name}: {len(rules)} statements, {asked} with a rule\n\n" + "\n".join(list_rules(rules)))
    text = "\n\n".join(parts) + "\n"
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


def _whole(name: str) -> bool:
    """Whether the body has what is drawn and not judged, too."""
    return name != "fluid-batching"


def test_a_rule_that_cannot_fail_is_found() -> None:
    def rules(body: Any) -> list[Verdict]:
        held = [body["a"]["ms"] > 1, body["a"]["ms"] > 1 or body["a"]["ms"] <= 1]
        return [Verdict(where="Fig. 1", statement="s", paper="", ours="", why="", holds=held)]

    (rule,) = outcomes({"a": {"ms": 2.0}, "b": {"ms": 3.0}}, rules)
    assert [part.both for part in rule.parts] == [True, False]
    assert rule.verdicts == {AGREES: "ours", PARTLY: "a x 0"}


def test_a_change_is_tried_on_top_of_another() -> None:
    """Nothing is measured under `a`, so that one exchange and one factor are needed."""

    def rules(body: Any) -> list[Verdict]:
        row = body["a"]["row"]
        held = [row is not None, row is not None and row["ms"] > 5]
        return [Verdict(where="Fig. 1", statement="s", paper="", ours="", why="", holds=held)]

    body = {"a": {"row": None}, "b": {"row": {"ms": 2.0}}}
    (rule,) = outcomes(body, rules)
    assert all(part.both for part in rule.parts)
    assert ", then " in rule.parts[1].holds
    assert body == {"a": {"row": None}, "b": {"row": {"ms": 2.0}}}
