"""Criteria on a device: the simulator's exits, a request's own, live changes, and over the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from host_worlds import PATIENCE_S, world
from host_worlds import traffic_of as traffic
from hypothesis import given, settings
from hypothesis import strategies as st
from oip_worlds import NAME, Served, served
from tritonclient import grpc as triton_grpc
from tritonclient.utils import InferenceServerException

import fluidnpu
from fluidnpu.host import Server, serve_requests
from fluidnpu.host.errors import DriverUsageError
from fluidnpu.host.serving import ModelOptions, ProtocolError
from fluidnpu.host.serving.model import Model
from fluidnpu.models import golden
from fluidnpu.models.exits.rule import confidence
from fluidnpu.scheduler import Request, World, make_policy, simulate
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.exits import LAST, Criteria, CriterionError, ExitProfile, RuledExits, Seen
from fluidnpu.scheduler.simulation import Terms

RATES = (0.5, 0.2, 0.3)
POLICIES = ("serial", "greedy", "adaptive:timeout=45%", "fluid", "fluid:anytime=20%")
TEXTS = (
    "confidence > [0.4, 0.35]",
    "response_time > 4us or confidence > 0.5",
    "next_response_time > 9us",
    "slack < 3us and not confidence < 0.2",
    "service_time >= 3us",
    "exit_number == 2",
    "macs > 1kMAC or slack < 0ns",
)


@settings(max_examples=25, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 3000), min_size=1, max_size=16),
    text=st.sampled_from(TEXTS),
    policy=st.sampled_from(POLICIES),
)
def test_a_device_and_the_simulator_let_the_same_samples_leave_for_the_same_clause(
    gaps: list[int], text: str, policy: str
) -> None:
    w = world(5, exits=3)
    requests = [Request(i, int(t), int(t) + 9000) for i, t in enumerate(np.cumsum(gaps))]
    images, profile = w.images(len(requests)), ExitProfile.of(w.design)
    served = serve_requests(
        requests, images, make_policy(policy), w.driver, exit_rates=RATES, rule=Criteria(profile, text)
    )
    logits = enumerate(golden.run(w.qnet, images))
    sure = np.stack([confidence(w.qnet.logits(i, stored)) for i, stored in logits]).T.tolist()
    exits = RuledExits(rule=Criteria(profile, text), confidences=dict(enumerate(sure)))
    believed = World(latency=w.design.latency, exits=exits, exit_rates=RATES, slots=w.driver.slots)
    simulated = simulate(requests, make_policy(policy), believed)
    served.schedule.check()
    assert served.schedule == simulated
    assert served.schedule.because == simulated.because
    assert all(served.schedule.because)


def test_each_request_may_bring_its_own_criterion_and_both_share_a_batch() -> None:
    w = world(3, exits=3, millis=True)
    images = w.images(2)
    with Server(w.driver, make_policy("greedy"), rule=Criteria(ExitProfile.of(w.design), "false")) as server:
        futures = [
            server.submit(images[0], Terms(slo_ns=10**9, criterion="exit_number == 1")),
            server.submit(images[1], Terms(slo_ns=10**9)),
            server.submit(images[0], Terms(slo_ns=10**9, criterion="confidence >= [0, 0]")),
        ]
        replies = [future.result(PATIENCE_S) for future in futures]
        with pytest.raises(CriterionError, match="at column 11"):
            server.submit(images[0], Terms(slo_ns=10**9, criterion="confidence"))
    assert [reply.exit for reply in replies] == [0, 2, 0]
    assert [reply.because for reply in replies] == ["exit_number == 1", LAST, "confidence >= [0, 0]"]


def test_a_change_holds_from_the_next_exit_on_for_requests_under_way() -> None:
    w = world(3, exits=3)
    criteria = Criteria(ExitProfile.of(w.design), "false")

    class Changes:
        """Changes the usual criterion after the first run, when its request is past the first exit."""

        name = "changes"

        def reset(self) -> None:
            self.inner = make_policy("serial")

        def decide(self, view: object) -> object:
            if view.waiting[1]:  # type: ignore[attr-defined]
                criteria.set("exit_number >= 2")
            return self.inner.decide(view)  # type: ignore[arg-type]

    served = serve_requests([Request(0, 0, 10**6)], w.images(1), Changes(), w.driver, rule=criteria)  # type: ignore[arg-type]
    assert [(one.exit, one.because) for one in served.answers] == [(1, "exit_number >= 2")]


def test_a_rule_of_ones_own_has_no_criteria() -> None:
    class Never:
        def leaves(self, seen: Seen) -> bool:
            return False

    w = world(3, exits=3, millis=True)
    with Server(w.driver, make_policy("greedy"), rule=Never()) as server:
        with pytest.raises(DriverUsageError, match="rule of one's own has no criteria"):
            server.submit(w.images(1)[0], Terms(slo_ns=10**9, criterion="false"))
        assert server.submit(w.images(1)[0], Terms(slo_ns=10**9)).result(PATIENCE_S).because == LAST


def test_the_thresholds_of_the_program_are_the_usual_criterion() -> None:
    w = world(3, exits=3)
    images, requests = w.images(20), traffic(w, 20)
    served = serve_requests(requests, images, make_policy("fluid"), w.driver, exit_rates=RATES)
    exits, _, _ = golden.early_exit(w.qnet, images)
    assert [reply.exit for reply in served.answers] == exits.tolist()
    limits = ", ".join(f"{limit!r}" for limit in w.program.thresholds[:2])
    assert {reply.because for reply in served.answers} <= {f"confidence > [{limits}]", LAST}


# -- over the network ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with served(folder, world(3, exits=3, loaded=False), decisions=folder / "decisions") as one:
        yield one


def test_rest_takes_criteria_and_says_why(s: Served) -> None:
    image = s.w.images(1)[0]
    body = s.request(image, parameters={"criteria": "exit_number == 1"})
    status, answer = s.call("POST", f"/v2/models/{NAME}/infer", body)
    assert status == 200
    assert answer["parameters"]["exit"] == 0
    assert answer["parameters"]["left_because"] == "exit_number == 1"
    with fluidnpu.connect(s.url) as npu:
        one = npu.infer(image, criteria="false")
        assert (one.exit, one.left_because) == (len(s.w.design.exits) - 1, LAST)


@pytest.mark.parametrize(
    ("criteria", "says"),
    [
        ("confidence >", "a share such as 0.7 or 70% at column 13"),
        ("energy > 1mJ", "must have a power model of the board"),
        (7, "must be a text of at most 4096 characters, not 7"),
        ("x" * 5000, "must be a text of at most 4096 characters"),
    ],
)
def test_rest_refuses_a_wrong_criterion_in_one_sentence(s: Served, criteria: object, says: str) -> None:
    body = s.request(s.w.images(1)[0], parameters={"criteria": criteria})
    status, answer = s.call("POST", f"/v2/models/{NAME}/infer", body)
    assert status == 400
    assert says in answer["error"]
    assert answer["type"] == "ProtocolError"


def test_grpc_takes_criteria_and_says_why(s: Served) -> None:
    images = s.w.images(2)
    made = triton_grpc.InferInput(s.input, images.shape, "UINT8")
    made.set_data_from_numpy(images)
    with triton_grpc.InferenceServerClient(s.grpc_place) as client:
        result = client.infer(NAME, [made], parameters={"criteria": "exit_number >= 2"})
        assert result.as_numpy("exit").tolist() == [1, 1]
        assert result.get_response().parameters["left_because"].string_param == "exit_number >= 2"
        with pytest.raises(InferenceServerException, match="at column 1"):
            client.infer(NAME, [made], parameters={"criteria": "sure > 0.5"})


def test_the_decision_log_says_why_and_replays(s: Served) -> None:
    with fluidnpu.connect(s.url) as npu:
        npu.infer(s.w.images(1)[0], criteria="exit_number == 1")
    folder = s.model.options.decisions
    assert folder is not None
    s.model.unload()
    lines = (folder / f"{NAME}.jsonl").read_text().splitlines()
    left = [text for line in lines for text in json.loads(line).get("left", {}).values()]
    assert "exit_number == 1" in left
    assert replay_live(lines).decisions > 0
    s.model.load()


def test_a_model_has_a_usual_criterion_of_its_own(tmp_path: Path) -> None:
    from oip_worlds import bundle_of

    w = world(3, exits=3, millis=True)
    folder = bundle_of(w, tmp_path / "small")
    model = Model("small", folder, ModelOptions(criteria="exit_number == 2"))
    model.load()
    try:
        assert model.submit(w.images(1)[0]).result(PATIENCE_S).because == "exit_number == 2"
        with pytest.raises(ProtocolError, match="column 1"):
            model.criterion("nonsense")
    finally:
        model.close()
    with pytest.raises(CriterionError, match="power model of the board"):
        Model("small", folder, ModelOptions(criteria="energy > 1mJ")).load()
