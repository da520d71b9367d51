"""Ensembles at the front: exact sums whatever the order, parts that count once, answers of the parts that
came.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fleet_scripts import TIMES, Act, Scripted, after, answers, call, fails, gated, run
from fleet_worlds import fleet
from host_worlds import PATIENCE_S, HostWorld, world
from oip_worlds import bundle_of

import fluidnpu
from fluidnpu.host import Bundle, DriverUsageError, GaveUpError, QueueFullError
from fluidnpu.host.errors import BoardError, HostError, ProtocolError
from fluidnpu.host.fleet import Roster
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.fleet.duties import Duty
from fluidnpu.host.fleet.fronts.ensemble import Ensemble
from fluidnpu.host.oip.wire.calls import ModelAnswer, read_wishes
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.tensors import TensorInfo
from fluidnpu.models import golden
from fluidnpu.scheduler import placement

NETWORKS = ("a", "b", "c")
EVERY = dict.fromkeys(NETWORKS, TIMES)


def ensemble(wait_s: float = 0.0, name: str = "average", weights: tuple[int, ...] = ()) -> Ensemble:
    """Three networks whose scripted logits are whole numbers; `b` has one fraction bit, so that shifts
    count.
    """
    rule = placement.Rule(networks=NETWORKS, name=name, weights=weights, fractions=(0, 1, 0))
    takes = TensorInfo("x", "UINT8", (-1, 1, 1, 2))
    return Ensemble(name="all", rule=rule, wait_s=wait_s, inputs=dict.fromkeys(NETWORKS, "x"), takes=takes, classes=2)


def plus(offset: float) -> Act:
    """Double every pixel and add a number, so that networks differ."""

    async def act(link: Scripted, request: Any) -> ModelAnswer:
        link.wrong = offset
        return await answers(link, request)

    return act


async def ask(dispatcher: Dispatcher, one: Ensemble, *pixels: int, **parameters: Any) -> ModelAnswer:
    asked = call(*pixels, model="all", **parameters)
    return await one.infer(dispatcher, asked, read_wishes(asked.parameters))


def of(name: str) -> dict[str, Duty]:
    return {name: Duty(batch=2, rate_per_s=1.0)}


def test_logits_are_summed_exactly_over_pieces_and_boards() -> None:
    links = [Scripted(name, *[plus(k)] * 20) for k, name in enumerate(NETWORKS)]

    async def work(dispatcher: Dispatcher) -> None:
        pixels = range(5)
        answer = await ask(dispatcher, ensemble(), *pixels)
        right = np.array([[3 * 2 * p + 3, 3 * 2 * (p + 1) + 3] for p in pixels])
        assert answer.outputs["total"].dtype == np.int64
        assert (answer.outputs["total"] == 2 * right).all(), "in halves, the finest unit of the three"
        assert np.array_equal(answer.outputs["score"], (right / 3).astype(np.float32))
        assert answer.outputs["label"].tolist() == [1] * 5
        assert "class_name" not in answer.outputs
        assert answer.outputs["parts"].tolist() == [3] * 5
        assert answer.outputs["exits"].tolist() == [[0, 0, 0]] * 5
        said = {name: answer.parameters[name] for name in ("rule", "parts", "of", "missing")}
        assert said == {"rule": "average", "parts": 3, "of": 3, "missing": ""}
        assert set(str(answer.parameters["board"]).split(", ")) == set(NETWORKS)
        assert [len(link.asked) for link in links] == [3, 3, 3], "two samples a message"
        named = await ask(dispatcher, replace(ensemble(), class_names=("ant", "bee")), 0)
        assert named.outputs["class_name"].tolist() == ["bee"]

    run(links, work, times=EVERY, duties={name: of(name) for name in NETWORKS})


def test_a_part_that_is_sent_again_counts_once() -> None:
    """The first board of `a` breaks off or is late; its answer comes when the other's has been taken."""
    first = Scripted("a1", gated)
    links = [first, Scripted("a2"), Scripted("b"), Scripted("c")]
    duties = {"a1": of("a"), "a2": {"a": Duty(batch=2)}, "b": of("b"), "c": of("c")}

    async def work(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, ensemble(), 7)
        assert answer.outputs["total"].tolist() == [[2 * 3 * 14, 2 * 3 * 16]]
        assert dispatcher.counts["resent"] == 1
        first.gate.release()
        while not dispatcher.leaves[0].counts["answers"]:
            await asyncio.sleep(0.002)
        assert dispatcher.leaves[0].counts["late"] == 1

    run(links, work, times=EVERY, duties=duties)


