"""`--json`: each command has its section of docs/reference/json.md, and rounding loses only digits.

That every field printed has a row there is held by conftest.py, in every test of this folder.
"""

import json
import math
from importlib import import_module
from typing import Any

import json_page
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.cli import COMMANDS
from fluidnpu.quantities import round_floats, significant


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_with_json_has_a_section(name: str) -> None:
    command = import_module(f"fluidnpu.commands.{COMMANDS[name]}").command
    every = getattr(command, "commands", {"": command}).values()
    with_json = any("--json" in option.opts for each in every for option in each.params)
    assert with_json == (name in json_page.read_page()), (
        "docs/reference/json.md must have a section of each command with --json"
    )


def test_a_field_without_a_row_is_found() -> None:
    fields = {"exits[].threshold", "unit.uses.NAME"}
    assert json_page.unknown({"exits": [{"threshold": 1}], "unit": {"uses": {"relu": 2}}}, fields) == []
    assert json_page.unknown({"exits": [], "unit": None}, fields) == []
    assert json_page.unknown({"exits": [{"treshold": 1}], "unit": 2}, fields) == ["exits[].treshold", "unit"]


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
FIELD = st.sampled_from(["frames_per_second", "busy_pct", "threshold", "mean", "x"])
JSON = st.dictionaries(FIELD, LEAF | st.lists(LEAF, max_size=3) | st.dictionaries(FIELD, LEAF, max_size=3), max_size=4)


@given(JSON)
def test_rounding_keeps_all_but_the_last_digits(value: Any) -> None:
    once = round_floats(value)
    assert round_floats(once) == once
    for (path, _), (same, _) in zip(json_page.paths(value), json_page.paths(once), strict=True):
        assert path == same
    json.dumps(once, allow_nan=False)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 9))
def test_a_number_moves_by_half_a_digit_at_most(value: float, digits: int) -> None:
    near = significant(value, digits)
    assert near is not None
    if value and math.isfinite(near):
        assert (
            abs(near - value) <= 0.500001 * 10 ** (math.floor(math.log10(abs(value))) - digits + 1)
            or abs(value) < 1e-300
        )


def test_the_content_of_a_file_is_not_rounded() -> None:
    plan = {"schema": 1, "digest": "0", "rate_per_s": 1 / 3}
    assert round_floats({"plan": plan, "value": 1 / 3}) == {"plan": plan, "value": 0.333333}
