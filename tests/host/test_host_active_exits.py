"""Active exits changed while serving: one answer each, the simulator's schedule, the offline answers of a
set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from host_worlds import HostWorld, Images, network, world
from host_worlds import traffic_of as traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, Reply, serve_requests
from fluidnpu.host.serving import active_exits, criteria_of
from fluidnpu.models import Network, golden, quantise
from fluidnpu.models.exits.rule import confidence
from fluidnpu.models.graph import ExitCheck
from fluidnpu.scheduler import Request, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.exits import Criteria, ExitProfile, RuledExits
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet, InForce

EXITS = 4
RATES = (0.3, 0.2, 0.1, 0.4)
SEED = 12  # a network whose every exit is of many minds
MEDIANS = network(SEED, EXITS).network.thresholds
SETS = st.tuples(*[st.sampled_from([None, value, 0.9 * value]) for value in MEDIANS[: EXITS - 1]]).map(ExitSet)


@dataclass
class Scripted:
    """Change the exits after given runs, and let every third leaver run on while it is told to."""

    active: ActiveExits
    script: dict[int, ExitSet]
    shadows: bool = False
    runs: int = 0
    began: dict[int, int] = field(default_factory=dict)  # by request: the state of its first run
    whole: dict[int, bool] = field(default_factory=dict)  # by request: one state from its first run to its last
    ended: list[int] = field(default_factory=list)

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None,
    ) -> frozenset[int]:
        self.runs += 1
        for request in requests:
            self.began.setdefault(request.id, force.number)
            self.whole[request.id] = self.whole.get(request.id, True) and self.began[request.id] == force.number
        if self.runs in self.script:
            self.active.change(self.script[self.runs], f"after run {self.runs}")
        leavers = [r.id for r, reason in zip(requests, reasons, strict=True) if reason]
        return frozenset(id for id in leavers if self.shadows and id % 3 == 0)

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        self.ended.append(request_id)

    def gone(self, request_id: int) -> None:
        pass


def active_of(w: HostWorld, exits: ExitSet) -> tuple[ActiveExits, Criteria]:
    criteria = criteria_of(w.driver, None)
    return active_exits(w.driver, criteria, exits, RATES), criteria


def offline(w: HostWorld, images: Images, exits: ExitSet) -> tuple[list[int], list[int]]:
    """Exits and classes of the golden model with the set's thresholds."""
    thresholds = [1.0 if value is None else value for value in exits.thresholds]
    early = [replace(one, threshold=t) for one, t in zip(w.qnet.network.exits, [*thresholds, None], strict=True)]
    found, classes, _ = golden.early_exit(quantise(replace(w.qnet.network, exits=tuple(early))), images)
    return found.tolist(), classes.tolist()


def needed_by(network: Network, tensors: Sequence[str | None]) -> set[int]:
    """Return the layers that some tensors depend on, by the names of the graph."""
    wanted, found = set(tensors), set[int]()
    for index in range(len(network.layers) - 1, -1, -1):
        layer = network.layers[index]
        if layer.output in wanted:
            found.add(index)
            wanted |= {layer.input, layer.residual}
    return found


def test_a_segment_ends_where_the_head_begins() -> None:
    for seed in range(6):
        w = world(seed, exits=EXITS, loaded=False)
        network = w.qnet.network
        for stage in range(EXITS):
            later = [one.logits for one in network.exits[stage + 1 :]]
            needed = needed_by(network, later)
            inside = [i for i, layer in enumerate(network.layers) if layer.stage == stage]
            wanted = max((i for i in inside if i in needed), default=inside[0] - 1)
            assert w.program.segments[stage] == (wanted if later else inside[-1])