def test_a_rule_of_ones_own_decides_and_one_that_fails_is_an_error_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(placement.COMBINERS, "first", lambda logits, seen, weights: logits[:, 0])
    monkeypatch.setitem(placement.COMBINERS, "broken", lambda logits, seen, weights: 1 / 0)
    links = [Scripted(name, *[plus(k)] * 20) for k, name in enumerate(NETWORKS)]

    async def work(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, ensemble(name="first"), 3)
        assert answer.parameters["rule"] == "first"
        assert answer.outputs["score"].tolist() == [[6.0, 8.0]], "the first network's alone"
        with pytest.raises(HostError, match=r"'broken' must give scores \(1, 2\), and that failed: ZeroDivisionError"):
            await ask(dispatcher, ensemble(name="broken"), 3)
        assert (await ask(dispatcher, ensemble(), 3)).outputs["label"].tolist() == [1], "others are answered on"

    run(links, work, times=EVERY, duties={name: of(name) for name in NETWORKS})


def test_after_the_wait_an_answer_leaves_with_the_parts_that_came() -> None:
    """Two samples of `c` never come; their labels are those of `a` and `b`."""
    links = [Scripted("a"), Scripted("b"), Scripted("c", *[gated] * 9)]

    async def work(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, ensemble(wait_s=0.2), 1, 2)
        assert answer.outputs["parts"].tolist() == [2, 2]
        assert answer.outputs["total"].tolist() == [[2 * 2 * 2, 2 * 2 * 4], [2 * 2 * 4, 2 * 2 * 6]]
        assert answer.outputs["score"].tolist() == [[2.0, 4.0], [4.0, 6.0]], "the mean of two"
        assert answer.outputs["exits"].tolist() == [[0, 0, -1]] * 2
        assert (answer.parameters["parts"], answer.parameters["missing"]) == (2, "c")
        assert not dispatcher.leaves[2].attempts, "what is not needed any more is taken back"

    run(links, work, times=EVERY, duties={name: of(name) for name in NETWORKS}, allowance_s=100.0)


def test_a_refused_part_is_an_error_or_a_missing_part() -> None:
    refused = [fails(GaveUpError("the device"))] * 99

    async def whole(dispatcher: Dispatcher) -> None:
        with pytest.raises(GaveUpError, match="the device"):
            await ask(dispatcher, ensemble(), 1)

    async def partial(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, ensemble(wait_s=30.0), 1)
        assert (answer.parameters["parts"], answer.parameters["missing"]) == (2, "b")

    async def none(dispatcher: Dispatcher) -> None:
        with pytest.raises(GaveUpError):
            await ask(dispatcher, ensemble(wait_s=30.0), 1)

    duties = {name: of(name) for name in NETWORKS}
    for work in (whole, partial):
        run([Scripted("a"), Scripted("b", *refused), Scripted("c")], work, times=EVERY, duties=duties, tries=2)
    run([Scripted(name, *refused) for name in NETWORKS], none, times=EVERY, duties=duties, tries=2)


def test_a_wait_is_no_reason_to_answer_with_nothing() -> None:
    async def work(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, ensemble(wait_s=0.01), 3)
        assert answer.outputs["parts"].min() >= 1

    links = [Scripted(name, after(0.2)) for name in NETWORKS]
    run(links, work, times=EVERY, duties={name: of(name) for name in NETWORKS}, allowance_s=100.0)


