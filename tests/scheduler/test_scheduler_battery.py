"""Energy budgets: never more than the budget, the battery and one run; criteria follow what may be spent."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenant_worlds import MS, equal_shares, merged, poisson_ns

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, SchedulerError, Serving, World, simulate
from fluidnpu.scheduler.comparison import compare_tenants
from fluidnpu.scheduler.exits import PowerModel, Recorded
from fluidnpu.scheduler.tenants import Shared, parse_tenants
from fluidnpu.scheduler.tenants.battery import Charge, PowerBudget

POWER = PowerModel(idle_w=4.0, active_w=10.0)
TABLE = LatencyTable(ns=((10 * MS, 12 * MS), (10 * MS, 12 * MS), (10 * MS, 12 * MS)))
RUN_J = 6.0 * 12e-3  # above the idle power, the longest run


@given(
    st.lists(st.integers(0, 30 * MS), min_size=1, max_size=40),
    st.floats(1.05, 3.0),
    st.floats(0.01, 1.0),
    st.sampled_from(["serial", "greedy", "fluid"]),
)
def test_no_more_is_ever_spent_than_budget_battery_and_one_run(
    gaps: list[int], over_idle: float, battery_j: float, inner: str
) -> None:
    now, requests = 0, []
    for index, gap in enumerate(gaps):
        now += gap
        requests.append(Request(index, now, now + 10**9, "ab"[index % 2]))
    tenancy = dataclasses.replace(equal_shares("a", "b"), energy=PowerBudget(over_idle=over_idle, battery_j=battery_j))
    policy = Shared(tenancy, inner, power=POWER)
    world = World(latency=TABLE, exits=[2] * len(requests), exit_rates=(0, 0, 1), slots=6)
    done = simulate(requests, policy, world)
    done.check()
    spent_j = 0.0
    for run in done.runs:
        if run.start_ns >= now:
            break  # nothing comes any more, so nobody may wait
        spent_j += 6.0e-9 * (run.end_ns - run.start_ns)
        allowed_j = battery_j + (over_idle - 1) * POWER.idle_w * run.start_ns * 1e-9
        assert spent_j <= allowed_j + RUN_J + 1e-9
    assert policy.charge is not None
    assert policy.charge.spent_nj == pytest.approx(6.0 * sum(run.end_ns - run.start_ns for run in done.runs))


def test_a_run_begins_as_soon_as_the_battery_holds_something() -> None:
    """Nothing is refused that could be spent: with energy to spare there is no wait at all."""
    requests = [Request(i, i * 10 * MS, 10**10, "a") for i in range(20)]
    world = World(latency=TABLE, exits=[0] * 20, exit_rates=(1, 0, 0), slots=4)
    plenty = dataclasses.replace(equal_shares("a"), energy=PowerBudget(over_idle=10, battery_j=1))
    free = simulate(requests, Shared(equal_shares("a"), "greedy"), world)
    assert simulate(requests, Shared(plenty, "greedy", power=POWER), world).end_ns == free.end_ns
    # 2 W above idle and 60 mJ a run: a run in 30 ms, once the battery's 60 mJ are gone.
    scarce = dataclasses.replace(equal_shares("a"), energy=PowerBudget(over_idle=1.5, battery_j=0.06))
    starts = simulate(requests, Shared(scarce, "serial", power=POWER), world).start_ns
    assert starts[:3] == (0, 10 * MS, 30 * MS + 1)  # the third waits until what the second owes is made up for
    assert all(abs(b - a - 30 * MS) <= 1 for a, b in itertools.pairwise(starts[2:7]))  # those before the last arrival
    charge = Charge(PowerBudget(over_idle=1.5, battery_j=0.06), POWER)
    assert charge.share(100 * MS) == pytest.approx(1 / 3 + 0.1)
    charge.spend(10 * MS)
    assert charge.share(100 * MS) == pytest.approx(1 / 3)


def test_an_idle_hour_saves_no_more_than_the_battery_holds() -> None:
    charge = Charge(PowerBudget(over_idle=1.5, battery_j=0.06), POWER)
    charge.spend(5 * MS)
    charge.refill(3600 * 10**9)
    assert charge.level_nj == pytest.approx(0.06e9)
    charge.refill(1)  # a clock that goes back adds nothing
    charge.spend(20 * MS)
    assert charge.ready_ns() == pytest.approx(30 * MS, abs=1)


FILE = """
interval = "200ms"
[energy]
over_idle = 1.5
battery = "500mJ"
[tenant.a]
share = 1
rate = 40
slo = "1s"
mode = "{mode}"
"""


def test_criteria_follow_the_budget_and_the_curve_is_over_idle_power() -> None:
    """Less energy, earlier exits: a front gives up accuracy, a fixed criterion gives up time."""
    sure = [[0.9, 0.95, 1.0], [0.2, 0.6, 1.0], [0.7, 0.8, 1.0], [0.4, 0.5, 0.9]] * 50
    right = [[1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1]] * 50
    data, serving = Recorded(confidences=sure, correct=right), Serving(latency=TABLE, exit_rates=(0.3, 0.3, 0.4))

    def served(mode: str, over_idle: float) -> dict[str, float]:
        tenancy = parse_tenants(FILE.format(mode=mode))
        assert tenancy.energy is not None
        tenancy = dataclasses.replace(tenancy, energy=dataclasses.replace(tenancy.energy, over_idle=over_idle))
        found = compare_tenants(serving, tenancy, requests=600, seeds=2, recorded=data, power=POWER)
        assert found.power_over_idle is not None
        return {"spent": found.power_over_idle.mean, **found.over_all()}

    curve = [served("pareto", over_idle) for over_idle in (1.6, 1.9, 2.5)]
    assert [row["spent"] for row in curve] == sorted(row["spent"] for row in curve)
    assert curve[0]["accuracy_pct"] < curve[2]["accuracy_pct"]
    for row, most in zip(curve, (1.6, 1.9, 2.5), strict=True):
        assert row["spent"] <= most + 0.02  # the battery, over fifteen seconds
    assert served("fixed", 1.6)["p99_ms"] > 5 * curve[0]["p99_ms"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("over_idle = 1.0\nbattery = '1J'", "must be above the idle power, 1, not 1 times it"),
        ("over_idle = '1.2'\nbattery = '1J'", "over_idle must be a number such as 1.3"),
        ("over_idle = 1.2\nbattery = '1h'", r"battery must be a number with a unit \(mJ or J\), not '1h'"),
        ("over_idle = 1.2\nbattery = '0J'", "must hold more than nothing"),
        ("over_idle = 1.2", "must have over_idle and battery"),
        ("over_idle = 1.2\nbattery = '1J'\nhours = 3", "must have over_idle and battery"),
    ],
)
def test_wrong_budgets_are_one_sentence(text: str, says: str) -> None:
    with pytest.raises(SchedulerError, match=says):
        parse_tenants(f"[energy]\n{text}\n[tenant.a]\nshare = 1")


def test_a_budget_needs_a_board_whose_power_is_known() -> None:
    tenancy = parse_tenants(FILE.format(mode="fixed"))
    with pytest.raises(SchedulerError, match="must have a power model of the board"):
        Shared(tenancy, "greedy")
    with pytest.raises(SchedulerError, match="idle watts above 0 and more at work, not 5 and 5 W"):
        Shared(tenancy, "greedy", power=PowerModel(idle_w=5, active_w=5))


def test_merged_streams_keep_their_shares_of_what_the_budget_leaves() -> None:
    """A budget of a third of the NPU's time is divided as the shares say."""
    requests = merged({"a": poisson_ns(200, 5, 1), "b": poisson_ns(200, 5, 2)}, slo_ns=10**11)
    tenancy = dataclasses.replace(equal_shares("a", "b"), energy=PowerBudget(over_idle=1.5, battery_j=0.1))
    policy = Shared(tenancy, "greedy", power=POWER)
    simulate(requests, policy, World(latency=TABLE, exits=[2] * len(requests), exit_rates=(0, 0, 1), slots=6))
    paid = {name: policy.accounts.paid_ns[name] + policy.accounts.lent_ns[name] for name in "ab"}
    assert paid["a"] == pytest.approx(paid["b"], rel=0.05)