@settings(max_examples=20, deadline=None)
@given(
    first=SETS,
    script=st.dictionaries(st.integers(1, 25), SETS, max_size=5),
    gaps=st.lists(st.integers(0, 2500), min_size=1, max_size=24),
    policy=st.sampled_from(["serial", "greedy", "fluid", "fluid:anytime=50%"]),
    shadows=st.booleans(),
)
def test_one_answer_each_and_the_simulators_schedule_under_any_changes(
    first: ExitSet, script: dict[int, ExitSet], gaps: list[int], policy: str, shadows: bool
) -> None:
    w = world(SEED, exits=EXITS, slots=8)
    requests = [Request(i, int(t), int(t) + 6000) for i, t in enumerate(np.cumsum(gaps))]
    images = w.images(len(requests))
    active, criteria = active_of(w, first)
    watch = Scripted(active, script, shadows)
    served = serve_requests(
        requests, images, make_policy(policy), w.driver, exit_rates=RATES, rule=criteria, active=active, watch=watch
    )
    served.schedule.check()
    replies = [reply for reply in served.replies if isinstance(reply, Reply)]
    assert [reply.request_id for reply in replies] == [request.id for request in requests]
    assert sorted(watch.ended) == list(served.schedule.shadows)

    logits = enumerate(golden.run(w.qnet, images))
    values = [w.qnet.logits(i, stored) for i, stored in logits]
    sure = np.stack([confidence(one) for one in values]).T.tolist()
    table, rule = active_of(w, first)
    again = Scripted(table, script, shadows)
    exits = RuledExits(rule=rule, confidences=dict(enumerate(sure)))
    told = World(
        latency=table.now.latency, exits=exits, exit_rates=RATES, slots=w.driver.slots, active=table, watch=again
    )
    simulated = simulate(requests, make_policy(policy), told)
    simulated.check()
    assert served.schedule == simulated
    assert served.schedule.because == simulated.because
    assert (watch.began, watch.whole, watch.ended) == (again.began, again.whole, again.ended)

    states = {0: first}
    for number, run in enumerate(sorted(run for run in script if run <= watch.runs), 1):
        states[number] = script[run]
    classes = np.stack([one.argmax(-1) for one in values]).T
    answers = {number: offline(w, images, states[number]) for number in set(watch.began.values())}
    for reply in replies:
        assert reply.prediction == classes[reply.request_id][reply.exit]  # whatever happened, an answer of that exit
        if watch.whole[reply.request_id] and reply.outcome == 0:
            exits_then, classes_then = answers[watch.began[reply.request_id]]
            assert reply.exit == exits_then[reply.request_id]
            assert reply.prediction == classes_then[reply.request_id]


def test_an_inactive_exit_costs_nothing_and_answers_nobody() -> None:
    w = world(SEED, exits=EXITS)
    requests, images = traffic(w, 30), w.images(30)
    active, criteria = active_of(w, ExitSet((None, None, None)))
    served = serve_requests(
        requests, images, make_policy("serial"), w.driver, exit_rates=RATES, rule=criteria, active=active
    )
    assert {answer.exit for answer in served.answers} == {EXITS - 1}
    alone = active.times.single_ns(1)
    assert alone < w.design.latency.between(0, EXITS - 1, 1)
    cycle_ns = 1e9 / w.design.clock_hz
    assert all(0 <= alone - answer.npu_ns < EXITS * cycle_ns for answer in served.answers)


def test_the_exit_before_is_the_last_active_one() -> None:
    """Agreement looks at the class of the exit before: an inactive one has named none."""
    w = world(6, exits=EXITS, loaded=False)
    program = compile_program(quantise(replace(w.qnet.network, check=ExitCheck.AGREEMENT)), w.design)
    driver = Driver(w.npu, program, w.design)
    driver.load()
    requests, images = traffic(w, 40), w.images(40)
    criteria = criteria_of(driver, None)
    active = active_exits(driver, criteria, ExitSet((0.2, None, 0.2)), RATES)
    served = serve_requests(
        requests, images, make_policy("greedy"), driver, exit_rates=RATES, rule=criteria, active=active
    )
    values = [w.qnet.logits(i, stored) for i, stored in enumerate(golden.run(w.qnet, images))]
    agrees = (values[0].argmax(-1) == values[2].argmax(-1)) & (confidence(values[2]) > 0.2)
    assert [answer.exit for answer in served.answers] == np.where(agrees, 2, 3).tolist()
    assert 0 < agrees.sum() < 40
    assert (agrees != (values[1].argmax(-1) == values[2].argmax(-1))).any()


def test_a_set_of_another_network_is_refused_and_changes_nothing() -> None:
    w = world(SEED, exits=EXITS)
    active, criteria = active_of(w, ExitSet((0.5, None, None)))
    with pytest.raises(SchedulerError, match="must name 3 early exits, not 1"):
        active.change(ExitSet((0.5,)), "wrong")
    with pytest.raises(SchedulerError, match=r"threshold of exit 2 must lie in 0\.\.1"):
        ExitSet((0.5, 1.5, None))
    assert active.adopt() is None
    assert criteria.usual.text == "confidence > [0.5, 1, 1]"
    assert ExitProfile.of(w.design).exits == EXITS
