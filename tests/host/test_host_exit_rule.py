"""A rule decides exits on a device as in the simulator, and one of the user's own is one class."""

import numpy as np
import pytest
from host_worlds import HostWorld, Images, world
from host_worlds import traffic_of as traffic
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_criterion import Impatient

from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, Server, serve_requests
from fluidnpu.models import golden, quantise
from fluidnpu.models.exits import with_check, with_thresholds
from fluidnpu.models.exits.rule import confidence
from fluidnpu.models.graph import ExitCheck
from fluidnpu.scheduler import Request, Schedule, World, make_policy, simulate
from fluidnpu.scheduler.exits import ExitRule, RuledExits, Seen, StageCosts
from fluidnpu.scheduler.exits.rule import Threshold
from fluidnpu.scheduler.simulation import Terms

RATES = (0.5, 0.2, 0.3)
POLICIES = ("serial", "greedy", "adaptive:timeout=45%", "fluid")


def confidences(w: HostWorld, images: Images) -> dict[int, list[float]]:
    """Golden's confidence of each image at each exit."""
    table = np.stack([confidence(w.qnet.logits(i, stored)) for i, stored in enumerate(golden.run(w.qnet, images))])
    return dict(enumerate(table.T.tolist()))


def simulated(w: HostWorld, requests: list[Request], images: Images, rule: ExitRule, policy: str) -> Schedule:
    exits = RuledExits(rule=rule, confidences=confidences(w, images), costs=StageCosts.of(w.design))
    believed = World(latency=w.design.latency, exits=exits, exit_rates=RATES, slots=w.driver.slots)
    return simulate(requests, make_policy(policy), believed)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.3, 0.9, 2.0])
def test_a_rule_over_response_time_makes_the_same_schedule(policy: str, load: float) -> None:
    w = world(3, exits=3, slots=8)
    images, requests = w.images(60), traffic(w, 60, load)
    rule = Impatient(patience_ns=w.design.latency.between(0, 0, 1))
    served = serve_requests(requests, images, make_policy(policy), w.driver, exit_rates=RATES, rule=rule)
    served.schedule.check()
    assert served.schedule == simulated(w, requests, images, rule, policy)
    assert all(reply.exit == 2 or reply.latency_ns > rule.patience_ns for reply in served.answers)
    if (policy, load) == ("serial", 0.3):  # some come to an idle NPU, others wait for it
        assert len({reply.exit for reply in served.answers}) > 1


@settings(max_examples=30, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 3000), min_size=1, max_size=20),
    patience_ns=st.integers(0, 20_000),
    bar=st.sampled_from([0.0, 0.3, 1.0]),
    policy=st.sampled_from(POLICIES),
)
def test_a_toy_criterion_decides_alike_for_any_arrivals(
    gaps: list[int], patience_ns: int, bar: float, policy: str
) -> None:
    w = world(5, exits=3)
    requests = [Request(i, int(t), int(t) + 9000) for i, t in enumerate(np.cumsum(gaps))]
    images, rule = w.images(len(requests)), Impatient(patience_ns, bar)
    served = serve_requests(requests, images, make_policy(policy), w.driver, exit_rates=RATES, rule=rule)
    assert served.schedule == simulated(w, requests, images, rule, policy)


def test_the_default_rule_is_the_programs_thresholds() -> None:
    w = world(3, exits=3)
    images, requests = w.images(30), traffic(w, 30)
    rule = Threshold(w.program.thresholds)
    default = serve_requests(requests, images, make_policy("fluid"), w.driver, exit_rates=RATES)
    assert serve_requests(requests, images, make_policy("fluid"), w.driver, exit_rates=RATES, rule=rule) == default
    assert default.schedule == simulated(w, requests, images, rule, "fluid")
    table = np.array(list(confidences(w, images).values()))
    assert rule.exits(table).tolist() == [reply.exit for reply in default.answers]


class Recorder:
    """Notes the facts it is asked with and lets nobody leave early."""

    def __init__(self) -> None:
        self.asked: list[Seen] = []

    def leaves(self, seen: Seen) -> bool:
        self.asked.append(seen)
        return False


def test_a_rule_is_told_times_costs_and_confidence() -> None:
    w = world(3, exits=3)
    recorder, image = Recorder(), w.images(1)
    energy = StageCosts(macs=StageCosts.of(w.design).macs, energy_nj=(1.5, 2.0, 4.0))
    request = Request(0, 100, 10**6)
    serve_requests([request], image, make_policy("serial"), w.driver, rule=recorder, costs=energy)
    first, second = w.design.latency.between(0, 0, 1), w.design.latency.between(0, 1, 1)
    macs = np.cumsum(energy.macs).tolist()
    sure = confidences(w, image)[0]
    assert recorder.asked == [
        Seen(
            exit=exit,
            elapsed_ns=elapsed,
            slack_ns=10**6 - 100 - elapsed,
            confidence=sure[exit],
            macs=macs[exit],
            energy_nj=spent,
        )
        for exit, elapsed, spent in ((0, first, 1.5), (1, second, 3.5))
    ]  # the last exit is not asked
    assert sum(energy.macs) == sum(layer.macs for layer in w.design.layers)


def test_a_server_takes_a_rule() -> None:
    w = world(3, exits=3, millis=True)
    with Server(w.driver, make_policy("fluid"), rule=Impatient(patience_ns=-1)) as server:
        futures = [server.submit(image, Terms(slo_ns=10**9)) for image in w.images(6)]
    assert [future.result(0).exit for future in futures] == [0] * 6


@pytest.mark.parametrize("check", list(ExitCheck))
@pytest.mark.parametrize("policy", ["serial", "fluid"])
def test_the_check_of_a_model_decides_as_in_the_golden_model(check: ExitCheck, policy: str) -> None:
    w = world(3, exits=3)
    thresholds = [0.2, 0.3]
    network = with_thresholds(with_check(w.qnet.network, check), thresholds)
    qnet = quantise(network)
    driver = Driver(w.npu, compile_program(qnet, w.design), w.design)
    driver.load()
    images, requests = w.images(40), traffic(w, 40, load=2.0)
    exits, classes, sure = golden.early_exit(qnet, images)
    served = serve_requests(requests, images, make_policy(policy), driver, exit_rates=RATES)
    replies = sorted(served.answers, key=lambda reply: reply.request_id)
    assert [reply.exit for reply in replies] == exits.tolist()
    assert [reply.prediction for reply in replies] == classes.tolist()
    assert [reply.confidence for reply in replies] == pytest.approx(sure.tolist())  # softmax top-1 for any check
    assert driver.measure_exit_rates(list(images)) == tuple(float(np.mean(exits == index)) for index in range(3))
    if check is ExitCheck.AGREEMENT:
        assert 0 not in exits  # there is no exit before the first to agree with
