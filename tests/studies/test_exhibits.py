"""The evaluator of the studies: every relation can hold and fail, and no table names what is not there."""

import math
from importlib.util import find_spec
from typing import Any

import pytest
from small_studies import check_study, small_body

from fluidnpu.studies import find_study
from fluidnpu.studies.running.exhibits import Exhibits, fill, find, related, write
from fluidnpu.studies.statements import AGREES, DIFFERS, FITTED, PARTLY, UNTESTED

NAMES: dict[str, Any] = {
    "two": 2.0,
    "none": math.nan,
    "interval": [2.0, 1.0, 3.0],
    "unstable": None,
    "by name": {"a": [2.0, 1.0, 3.0], "b": [5.0, 4.0, 6.0]},
    "bars": {"a": 2, "b": 4},
    "up": (1, 2, 3),
    "level": (1, 1, 2),
    "down": (3, 2, 1),
    "rows": {"a": (1, 2), "b": (2, 1)},
    "yes": True,
    "no": False,
    "empty": {},
}
RELATED = {  # relation: where it holds, and where it fails
    "<": ("two < 3", "two < 2"),
    "<=": ("two <= 2", "two <= 1.9"),
    ">": ("two > 1", "two > 2"),
    ">=": ("two >= 2", "two >= 2.1"),
    "==": ("two == 2", "two == 3"),
    "by": ("two > 3 by -2", "two > 1 by 1"),
    "times": ("two >= 3 times 0.5", "two >= 3 times 1"),
    "near, by": ("two near 3 by 1", "two near 3 by 0.5"),
    "near, within": ("two near 2.1 within 0.1", "two near 3 within 0.1"),
    "chain": ("1 < two <= 2", "1 < two < 2"),
    "and": ("two > 1 and two < 3", "two > 1 and two < 2"),
    "rises": ("up rises", "level rises"),
    "falls": ("down falls", "up falls"),
    "never falls": ("level never falls", "down never falls"),
    "never rises": ("down never rises", "up never rises"),
    "truth": ("yes", "no"),
    "not": ("not no", "not yes"),
    "all": ("all by name/mean > 1", "all by name/mean > 2"),
    "low and high": ("interval/high < 4", "interval/low > 1"),
    "without a number": ("unstable/mean > 1000", "none < 1000"),
    "without values": ("two > 1", "empty > 1"),
}


@pytest.mark.parametrize("relation", RELATED)
def test_every_relation_can_hold_and_fail(relation: str) -> None:
    holds, fails = RELATED[relation]
    assert related(holds, NAMES) == [True]
    assert related(fails, NAMES) == [False]


def test_a_relation_between_collections_has_a_part_for_each_value() -> None:
    assert related("by name/low >= bars", NAMES) == [False, True]
    assert related("rows rises", NAMES) == [True, False]
    assert related("by name/high/most > 5", NAMES) == [True]
    assert related("bars/first < bars/last", NAMES) == [True]
    assert related("empty/most < 1", NAMES) == [False]
    with pytest.raises(KeyError):
        find(NAMES, "two/three")
    with pytest.raises(ValueError, match="zip"):
        related("bars < up", NAMES)


def test_values_are_written_by_their_kind() -> None:
    assert fill("{two:+1 %} of {interval:0 ms}", NAMES) == "+2.0 % of 2 ± 1 ms"
    assert [write(value, "1") for value in (None, math.nan, [None, None, None])] == ["unstable", "-", "unstable"]
    assert write(()) == "none"


def exhibits(**statement: Any) -> Exhibits:
    row = {"where": "Fig. {two}", "statement": "s", "paper": "p", "why": "w", "quantity": "names"} | statement
    facts = {"statement": [row], "table": [], "shown": {"Fig. 2": "load"}, "drawn": "worlds"}
    return Exhibits(facts, {"names": lambda parts: parts["all"]})


def test_a_verdict_follows_from_the_parts_that_hold() -> None:
    cases = {("yes", "yes"): AGREES, ("yes", "no"): PARTLY, ("no", "no"): DIFFERS, (): UNTESTED}
    for holds, verdict in cases.items():
        for key, other in (("fitted", FITTED), ("in_part", PARTLY)):
            (plain,), (marked,) = (exhibits(holds=holds, **more).verdicts({"all": NAMES}) for more in ({}, {key: True}))
            assert (plain.verdict, plain.where, plain.shown) == (verdict, "Fig. 2", "load")
            assert marked.verdict == (other if verdict == AGREES else verdict)


def test_a_statement_of_drawn_data_must_surely_hold_on_most() -> None:
    good, bad = {"all": NAMES}, {"all": NAMES | {"two": 9.0}}
    for drawn, verdict in (([good] * 40, AGREES), ([good] * 36 + [bad] * 4, DIFFERS), ([good] * 2, DIFFERS)):
        parts = good | {"drawn": {str(n): one for n, one in enumerate(drawn)}}
        (found,) = exhibits(holds=["two < 3"], drawn=True, ours="{two}").verdicts(parts)
        assert found.verdict == verdict
        assert found.ours.startswith("in full on ")


def test_a_quantity_with_a_list_makes_a_statement_of_each() -> None:
    found = exhibits(holds=["two < 3"]).verdicts({"all": [NAMES, NAMES | {"two": 9.0}]})
    assert [(one.where, one.verdict) for one in found] == [("Fig. 2", AGREES), ("Fig. 9", DIFFERS)]


@pytest.mark.cpu(15, "a small study runs once for all tests of it")
@pytest.mark.parametrize("name", ["delen", "pame", "tetris", "ensemble"])
def test_a_small_run_is_judged_and_written(name: str) -> None:
    if name in ("tetris", "ensemble") and not find_spec("scipy"):
        pytest.skip("planning needs scipy")
    check_study(find_study(name), small_body(name))
