"""The page of operators says what the reader does: its tables are the program's."""

from __future__ import annotations

import re
from pathlib import Path

import click
import onnx
import pytest
from onnx_mutations import OPERATORS as MUTATED

from fluidnpu import options
from fluidnpu.models.onnx.catalogue import REWRITTEN, TAKEN, tables, write_tables
from fluidnpu.models.onnx.reading.reader import OPERATORS
from fluidnpu.models.onnx.reading.refusals import REMEDIES
from fluidnpu.models.onnx.reading.walk import MOST_WEIGHTS
from fluidnpu.models.onnx.rewriting.quantised import HANDLERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "operators.md"


def test_the_page_has_the_tables_of_the_program() -> None:
    text = PAGE.read_text("utf-8")
    assert set(re.findall(r"<!-- generated: (\w+) -->", text)) == set(tables())
    assert text == write_tables(text), "python -m fluidnpu.models.onnx.catalogue docs/reference/operators.md"


def test_every_operator_is_described_once_and_exists() -> None:
    assert sorted(TAKEN) == list(OPERATORS)
    assert sorted(REWRITTEN) == sorted(HANDLERS)
    assert not {*TAKEN, *REWRITTEN} & set(REMEDIES)
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert set(TAKEN) - known <= {"Swish"}  # newer than the oldest onnx that is supported
    assert set(REMEDIES) <= known


def test_every_operator_that_is_read_meets_damage_in_the_hostile_tests() -> None:
    assert set(OPERATORS) <= set(MUTATED)


def test_the_limit_of_weights_is_the_same_in_page_and_command() -> None:
    assert f"{MOST_WEIGHTS:,}" in PAGE.read_text("utf-8")
    command = click.command("any")(options.reading(lambda: None))
    told = next(one for one in command.params if isinstance(one, click.Option) and one.name == "most_weights")
    assert f"[default: {MOST_WEIGHTS}]" in str(told.help)


@pytest.mark.parametrize("name", ["ReduceMean", "Split"])
def test_descriptions_are_short(name: str) -> None:
    assert all(len(text) < 130 for text in TAKEN[name])
