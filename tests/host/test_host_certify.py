"""A certificate on live servers: real images, thresholds that fall and rise, failures, and what cannot be."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleet_worlds import fleet_file, slow_world
from host_worlds import HOUR_NS, PATIENCE_S, HostWorld, eventually, world
from host_worlds import traffic_of as traffic
from oip_worlds import NAME, bundle_of, served

import fluidnpu
from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, DriverUsageError, VirtualClock, serve_requests
from fluidnpu.host.fleet import BoardOptions, DispatchOptions, FleetFront, FleetOptions, Roster
from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.host.serving import ModelOptions, Models, criteria_of
from fluidnpu.host.serving.adapting import certified_exits
from fluidnpu.host.serving.model import Model
from fluidnpu.models import ImageSet, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.numeric import record_classes
from fluidnpu.scheduler import World, make_policy, simulate
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.exits import Criteria, ExitProfile, Promise, RuledExits
from fluidnpu.scheduler.tuning import AdaptationPlan, Certifier, Goal

EXITS = 4
SEED = 12  # a network whose every exit is of many minds
SURFACES: dict[str, Any] = {"surfaces": {"admin": 0}}


@pytest.mark.cpu(8, "a trained network answers a hundred and twenty images on the simulated NPU")
def test_on_real_images_thresholds_fall_and_rise_and_the_promise_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = quantise(read_onnx(path))
    design = explore(network.network.workload, load_board("zc706"), model="paper", core="rtl").design
    Bundle(design=design, program=compile_program(network, design)).write(tmp_path / NAME)
    images, (_, classes) = shipped_images().images, record_classes(network, shipped_images())
    easy = np.flatnonzero((classes == classes[:, -1:]).all(axis=1))[:60]
    hard = np.flatnonzero(classes[:, 0] != classes[:, -1])[:60]  # where the first exit is no use
    promise = Promise(eta=0.9, share=0.5)
    options = ModelOptions(slo_ns=HOUR_NS, clock=VirtualClock, certify=promise, seed=1, warm=False)
    caplog.set_level(logging.INFO, "fluidnpu.host.serving.model")
    early, lowest, same = [], [], 0
    with (
        in_background(Models({NAME: tmp_path / NAME}, options), ServeOptions(http=0, grpc=0, admin=0)) as server,
        fluidnpu.connect(server.url()) as npu,
        fluidnpu.connect(server.url("admin"), NAME) as admin,
    ):
        for rows, count in ((easy, 440), (hard, 240), (easy, 480)):
            exits = []
            for row in np.resize(rows, count):
                answer = npu.infer(images[row])
                exits.append(answer.exit)
                same += answer.prediction == classes[row, -1]
            early.append(np.mean(np.array(exits[-60:]) < 2))
            lowest.append(min(admin.exits()["certificate"]["thresholds"]))
        said = admin.exits()["certificate"]
        model = server.models.find(NAME).npu
        assert model.certifier is not None
        kinds = [event.kind for event in model.certifier.events]
    assert early[0] > 0.8 > 0.2 > early[1] < 0.5 < early[2]
    assert lowest[0] < lowest[1] > lowest[2]
    assert {"falls", "rises"} <= set(kinds)
    assert said["whole"]["answers"] == 1160
    assert same / 1160 >= said["whole"]["kept_at_least"] >= promise.eta
    assert "answers are the last exit's, where 90 % are promised" in caplog.text


def recorded(w: HostWorld, images: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    confidences, classes = record_classes(w.qnet, ImageSet(images=images, labels=np.zeros(len(images), np.int64)))
    return dict(enumerate(confidences.tolist())), dict(enumerate(classes.tolist()))


@pytest.mark.parametrize("policy", ["greedy", "fluid"])
def test_simulator_and_device_certify_the_same(policy: str) -> None:
    w = world(SEED, exits=EXITS, slots=8)
    requests = traffic(w, 600, load=0.5)
    images = w.images(600)
    confidences, classes = recorded(w, images)
    promise = Promise(eta=0.6, share=0.5)

    def certifier(criteria: Criteria, **told: Any) -> Certifier:
        active = certified_exits(w.driver, criteria)
        return Certifier(active, promise, batch=w.design.b_max, seed=5, criteria=criteria, **told)

    criteria = criteria_of(w.driver, None)
    live = certifier(criteria)
    on_device = serve_requests(
        requests, images, make_policy(policy), w.driver, rule=criteria, active=live.active, watch=live
    ).schedule
    criteria = Criteria(ExitProfile(latency=w.design.latency), "false")
    told = certifier(criteria, confidences=confidences, classes=classes)
    simulated = simulate(
        requests,
        make_policy(policy),
        World(
            latency=w.design.latency,
            exits=RuledExits(rule=criteria, confidences=confidences),
            exit_rates=told.active.now.rates,
            active=told.active,
            watch=told,
            slots=8,
        ),
    )
    assert live.report() == told.report()
    assert [event.why for event in live.events] == [event.why for event in told.events]
    assert (on_device.exit, on_device.end_ns, on_device.shadows) == (
        simulated.exit,
        simulated.end_ns,
        simulated.shadows,
    )
    assert live.shadows > 0
    assert any(exit < EXITS - 1 for exit in simulated.exit)


def test_metrics_live_page_and_a_server_that_starts_again(tmp_path: Path) -> None:
    w = world(SEED, exits=EXITS, loaded=False)
    images, log = w.images(40), tmp_path / "log"
    with (
        served(
            tmp_path, w, certify=Promise(eta=0.5, share=1.0), seed=1, clock=VirtualClock, decisions=log, **SURFACES
        ) as s,
        fluidnpu.connect(s.url) as npu,
        fluidnpu.connect(s.server.url("admin"), NAME) as admin,
    ):
        for k in range(120):
            npu.infer(images[k % 40])
        before = admin.exits()["certificate"]
        assert before["whole"]["early"] == before["shadows"] > 0
        assert before["shadow_npu_ms"] > 0
        text = s.exchange("GET", "/metrics")[1].decode()
        assert 'fluidnpu_certified_promise{model="small"} 0.5' in text
        assert f'fluidnpu_certified_kept{{model="small",since="whole"}} {before["whole"]["kept_at_least"]}' in text
        assert 'fluidnpu_certified_exit_kept{exit="0",model="small"}' in text
        assert 'fluidnpu_certified_answers_total{model="small"} 120.0' in text
        (row,) = json.loads(s.exchange("GET", "/live.json")[1])["models"]
        assert row["certificate"]["whole"] == before["whole"]
        s.model.load()  # the same bundle: evidence goes on, and what was under way counts as lost
        again = admin.exits()["certificate"]
        assert again["whole"]["answers"] == 120
        assert again["whole"]["unsettled"] == 0
        npu.infer(images[0])
        assert admin.exits()["certificate"]["whole"]["answers"] == 121
        for change in (
            lambda: admin.change_exits({w.program.exits[0].name: 0.5}, "by hand"),
            lambda: s.model.change("confidence > 0.5", {}),
        ):
            with pytest.raises(Exception, match="certifi") as refused:
                change()
            assert str(refused.value).count(".") <= 1
        assert admin.exits()["certificate"]["whole"]["answers"] == 121
    parts = [path.read_text().splitlines() for path in log.iterdir()]
    assert any('"shadows"' in line for lines in parts for line in lines)
    for relived in map(replay_live, parts):
        assert relived.asked == relived.decisions > 0


def plan_of(w: HostWorld) -> AdaptationPlan:
    images = w.images(20)
    confidence, classes = record_classes(w.qnet, ImageSet(images=images, labels=np.zeros(20, np.int64)))
    return AdaptationPlan(
        names=tuple(exit.name for exit in w.program.exits[:-1]),
        goal=Goal(eta=0.5, batch=1, late=0.3),
        chain=((0, 0.5),),
        confidence=confidence,
        classes=classes,
        truths=classes[:, -1],
        reference=np.ones(20, bool),
    )


def test_what_does_not_fit_a_certificate_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    w, single = world(SEED, exits=EXITS, loaded=False), world(3, exits=1, loaded=False)
    promise = Promise(eta=0.9)
    folder, other = bundle_of(w, tmp_path / "a"), bundle_of(single, tmp_path / "b")
    for place, options, said in (
        (folder, ModelOptions(certify=promise, criteria="confidence > 0.9"), "sets thresholds"),
        (folder, ModelOptions(certify=promise, adapt=plan_of(w)), "not both"),
        (other, ModelOptions(certify=promise), "must have an early exit"),
    ):
        with pytest.raises(DriverUsageError, match=said):
            Model("a", place, options).load()


@pytest.mark.cpu(10, "two boards, each a process")
def test_evidence_of_a_fleets_boards_adds_up(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path, '[[devices]]\ntype = "board"\ncount = 2\n', w)
    images = w.images(16)
    dispatch = DispatchOptions(slo_ns=HOUR_NS, allowance_s=PATIENCE_S, hold_s=PATIENCE_S)
    boards = BoardOptions(slo_ns=HOUR_NS, certify="eta=0.5,share=100%")

    def opened(limits: Any, version: str) -> FleetFront:
        return FleetFront(Roster.read(path, None), FleetOptions(boards=boards, dispatch=dispatch), limits, version)

    with (
        in_background(opened, ServeOptions(http=0, grpc=None, admin=0)) as server,
        fluidnpu.connect(server.url(), NAME) as npu,
        fluidnpu.connect(server.url("admin"), NAME) as admin,
    ):
        for _ in range(4):
            npu.infer(images)
        eventually(lambda: admin.exits()["certificate"]["whole"]["unsettled"] == 0)
        said = admin.exits()
    mine = [board["certificate"]["whole"] for board in said["boards"].values()]
    whole = said["certificate"]["whole"]
    assert len(mine) == 2
    for key in ("answers", "early", "shadows", "differing"):
        assert whole[key] == sum(each[key] for each in mine), key
    assert whole["answers"] >= 64  # an audit asks a board once more
    assert whole["kept_at_least"] >= said["certificate"]["eta"]
