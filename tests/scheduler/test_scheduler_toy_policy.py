"""A policy of one's own is its file, its twin and one row of a table; no other file is touched."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from scheduling_worlds import ROWS
from toy_policy import Deepest

from fluidnpu.cli import main
from fluidnpu.dse import has_numba
from fluidnpu.scheduler import SchedulerError, Serving, compare, make_policy, simulate
from fluidnpu.scheduler.comparison import Source
from fluidnpu.scheduler.comparison.serving import world_of
from fluidnpu.scheduler.compiled.trace import serve_compiled
from fluidnpu.scheduler.policies import POLICY_FILES, REGISTRY

ROW = Serving.loads(json.dumps(ROWS[1]))


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


@pytest.mark.parametrize("text", ["deepest", "deepest:most=3", "deepest:most=2:anytime=20%:shed=1"])
def test_its_twin_makes_the_same_schedule(text: str) -> None:
    drawn = Source(rate_per_s=60, slo_ns=10**8, count=300).draw(ROW, 1)
    policy = make_policy(text)
    world = world_of(ROW, policy, drawn.exits)
    there = simulate(drawn.requests, policy, world)
    there.check()
    trace = serve_compiled(drawn.requests, policy, world)
    assert (trace is not None) == has_numba()
    if trace is not None:
        bare = [(at, dataclasses.replace(action, reason="")) for at, action in there.log]
        assert list(trace.schedule().log) == bare
        assert trace.end_ns.tolist() == list(there.end_ns)


def test_a_comparison_takes_it_through_engine_and_loop() -> None:
    usual = {"rate_per_s": 40.0, "slo_ns": 10**8, "requests": 300, "seeds": 2}
    engine, loop = (
        compare(ROW, ["deepest:most=2", "greedy"], **usual, compiled=compiled)  # type: ignore[arg-type]
        for compiled in (False, True)
    )
    assert engine.metrics == loop.metrics
    assert "deepest:most=2" in engine.table()


def test_without_the_row_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(POLICY_FILES, "deepest")
    with pytest.raises(SchedulerError, match="not 'deepest'"):
        make_policy("deepest")


def test_every_row_of_the_table_has_its_entry() -> None:
    assert all(REGISTRY[name].about for name in POLICY_FILES)
