"""Every operator that is read is described once, and meets damage in the hostile tests."""

from __future__ import annotations

import click
import onnx
from onnx_mutations import OPERATORS as MUTATED

from fluidnpu import options
from fluidnpu.models.onnx.catalogue import REWRITTEN, TAKEN
from fluidnpu.models.onnx.reading.reader import OPERATORS
from fluidnpu.models.onnx.reading.refusals import REMEDIES
from fluidnpu.models.onnx.reading.walk import MOST_WEIGHTS
from fluidnpu.models.onnx.rewriting.quantised import HANDLERS


def test_every_operator_is_described_once_and_exists() -> None:
    assert sorted(TAKEN) == list(OPERATORS)
    assert sorted(REWRITTEN) == sorted(HANDLERS)
    assert not {*TAKEN, *REWRITTEN} & set(REMEDIES)
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert set(TAKEN) - known <= {"Swish"}  # newer than the oldest onnx that is supported
    assert set(REMEDIES) <= known


def test_every_operator_that_is_read_meets_damage_in_the_hostile_tests() -> None:
    assert set(OPERATORS) <= set(MUTATED)


def test_the_command_tells_its_limit_of_weights() -> None:
    command = click.command("any")(options.reading(lambda: None))
    told = next(one for one in command.params if isinstance(one, click.Option) and one.name == "most_weights")
    assert f"[default: {MOST_WEIGHTS}]" in str(told.help)
