"""Credit contains the optimum, decides cheaply, and refuses bad settings in sentences."""

from __future__ import annotations

import dataclasses

import pytest
from scheduling_worlds import ROWS, lines_run, serve_row, setting_of

from fluidnpu.scheduler import SchedulerError, make_policy
from fluidnpu.scheduler.policies import Credit, Weights
from fluidnpu.scheduler.policies.optimal import Optimal
from fluidnpu.scheduler.policies.weights import KNOTS, read_weights

FLAT = Weights(v=((0.0,) * len(KNOTS),) * 4, done=(0.0,) * len(KNOTS), on_time=0.0)


def test_credit_without_credit_is_the_optimum() -> None:
    setting = setting_of(ROWS[2])
    plain, flat = (serve_row(ROWS[2], p, count=800) for p in (Optimal(setting), Credit(setting, FLAT)))
    assert plain.end_ns == flat.end_ns


@pytest.mark.parametrize("spec", ["optimal", "credit"])
def test_a_table_driven_decision_is_cheap(spec: str) -> None:
    """The benchmark prints the cost (goal: 20 us); here, of 80 or 190 lines, a change of order fails."""
    serve_row(ROWS[0], spec, count=10)  # solves
    decisions = serve_row(ROWS[0], spec, count=1000).decisions
    assert lines_run(lambda: serve_row(ROWS[0], spec, count=1000)) / decisions < 600


def test_bad_settings_and_weights_are_one_sentence() -> None:
    setting = setting_of(ROWS[0])
    with pytest.raises(SchedulerError, match="rate must be above zero"):
        dataclasses.replace(setting, rate_per_s=0)
    with pytest.raises(SchedulerError, match="objective must be above zero"):
        dataclasses.replace(setting, slo_ns=-1)
    with pytest.raises(SchedulerError, match="knots"):
        Weights(v=((0.0,),), done=(0.0,), on_time=0.0)
    with pytest.raises(SchedulerError, match="tune them again"):
        read_weights({"knots": [0]}, "x.json")
    with pytest.raises(SchedulerError, match="for 4 stages, not 1"):
        Credit(setting, dataclasses.replace(FLAT, v=FLAT.v[:1]))
    with pytest.raises(SchedulerError, match="needs both"):
        make_policy("credit")
    with pytest.raises(SchedulerError, match="patience must lie above 0"):
        make_policy("credit:patience=0", setting)
    with pytest.raises(SchedulerError, match="dial=1 only"):
        make_policy("credit:robust=1:dial=2", setting)
    with pytest.raises(SchedulerError, match="dial must lie between 0"):
        make_policy("credit:dial=3", setting)
    with pytest.raises(SchedulerError, match="share of anytime answers"):
        make_policy("fluid:anytime=200%")
    with pytest.raises(SchedulerError, match="shed must be 0 or 1"):
        make_policy("fluid:shed=yes")
    with pytest.raises(SchedulerError, match="given once, and 'fluid:drain=1:drain=0' gives 'drain' again"):
        make_policy("fluid:drain=1:drain=0", setting)
