"""A policy of one's own is its file and one row of a table; no other file is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from scheduling_worlds import ROWS
from toy_policy import Deepest

from fluidnpu.cli import main
from fluidnpu.scheduler import SchedulerError, make_policy
from fluidnpu.scheduler.policies import POLICY_FILES, REGISTRY


@pytest.fixture(autouse=True)
def row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICY_FILES, "deepest", "toy_policy")


def test_its_name_and_parameters_are_those_of_its_file() -> None:
    assert make_policy("deepest:most=2") == Deepest(most=2, name="deepest:most=2")
    assert REGISTRY["deepest"].about == "the samples furthest on first"
    with pytest.raises(SchedulerError, match="among: anytime, drain, most, shed; not 'least=2'"):
        make_policy("deepest:least=2")
    with pytest.raises(SchedulerError, match="most must be at most 3, not 4"):
        make_policy("deepest:most=4")
    with pytest.raises(SchedulerError, match=r"policy must be one of adaptive, .*, deepest, fluid"):
        make_policy("lifo")


def test_the_console_command_serves_it(tmp_path: Path) -> None:
    words = ["simulate", "--policy", "deepest:most=2,serial", "--rate", "20", "--slo", "100ms", "--requests", "60"]
    table = tmp_path / "row.json"
    table.write_text(json.dumps(ROWS[1]))
    done = CliRunner().invoke(main, [*words, "--seeds", "1", str(table), "--json"])
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["policies"]) == {"deepest:most=2", "serial"}


def test_without_the_row_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(POLICY_FILES, "deepest")
    with pytest.raises(SchedulerError, match="not 'deepest'"):
        make_policy("deepest")


def test_every_row_of_the_table_has_its_entry() -> None:
    assert all(REGISTRY[name].about for name in POLICY_FILES)
