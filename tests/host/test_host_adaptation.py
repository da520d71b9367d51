"""Adaptation through the server: drift over HTTP, labels fed back, changes logged and replayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from host_worlds import PATIENCE_S, HostWorld, world
from oip_worlds import NAME, bundle_of, served

import fluidnpu
from fluidnpu.host import DriverUsageError, VirtualClock
from fluidnpu.host.serving import ModelOptions, ProtocolError
from fluidnpu.host.serving.model import Model
from fluidnpu.models import ImageSet
from fluidnpu.models.numeric import record_classes
from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.tuning import AdaptationPlan, Goal, Watching

EXITS = 4
SEED = 12  # a network whose every exit is of many minds
SURFACES: dict[str, Any] = {"surfaces": {"admin": 0, "admin_grpc": 0}}


def plan_of(w: HostWorld, images: Any, share: float = 0.6) -> AdaptationPlan:
    """A plan on what the world's network answers: the last exit is right, and `share` leave at the first."""
    confidence, classes = record_classes(w.qnet, ImageSet(images=images, labels=np.zeros(len(images), np.int64)))
    return AdaptationPlan(
        names=tuple(exit.name for exit in w.program.exits[:-1]),
        goal=Goal(eta=0.5, batch=w.design.b_max, late=0.3),
        chain=((0, float(np.quantile(confidence[:, 0], 1 - share))),),
        confidence=confidence,
        classes=classes,
        truths=classes[:, -1],
        reference=np.ones(len(images), bool),
    )


def test_a_drift_over_http_is_noticed_within_a_hundred_requests(tmp_path: Path) -> None:
    w = world(SEED, exits=EXITS, loaded=False)
    pool = w.images(400)
    plan = plan_of(w, pool)
    hard = pool[plan.confidence[:, 0] < np.quantile(plan.confidence[:, 0], 0.6)]  # two of three leave no more
    options: dict[str, Any] = {"adapt": plan, "watching": Watching(distance=2000, evidence=20, shadow=1.0)}
    options["clock"] = VirtualClock  # on the wall clock of a busy machine batches are late, which alarms, too
    with (
        served(tmp_path, w, decisions=tmp_path, **options, **SURFACES) as s,
        fluidnpu.connect(s.url) as npu,
        fluidnpu.connect(s.server.url("admin"), NAME) as admin,
    ):
        rows, known = np.random.default_rng(0).integers(len(pool), size=150), {}
        for row in rows:
            answer = npu.infer(pool[row])
            expected = 0 if plan.confidence[row, 0] > plan.chain[0][1] else EXITS - 1
            assert (answer.exit, answer.prediction) == (expected, plan.classes[row, expected])  # the offline answer
            (number,) = answer.requests
            known[number] = int(plan.truths[row])
        assert admin.exits()["adaptation"]["alarms"] == 0
        assert npu.feedback(known) == 150
        assert npu.feedback(known) == 0
        for count in range(100):
            npu.infer(hard[count % len(hard)])
            if admin.exits()["adaptation"]["alarms"]:
                break
        said = admin.exits()
        assert said["adaptation"]["alarms"] == 1, said
        (event,) = said["adaptation"]["events"]
        assert event["kind"] == "alarm"
        assert event["requests"] - 150 <= 100
        assert "fewer leave at exit 1" in event["why"]
        for image in pool[:80]:
            npu.infer(image)
        assert admin.exits()["adaptation"]["shadows"] >= 20  # the leavers ran on, and were judged
        assert npu.statistics()["inference_count"] == 150 + count + 1 + 80
        changed = admin.change_exits({w.program.exits[1].name: 0.0}, "a test")
        assert changed["exits"][1]["active"] is True
        before = npu.infer(pool[0])
        text = s.exchange("GET", "/metrics")[1].decode()
        assert 'fluidnpu_exit_threshold{exit="1",model="small"} 0.0' in text
        assert 'fluidnpu_adapt_events_total{kind="alarm",model="small"} 1.0' in text
        assert before.exit <= 1
    lines = (tmp_path / f"{NAME}.jsonl").read_text().splitlines()
    assert any("a test" in line and "latency_ns" in json.loads(line) for line in lines)
    assert any('"shadows"' in line for line in lines)
    relived = replay_live(lines)
    assert relived.asked == relived.decisions > 0