def test_what_cannot_be_asked_of_an_ensemble() -> None:
    async def work(dispatcher: Dispatcher) -> None:
        one = ensemble()
        asked = call(1, model="all")
        asked.inputs = {"y": asked.inputs["x"]}
        with pytest.raises(ProtocolError, match="must have the input 'x', not y"):
            await one.infer(dispatcher, asked, read_wishes({}))
        asked = call(1, model="all")
        asked.outputs = ("logits",)
        with pytest.raises(ProtocolError, match="must be among label, score, total, parts, exits, not logits"):
            await one.infer(dispatcher, asked, read_wishes({}))
        with pytest.raises(ProtocolError, match="at least one sample"):
            await ask(dispatcher, one)
        with pytest.raises(QueueFullError):
            await ask(dispatcher, one, 1, 2, 3)
        assert dispatcher.waiting == 0, "the parts that had been begun are let go"

    run([Scripted(name) for name in NETWORKS], work, times=EVERY, duties={n: of(n) for n in NETWORKS}, queue=8)


def test_a_lost_part_is_asked_elsewhere_and_an_answer_that_cannot_be_read_is_no_part() -> None:
    async def nonsense(link: Scripted, request: Any) -> ModelAnswer:
        answer = await answers(link, request)
        answer.outputs["logits"] = answer.outputs["logits"][:, :1]
        return answer

    async def lost(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, ensemble(), 1)
        assert answer.parameters["parts"] == 3

    async def short(dispatcher: Dispatcher) -> None:
        with pytest.raises(ValueError, match=r"must be integers \(count, 2\)"):
            await ask(dispatcher, ensemble(), 1)

    duties = {"a": of("a"), "b": of("b"), "c": of("c"), "d": of("c")}
    links = [Scripted("a"), Scripted("b"), Scripted("c", fails(BoardError("reset"))), Scripted("d")]
    run(links, lost, times=EVERY, duties=duties)
    run(
        [Scripted("a"), Scripted("b"), Scripted("c", nonsense)], short, times=EVERY, duties={n: of(n) for n in NETWORKS}
    )


# -- a fleet with a plan, in processes ---------------------------------------------------------------------

TOML = """
schema = 1
name = "two networks together"
[networks.one]
exit_rates = [0.5, 0.5]
[networks.two]
exit_rates = [0.5, 0.5]
[ensembles.both]
networks = ["one", "two"]
rule = "weighted"
weights = [3, 1]
[links.loopback]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_000_000_000
networks.one.bundle = "one"
networks.two.bundle = "two"
[[devices]]
type = "board"
count = 2
"""


def two_worlds() -> dict[str, HostWorld]:
    """The same network on two arrays, so that images and classes agree and times do not."""
    return {"one": world(3, loaded=False, millis=True), "two": world(3, loaded=False, millis=True, t_c=4)}


@contextmanager
def planned(folder: Path) -> Iterator[tuple[Any, Any, dict[str, HostWorld]]]:
    worlds = two_worlds()
    for name, w in worlds.items():
        bundle_of(w, folder / name)
    (folder / "fleet.toml").write_text(TOML)
    known = placement.read_fleet(folder / "fleet.toml", bundle=lambda place: Bundle.read(place).profile)
    (folder / "plan.json").write_text(placement.place_together(known, slo_ns=10**9).dumps())
    with fleet(folder / "fleet.toml", plan=folder / "plan.json") as (server, front):
        yield server, front, worlds


