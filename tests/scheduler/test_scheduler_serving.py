"""A schedule is that of the hardware, the layers and the truth it is served with."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scheduling_worlds import ROWS

from fluidnpu.dse import DesignError
from fluidnpu.dse.testing import tiny_design
from fluidnpu.scheduler import SchedulerError, Serving, compare, make_policy
from fluidnpu.scheduler.comparison import Source, Truth, serve_stream
from fluidnpu.scheduler.simulation import halve_early_exits

ROW = Serving.loads(json.dumps(ROWS[1]), "row 1")
USUAL: dict[str, Any] = {"rate_per_s": 40, "slo_ns": 100_000_000, "requests": 600, "seeds": 2}


def test_lazy_runs_by_layers_also_when_it_sheds_and_cannot_answer_between_them() -> None:
    kept, shedding = compare(ROW, ["lazy:layers=56", "lazy:layers=56:shed=1"], **USUAL).metrics.values()
    assert len(kept[0].stage_batches) == len(shedding[0].stage_batches) == 56
    assert shedding[0].shed_pct > 0
    with pytest.raises(SchedulerError, match="anytime does not fit"):
        compare(ROW, ["lazy:anytime=3%"], **USUAL)
    with pytest.raises(SchedulerError, match="anytime does not fit"):
        compare(ROW, ["lazy:anytime=3%:shed=1"], **USUAL)


def test_a_design_is_served_with_its_macs() -> None:
    body = compare(
        Serving.of(tiny_design(), (0.5, 0.5)), ["greedy"], rate_per_s=10**6, slo_ns=10**5, requests=200, seeds=1
    ).to_dict()
    assert body["policies"]["greedy"]["busy_mac_efficiency_pct"]["mean"] > 0
    with pytest.raises(SchedulerError, match="no exit rates"):
        compare(tiny_design(), ["greedy"], rate_per_s=5, slo_ns=5)


def test_a_design_file_is_read_and_a_changed_one_refused() -> None:
    text = tiny_design().dumps()
    with pytest.raises(SchedulerError, match="no exit rates"):
        Serving.loads(text)
    with pytest.raises(DesignError, match="changed by hand"):
        Serving.loads(text.replace('"t_r": 64', '"t_r": 32'))


def test_truth_may_differ_from_belief() -> None:
    truth = Truth(exit_rates=halve_early_exits(ROW.exit_rates))
    drawn = Source(rate_per_s=40, slo_ns=10**8, count=4000, truth=truth).draw(ROW, 0)
    assert np.mean(np.array(drawn.exits) == 3) > 0.8
    fast, slow = (
        serve_stream(ROW, make_policy("serial"), drawn.requests, drawn.exits, Truth(latency_factor=f))
        for f in (0.9, 1.0)
    )
    assert fast.runs[0].end_ns - fast.runs[0].start_ns == round(0.9 * (slow.runs[0].end_ns - slow.runs[0].start_ns))


def test_lazy_is_served_layer_by_layer_and_pays_for_it() -> None:
    drawn = Source(rate_per_s=30, slo_ns=10**8, count=200).draw(ROW, 0)
    free, paid = (
        serve_stream(ROW, make_policy(f"lazy:layers=8:cost={c}"), drawn.requests, drawn.exits) for c in ("0", "1ms")
    )
    assert free.stages == 8
    assert set(free.exit) <= {1, 3, 5, 7}
    assert sum(paid.end_ns) > sum(free.end_ns)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "must be a design or hold latency_ns and exit_rates"),
        ('{"latency_ns": [[1]], "exit_rates": [0.5]}', "sum to 1"),
        ('{"latency_ns": [1], "exit_rates": [1]}', "rows of numbers"),
        ('{"latency_ns": [[1, 2], [3]], "exit_rates": [0.5, 0.5]}', "must have 2 batch sizes"),
        ('{"latency_ns": [[1, -2]], "exit_rates": [1]}', "above zero"),
    ],
)
def test_inconsistent_tables_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Serving.loads(text)