def test_exits_change_by_hand_where_nothing_adapts_over_rest_and_grpc(tmp_path: Path) -> None:
    w = world(SEED, exits=EXITS, loaded=False)
    images = w.images(12)
    names = [exit.name for exit in w.program.exits]
    with served(tmp_path, w, **SURFACES) as s, fluidnpu.connect(s.url) as npu:
        channel = grpc.insecure_channel(s.server.url("admin_grpc").removeprefix("grpc://"))

        def call(method: str, **asked: Any) -> Any:
            body = json.dumps({"model": NAME, **asked}).encode()
            return json.loads(channel.unary_unary(f"/fluidnpu.Exits/{method}")(body, timeout=PATIENCE_S))

        assert [row["name"] for row in call("Exits")["exits"]] == names[:-1]
        call("ChangeExits", thresholds=dict.fromkeys(names[:-1]), why="none of them")
        assert {npu.infer(image).exit for image in images} == {EXITS - 1}
        call("ChangeExits", thresholds={names[2]: 0.0})
        assert {npu.infer(image).exit for image in images} == {2}
        with pytest.raises(grpc.RpcError, match="must adapt to take labels"):
            call("Feedback", truths=[{"request": 1, "label": 2}])
        with pytest.raises(grpc.RpcError, match="model must be the name of a model"):
            channel.unary_unary("/fluidnpu.Exits/Exits")(b"{}", timeout=PATIENCE_S)
        open_channel = grpc.insecure_channel(s.grpc_place.removeprefix("grpc://"))
        with pytest.raises(grpc.RpcError, match="on the admin surface"):
            open_channel.unary_unary("/fluidnpu.Exits/Exits")(b'{"model": "small"}', timeout=PATIENCE_S)
        open_channel.close()
        channel.close()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"thresholds": {"nobody": 0.5}}, "an early exit must be one of"),
        ({"thresholds": {"exit0": 2}}, "must be a number in 0..1, or null, not 2"),
        ({"thresholds": {}}, "thresholds must be an object"),
        ({"thresholds": {"exit0": "much"}}, "must be a number in 0..1, or null"),
        ({"threshold": {}}, "a change of exits may have thresholds and why, not threshold"),
    ],
)
def test_a_wrong_change_is_one_sentence_and_changes_nothing(tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    w = world(SEED, exits=EXITS, loaded=False)
    asked = json.loads(json.dumps(asked).replace("exit0", w.program.exits[0].name))
    with served(tmp_path, w, **SURFACES) as s:
        before = s.model.exits()
        status, content, _ = s.exchange("POST", f"/v2/models/{NAME}/exits", json.dumps(asked).encode(), "admin")
        assert status == 400
        assert said in json.loads(content)["error"]
        assert s.model.exits() == before
        status, told = s.call("POST", f"/v2/models/{NAME}/exits", b"{}")
        assert (status, "on the admin surface" in told["error"]) == (403, True)
        status, told = s.call("POST", f"/v2/models/{NAME}/feedback", b'{"truths": [{"request": 1}]}')
        assert (status, "request and label" in told["error"]) == (400, True)


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_stopped(tmp_path: Path) -> None:
    w = world(SEED, exits=EXITS, loaded=False)
    plan = plan_of(w, w.images(40))
    folder = bundle_of(w, tmp_path / NAME)
    other = Model(NAME, folder, ModelOptions(adapt=replace(plan, names=("a", "b", "c"))))
    with pytest.raises(SchedulerError, match="the plan is for the early exits a, b, c"):
        other.load()
    with pytest.raises(DriverUsageError, match="no other criterion fits them"):
        Model(NAME, folder, ModelOptions(adapt=plan, criteria="false")).load()


def test_a_server_whose_criterion_decides_has_no_table(tmp_path: Path) -> None:
    w = world(SEED, exits=EXITS, loaded=False)
    model = Model(NAME, bundle_of(w, tmp_path / NAME), ModelOptions(criteria="slack < 5ms"))
    model.load()
    try:
        with pytest.raises(ProtocolError, match="no criterion of its server's"):
            model.exits()
    finally:
        model.close()