def test_a_plan_and_its_ensemble_are_served(tmp_path: Path) -> None:
    """One start of two processes for all of it: each costs seconds."""
    with planned(tmp_path) as (server, front, worlds):
        duties = {leaf.name: dict(leaf.duties) for leaf in front.dispatcher.leaves}
        assert {model for one in duties.values() for model in one} == {"one", "two"}
        images = worlds["one"].images(10)
        fractions = front.roster.ensembles["both"].rule.fractions
        sums = []
        for weight, w in zip((3, 1), worlds.values(), strict=True):
            exits, _, _ = golden.early_exit(w.qnet, images)
            stored = golden.run(w.qnet, images)
            real = [w.qnet.logits(exit, stored[exit])[row] for row, exit in enumerate(exits)]
            sums.append(weight * np.ldexp(np.array(real), max(fractions)).astype(np.int64))
        total = sums[0] + sums[1]
        with fluidnpu.connect(server.url(), "both") as npu:
            answer = npu.infer(images)
            assert np.array_equal(answer.outputs["total"], total)
            assert answer.outputs["label"].tolist() == total.argmax(axis=1).tolist()
            assert (answer.parameters["parts"], answer.parameters["of"], answer.parameters["missing"]) == (2, 2, "")
            assert npu.infer(images[0]).prediction == int(total[0].argmax())
            assert npu.metadata()["platform"] == "fluidnpu_ensemble"
            assert npu.ready()
            with pytest.raises(ProtocolError, match="shape"):
                npu.infer(images[:, :1])
        with fluidnpu.connect(server.url(), "two") as npu:
            assert npu.infer(images).outputs["label"].shape == (10,)
        asked = message("ModelInferRequest")(model_name="both", id="7")
        asked.inputs.add(name=worlds["one"].program.input, datatype="UINT8", shape=images.shape)
        asked.raw_input_contents.append(images.tobytes())
        with grpc.insecure_channel(server.url("grpc")) as channel:
            said = channel.unary_unary(f"/{SERVICE}/ModelInfer")(asked.SerializeToString(), timeout=PATIENCE_S)
        read = message("ModelInferResponse").FromString(said)
        rows = dict(zip((one.name for one in read.outputs), read.raw_output_contents, strict=True))
        assert np.frombuffer(rows["total"], np.int64).reshape(total.shape).tolist() == total.tolist()
        found = front.snapshot()
        assert [one["name"] for one in found["models"]] == ["one", "two", "both"]
        assert found["models"][2]["answered"] == 21
        assert front.capacity_per_s["both"] == min(front.capacity_per_s["one"], front.capacity_per_s["two"])
        assert (
            "both" in front.openapi(admin=False)["paths"]["/v2/models/{name}/infer"]["parameters"][0]["schema"]["enum"]
        )


def test_fleet_files_whose_ensembles_cannot_be_served(tmp_path: Path) -> None:
    worlds = two_worlds()
    for name, w in worlds.items():
        bundle_of(w, tmp_path / name)
    path = tmp_path / "fleet.toml"

    def refused(kind: type[Exception], said: str, old: str, new: str) -> None:
        path.write_text(TOML.replace(old, new))
        with pytest.raises(kind, match=said):
            Roster.read(path)

    path.write_text(TOML)
    assert Roster.read(path).ensembles["both"].classes > 1
    refused(ValueError, r"ensembles\.both: a rule must be one of", '"weighted"', '"best"')
    refused(ValueError, r"ensembles\.both: weights must be 2 whole numbers", "[3, 1]", "[3]")
    refused(ValueError, "must be among one, two, not three", '["one", "two"]', '["one", "three"]')
    refused(
        ValueError, "an ensemble must have a name of its own, and 'one' is a network", "ensembles.both", "ensembles.one"
    )
    refused(ValueError, r"ensembles\.both\.wait", 'rule = "weighted"', 'rule = "weighted"\nwait = "soon"')
    refused(
        ValueError, "ensembles.both may have networks, rule, wait, weights, not quorum", "[3, 1]", "[3, 1]\nquorum = 2"
    )
    bundle_of(world(5, loaded=False, millis=True), tmp_path / "two")
    refused(DriverUsageError, "networks of ensemble 'both' must (take the same images|have the same classes)", "", "")
