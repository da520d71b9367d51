"""Networks served in parts: from board to board, with the golden model's bits, whatever dies meanwhile."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import virtual_time
from fleet_scripts import Scripted, at_work, fails
from fleet_worlds import NAME, fleet, fleet_file, plan_of, slow_world
from host_worlds import HostWorld, world

import fluidnpu
from fluidnpu.dse import LatencyTable
from fluidnpu.hls.program import Stages
from fluidnpu.host import Bundle, BundleError, Driver, DriverUsageError, QueueFullError, SimulatedNpu
from fluidnpu.host.errors import BoardError, ExpiredError, ProtocolError
from fluidnpu.host.fleet import BoardOptions, DispatchOptions, Leaf, Roster
from fluidnpu.host.fleet.boards.leaf import BoardState, Times
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.fleet.duties import Duty, Way, duties_of, part_name, ways_of
from fluidnpu.host.fleet.fronts.relay import Relay
from fluidnpu.host.fleet.parts import part_of
from fluidnpu.host.fleet.reference import Reference
from fluidnpu.host.oip.inference import join_outputs, parameters_of
from fluidnpu.host.oip.interface import outputs_of
from fluidnpu.host.oip.wire.calls import Call, ModelAnswer, Wishes, read_wishes
from fluidnpu.host.oip.wire.tensors import from_bytes
from fluidnpu.host.serving.stream import serve_requests
from fluidnpu.models import golden
from fluidnpu.scheduler import Request, Serving, make_policy
from fluidnpu.scheduler.placement import Job, Plan, Pool, Route, place, read_fleet, serve_plan
from fluidnpu.scheduler.placement.testing import toy_fleet

EXITS = 3
FIRST, MIDDLE, LAST = (Stages(first=k, last=k, exits=(k,)) for k in range(EXITS))
HEAD, TAIL = Stages(first=0, last=1, exits=(0, 1)), Stages(first=1, last=2, exits=(1, 2))


@cache
def whole() -> tuple[HostWorld, Bundle]:
    w = world(3, exits=EXITS, loaded=False)
    return w, Bundle(design=w.design, program=w.program)


@cache
def part(stages: Stages) -> Bundle:
    return part_of(whole()[1], stages)


def model(stages: Stages) -> str:
    return part_name(NAME, stages)


def right(images: Any) -> tuple[list[int], list[int], list[bytes]]:
    """Exits, classes and the bytes of the logits, by the golden model."""
    w, _ = whole()
    exits, classes, _ = golden.early_exit(w.qnet, images)
    stored = golden.run(w.qnet, images)
    logits = [np.float32(w.qnet.logits(exit, stored[exit])[row]).tobytes() for row, exit in enumerate(exits)]
    return exits.tolist(), classes.tolist(), logits


def seen(answer: ModelAnswer) -> tuple[list[int], list[int], list[bytes]]:
    outputs = answer.outputs
    return outputs["exit"].tolist(), outputs["label"].tolist(), [row.tobytes() for row in outputs["logits"]]


async def computes(link: Scripted, request: Any) -> ModelAnswer:
    """Answer as a board would, on a simulated NPU of its own."""
    await asyncio.sleep(0)
    bundle = next(part(one) for one in (FIRST, MIDDLE, LAST, HEAD, TAIL) if model(one) == request.model_name)
    asked = request.inputs[0]
    samples = from_bytes(asked.name, asked.datatype, tuple(asked.shape), request.raw_input_contents[0])
    driver = Driver(SimulatedNpu(bundle.design), bundle.program, bundle.design)
    driver.load()
    requests = [Request(k, 0, 10**15) for k in range(len(samples))]
    replies = serve_requests(requests, samples, make_policy("serial"), driver).answers
    faces = outputs_of(bundle.program)
    onward = next((one for one in faces if one.name == "onward"), None)
    outputs = join_outputs(replies, [one.name for one in faces], (), onward)
    if link.wrong and len(outputs.get("onward", ())):
        outputs["onward"][-1, 0, 0, 0] ^= 1
    return ModelAnswer(request.model_name, "1", request.id, outputs, parameters_of(replies))


class Board(Scripted):
    """A board with parts; when its script has ended it computes."""

    def __init__(self, name: str, parts: Sequence[Stages], *acts: Any) -> None:
        super().__init__(name, *acts)
        self.parts = parts

    async def infer(self, request: Any, timeout_s: float, trace: str = "") -> ModelAnswer:
        self.asked.append(request)
        act = self.acts.pop(0) if self.acts else computes
        return await asyncio.wait_for(act(self, request), timeout_s)

    def samples(self, stages: Stages) -> int:
        return sum(one.inputs[0].shape[0] for one in self.asked if one.model_name == model(stages))


async def never(link: Scripted, request: Any) -> ModelAnswer:
    await asyncio.sleep(60)
    raise AssertionError("nobody waits so long")


def relay_of(*ways: tuple[float, Sequence[Stages]]) -> Relay:
    models = {model(stages): part(stages).program for _, way in ways for stages in way}
    made = tuple(Way(models=tuple(map(model, way)), rate_per_s=rate) for rate, way in ways)
    return Relay(name=NAME, bundle=whole()[1], ways=made, programs=models)


def run(boards: Sequence[Board], relay: Relay, work: Callable[[Dispatcher], Awaitable[Any]], **options: Any) -> Any:
    """Run a coroutine on a dispatcher before these boards."""

    async def main() -> Any:
        leaves = []
        for board in boards:
            bundles = {model(stages): part(stages) for stages in board.parts}
            times = {
                name: Times.of(one.design.latency, (1 / one.design.stages,) * one.design.stages)
                for name, one in bundles.items()
            }
            leaves.append(Leaf(name=board.name, address=board.name, link=board, times=times))  # type: ignore[arg-type]
        judges = {
            name: Reference(part(stages)) for board in boards for stages in board.parts for name in [model(stages)]
        }
        given = DispatchOptions(**{"allowance_s": 0.05, "audit_every": 0, "slo_ns": 10**9, **options})
        return await at_work(Dispatcher(leaves, judges, given), work)

    return virtual_time.run(main())


def call(images: Any, **parameters: Any) -> Call:
    return Call(NAME, id="7", inputs={whole()[1].program.input: images}, parameters=parameters)


async def ask(relay: Relay, dispatcher: Dispatcher, one: Call) -> ModelAnswer:
    return await relay.infer(dispatcher, one, read_wishes(one.parameters))


CHAINS = [(FIRST, TAIL), (HEAD, LAST), (FIRST, MIDDLE, LAST)]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(str(one.last) for one in chain))
def test_answers_are_those_of_the_whole_and_only_who_stays_goes_on(chain: tuple[Stages, ...]) -> None:
    images = whole()[0].images(23)
    boards = [Board(f"board-{k}", [stages]) for k, stages in enumerate(chain)]
    relay = relay_of((1.0, chain))
    exits, _, _ = right(images)

    async def work(dispatcher: Dispatcher) -> None:
        answer = await ask(relay, dispatcher, call(images))
        assert seen(answer) == right(images)
        for board in boards:
            assert board.samples(board.parts[0]) == sum(exit >= board.parts[0].first for exit in exits)
        assert answer.parameters["board"] == ", ".join(board.name for board in boards)
        assert answer.parameters["exit"] == max(exits)
        assert (answer.model, answer.id) == (NAME, "7")
        alone = [await ask(relay, dispatcher, call(images[k : k + 1])) for k in range(6)]
        assert [one.outputs["exit"][0] for one in alone] == exits[:6]
        assert len(str(alone[exits.index(0)].parameters["board"]).split(", ")) == 1, "who leaves at once is done"

    run(boards, relay, work)


def test_a_part_that_is_lost_is_asked_again_and_no_other() -> None:
    images = whole()[0].images(8)
    boards = [Board("a", [FIRST]), Board("b", [TAIL], fails(BoardError("reset"))), Board("c", [TAIL])]
    relay = relay_of((1.0, (FIRST, TAIL)))

    async def work(dispatcher: Dispatcher) -> None:
        boards[2].reachable = False
        dispatcher.drain("c")
        asked = asyncio.ensure_future(ask(relay, dispatcher, call(images)))
        while not boards[1].asked:
            await asyncio.sleep(0.001)
        boards[2].reachable = True
        dispatcher.restore("c")
        assert seen(await asked) == right(images)
        assert boards[0].samples(FIRST) == len(images), "what the first part gave was kept"
        keys = [one.parameters["idempotency_key"].string_param for board in boards[1:] for one in board.asked]
        assert len(keys) == len(set(keys)) + 1, "the lost message came again with its own key"

    run(boards, relay, work, allowance_s=100.0)


def test_time_that_is_left_goes_on_with_the_sample() -> None:
    images = whole()[0].images(8)
    boards = [Board("a", [FIRST], *[after_and_computes(0.05)] * 4), Board("b", [TAIL])]
    relay = relay_of((1.0, (FIRST, TAIL)))

    async def work(dispatcher: Dispatcher) -> None:
        await ask(relay, dispatcher, call(images, slo_ms=60_000, timeout=50_000_000))
        first, second = (one.asked[0].parameters for one in boards)
        assert first["slo_ms"].double_param == 60_000
        assert second["slo_ms"].double_param == pytest.approx(60_000 - 50)
        assert second["timeout"].int64_param == 50_000_000 - 50_000

    run(boards, relay, work, allowance_s=100.0)


def after_and_computes(seconds: float) -> Any:
    async def act(link: Scripted, request: Any) -> ModelAnswer:
        await asyncio.sleep(seconds)
        return await computes(link, request)

    return act


def test_a_request_without_time_for_the_next_part_ends() -> None:
    images = whole()[0].images(8)
    boards = [Board("a", [FIRST]), Board("b", [TAIL], never)]
    relay = relay_of((1.0, (FIRST, TAIL)))

    async def work(dispatcher: Dispatcher) -> None:
        with pytest.raises(ExpiredError):
            await ask(relay, dispatcher, call(images, timeout=60_000))

    run(boards, relay, work, patience=1, allowance_s=0.02)


def test_who_wants_an_answer_in_time_gets_the_exit_that_was_passed() -> None:
    images = whole()[0].images(12)
    boards = [Board("a", [FIRST]), Board("b", [TAIL], *[never] * 9)]
    relay = relay_of((1.0, (FIRST, TAIL)))
    w = whole()[0]
    exits, classes, _ = right(images)
    at_once = w.qnet.logits(0, golden.run(w.qnet, images)[0]).argmax(1).tolist()

    async def work(dispatcher: Dispatcher) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await ask(relay, dispatcher, call(images, anytime=True, slo_ms=80))
        assert loop.time() - began == pytest.approx(0.08), "at its deadline, and never before"
        assert answer.outputs["exit"].tolist() == [0] * len(images)
        assert answer.outputs["label"].tolist() == at_once
        assert [at_once[k] for k, exit in enumerate(exits) if exit == 0] == [
            classes[k] for k, exit in enumerate(exits) if exit == 0
        ]
        assert answer.parameters["outcome"] == "anytime"
        boards[1].acts.clear()
        in_time = await ask(relay, dispatcher, call(images, anytime=True, slo_ms=20_000))
        assert seen(in_time) == right(images)
        assert in_time.parameters["outcome"] == "exit"

    run(boards, relay, work, allowance_s=30.0)


def test_ways_are_taken_by_their_rates_and_where_boards_are() -> None:
    images = whole()[0].images(60)
    boards = [Board("a", [FIRST]), Board("b", [TAIL]), Board("c", [HEAD]), Board("d", [LAST])]
    relay = relay_of((3.0, (FIRST, TAIL)), (1.0, (HEAD, LAST)))

    async def work(dispatcher: Dispatcher) -> None:
        dispatcher.rng.seed(3)
        for k in range(60):
            assert seen(await ask(relay, dispatcher, call(images[k : k + 1]))) == right(images[k : k + 1])
        assert 35 <= boards[0].samples(FIRST) <= 55
        assert boards[0].samples(FIRST) + boards[2].samples(HEAD) == 60
        dispatcher.drain("b")
        before = boards[0].samples(FIRST)
        assert seen(await ask(relay, dispatcher, call(images[:20]))) == right(images[:20])
        assert boards[0].samples(FIRST) == before, "a way that leads nowhere is not begun"

    run(boards, relay, work)


def test_what_was_taken_is_not_refused_in_the_middle() -> None:
    images = whole()[0].images(8)
    boards = [Board("a", [FIRST], *[after_and_computes(0.05)] * 4), Board("b", [TAIL])]
    relay = relay_of((1.0, (FIRST, TAIL)))

    async def work(dispatcher: Dispatcher) -> None:
        asked = asyncio.ensure_future(ask(relay, dispatcher, call(images)))
        await asyncio.sleep(0.01)
        assert dispatcher.waiting == 8
        with pytest.raises(QueueFullError):
            await ask(relay, dispatcher, call(images[:1]))
        assert seen(await asked) == right(images)

    run(boards, relay, work, queue=8, allowance_s=5.0)


def test_a_client_that_goes_leaves_nothing_behind() -> None:
    boards = [Board("a", [FIRST]), Board("b", [TAIL], never, never)]
    relay = relay_of((1.0, (FIRST, TAIL)))

    async def work(dispatcher: Dispatcher) -> None:
        asked = asyncio.ensure_future(ask(relay, dispatcher, call(whole()[0].images(8))))
        while not boards[1].asked:
            await asyncio.sleep(0.001)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert not any(leaf.attempts for leaf in dispatcher.leaves)

    run(boards, relay, work, allowance_s=30.0)


def test_a_board_that_hands_on_wrong_bits_is_found() -> None:
    boards = [Board("a", [FIRST]), Board("b", [FIRST]), Board("c", [TAIL])]
    boards[1].wrong = 1.0
    relay = relay_of((1.0, (FIRST, TAIL)))

    async def work(dispatcher: Dispatcher) -> None:
        for k in range(40):
            await ask(relay, dispatcher, call(whole()[0].images(4, k)))
            if dispatcher.leaves[1].state is BoardState.SICK:
                break
        assert "goes on has wrong bits" in dispatcher.leaves[1].reason
        assert dispatcher.leaves[0].state is BoardState.READY

    run(boards, relay, work, audit_every=3)


def test_what_is_asked_of_parts_and_cannot_be() -> None:
    relay = relay_of((1.0, (FIRST, TAIL)))
    images = whole()[0].images(2)
    name = whole()[1].program.input

    async def work(dispatcher: Dispatcher) -> None:
        for wrong, said in (
            (call(images, criteria="confidence > 0.5"), "must have no criteria"),
            (replace(call(images), outputs=("onward",)), "an output must be one of label"),
            (Call(NAME, inputs={"y": images}), f"must have the input '{name}' alone, not 'y'"),
            (call(images[:0]), "must hold at least one sample"),
        ):
            with pytest.raises(ProtocolError, match=said):
                await relay.infer(dispatcher, wrong, Wishes())

    run([Board("a", [FIRST]), Board("b", [TAIL])], relay, work)


def test_capacity_is_that_of_the_scarcest_stage() -> None:
    relay = replace(relay_of((1.0, (FIRST, TAIL)), (1.0, (HEAD, LAST))), exit_rates=(0.5, 0.25, 0.25))
    boards = {model(FIRST): 100.0, model(TAIL): 50.0, model(HEAD): 40.0, model(LAST): 5.0}
    assert relay.capacity_per_s(boards) == min(100 + 40, 50 / 0.5 + 40, 50 / 0.5 + 5 / 0.25)


# -- plans and fleet files ---------------------------------------------------------------------------------

BOARDS = '[[devices]]\ntype = "board"\ncount = 3\n'


def test_a_pipeline_of_processes_answers_as_the_whole_and_outlives_a_kill(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path, BOARDS, w)
    plan, images = plan_of(path, (0, 0, 4, "on"), (1, 1, 4, "on"), devices=(1, 2)), w.images(16)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    stored = golden.run(w.qnet, images)
    logits = [np.float32(w.qnet.logits(exit, stored[exit])[row]).tobytes() for row, exit in enumerate(exits)]
    with fleet(path, plan=plan) as (server, front), fluidnpu.connect(server.url()) as npu:
        assert [model for leaf in front.dispatcher.leaves for model in leaf.times] == ["small.0-0", *["small.1-1"] * 2]
        assert npu.metadata()["inputs"][0]["datatype"] == "UINT8", "clients see the whole network"
        answer = npu.infer(images)
        assert answer.outputs["exit"].tolist() == exits.tolist()
        assert [row.tobytes() for row in answer.outputs["logits"]] == logits
        os.kill(front.processes["board-1"].pid, signal.SIGKILL)
        for k, image in enumerate(images):
            one = npu.infer(image)
            assert (one.prediction, one.logits.tobytes()) == (classes[k], logits[k])
        os.kill(front.processes["board-0"].pid, signal.SIGKILL)  # the only one of its part: it is waited for
        assert npu.infer(images).outputs["label"].tolist() == classes.tolist()
        assert front.capacity_per_s.keys() == {NAME}
        assert front.index()[0]["name"] == NAME


def test_a_roster_has_parts_where_the_plan_cuts(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path, BOARDS, w)
    roster = Roster.read(path, plan_of(path, (0, 0, 4, "on"), (1, 1, 2, "on"), devices=(1, 2)))
    assert roster.models == (NAME,)
    assert set(roster.bundles) == {"small.0-0", "small.1-1"}
    assert roster.relays[NAME].ways == (Way(models=("small.0-0", "small.1-1"), rate_per_s=50.0),)
    assert roster.seats[2].duties["small.1-1"] == Duty(
        batch=2, rate_per_s=25.0, network=NAME, stages=Stages(first=1, last=1, exits=(1,))
    )
    assert roster.times(roster.seats[1])["small.1-1"].whole_s == tuple(ns / 1e9 for ns in w.design.latency.ns[1])
    folder = tmp_path / "parts"
    written = roster.write_parts(folder)
    assert written == [folder / "board" / "small.0-0", folder / "board" / "small.1-1"]
    assert Bundle.read(written[1]) == roster.seats[1].bundles["small.1-1"]
    assert roster.only({"board-0"}).models == ("small.0-0",), "a shard serves parts under their own names"


def test_heads_that_a_plan_leaves_out_are_not_run(tmp_path: Path) -> None:
    w = world(3, exits=EXITS, loaded=False, millis=True)
    path = fleet_file(tmp_path, BOARDS, w)
    text = path.read_text().replace("[networks.small]", "[networks.small]\nexit_rates = [0.4, 0.3, 0.3]")
    path.write_text(text)
    roster = Roster.read(path, plan_of(path, (0, 1, 4, "last"), (2, 2, 4, "on"), devices=(1, 2)))
    (model, bundle), *_ = roster.seats[0].bundles.items()
    assert model == "small.0-1.x0"
    assert [exit.name for exit in bundle.program.exits] == [w.program.exits[1].name]
    assert len(bundle.program.descriptors) < w.program.stages[1][1] + 1
    assert roster.relays[NAME].ways[0].models == ("small.0-1.x0", "small.2-2")
    roster = Roster.read(path, plan_of(path, (0, 1, 4, "on"), (2, 2, 4, "on"), devices=(1, 2)))
    expected = Times.of(LatencyTable(ns=w.design.latency.ns[:2]), (0.4, 0.6))
    assert roster.times(roster.seats[0])["small.0-1"] == expected, "by the file's rates, of those that enter"


def test_serial_splits_are_turns_of_a_whole_network_on_its_board() -> None:
    toy = toy_fleet(4)
    plan = place(toy, slo_ns=10**9).plan
    assert plan.form == "data parallel, serial splits"
    assert ways_of(plan, toy) == {}
    batches = [job.batch for job in plan.pools[0].jobs]
    for mine in duties_of(plan, toy).values():
        duty = mine["toy"]
        assert duty.stages is None
        assert duty.splits == ((0, batches[0]), (1, batches[1])), "one from each exit on"
        assert duty.policy == f"turns:splits=0x{batches[0]}+1x{batches[1]}"
        assert duty.slots == 2 * sum(batches)
        assert BoardOptions().by_plan(mine, 4) == BoardOptions(policy=duty.policy, slots=2 * sum(batches))
        assert BoardOptions(policy="serial").by_plan(mine, 4).policy == "serial", "who names one has it"
        assert BoardOptions().by_plan({**mine, "other": duty}, 4) == BoardOptions(), "turns of networks are the front's"


def test_a_board_by_plan_serves_what_the_twin_says_and_its_usual_policy_less() -> None:
    """The plan's own turns are what the policy does, to the nanosecond; `fluid` carries a tenth less here."""
    toy = toy_fleet(1)
    plan = place(toy, slo_ns=10**9).plan
    duty = duties_of(plan, toy)["board-0"]["toy"]
    profile, rates = toy.types["board"].profiles["toy"], toy.networks["toy"].exit_rates
    assert rates is not None
    serving = Serving(latency=profile.latency, exit_rates=rates)
    load: dict[str, Any] = {"rate_per_s": plan.rate_per_s, "count": 4000, "seed": 3}
    planned = serve_plan(toy, plan, **load)
    by_policy = serve_plan(toy, plan, policy=make_policy(duty.policy), **load)
    assert np.array_equal(planned.end_ns, by_policy.end_ns)
    usual = make_policy("fluid", serving.setting(plan.rate_per_s, 10**9))
    assert planned.in_time == 1.0
    assert serve_plan(toy, plan, policy=usual, **load).in_time < 0.98


def test_splits_in_turns_are_served_with_the_golden_bits(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path, '[[devices]]\ntype = "board"\n', w)
    lab = read_fleet(path, bundle=lambda folder: Bundle.read(folder).profile)
    jobs = tuple(Job(network=NAME, first=k, last=k, batch=2 + k, rate_per_s=50.0, weight=0.5) for k in range(2))
    plan = Plan(
        fleet=lab.digest, objective="goodput", slo_ns=10**9, rate_per_s=50.0,
        pools=(Pool(type="board", devices=("board",), jobs=jobs),),
        routes=(Route(network=NAME, pools=(0,), rate_per_s=50.0),),
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(plan.dumps())
    images = w.images(24)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    with fleet(tmp_path / "fleet.toml", plan=tmp_path / "plan.json", boards=BoardOptions()) as (server, front):
        words = front.processes["board"].options.words()
        assert "--policy=turns:splits=0x2+1x3" in words
        assert "--slots=10" in words
        with fluidnpu.connect(server.url()) as npu:
            answer = npu.infer(images)
    assert answer.outputs["exit"].tolist() == exits.tolist()
    assert answer.outputs["label"].tolist() == classes.tolist()
    assert answer.parameters["batch"] in (2, 3)


def test_parts_of_bundles_that_differ_are_refused(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path, BOARDS, w)
    odd = replace(w.program, exits=(replace(w.program.exits[0], threshold=0.123), *w.program.exits[1:]))
    Bundle(design=w.design, program=odd).write(tmp_path / "odd")
    text = path.read_text().replace(
        BOARDS,
        '[types.other]\nmemory_bytes = 1_000_000_000\nnetworks.small.bundle = "odd"\n'
        '[[devices]]\ntype = "board"\ncount = 2\n[[devices]]\ntype = "other"\n',
    )
    path.write_text(text)
    place = read_fleet(path, bundle=lambda folder: Bundle.read(folder).profile)
    jobs = [Job(network=NAME, first=k, last=k, batch=2, rate_per_s=9.0) for k in range(2)]
    plan = Plan(
        fleet=place.digest,
        objective="goodput",
        slo_ns=10**9,
        rate_per_s=9.0,
        pools=(
            Pool(type="board", devices=("board-0",), jobs=(jobs[0],)),
            Pool(type="other", devices=("other",), jobs=(jobs[0],)),
            Pool(type="board", devices=("board-1",), jobs=(jobs[1],)),
        ),
        routes=tuple(Route(network=NAME, pools=(k, 2), rate_per_s=4.5) for k in range(2)),
    )
    (tmp_path / "plan.json").write_text(plan.dumps())
    with pytest.raises(BundleError, match=r"behind model 'small\.0-0', and the bundles of .* differ: thresholds"):
        Roster.read(path, tmp_path / "plan.json")


def test_jobs_that_end_inside_a_stage_are_refused() -> None:
    toy = toy_fleet(2)
    jobs = [Job(network="toy", first=0, last=0, batch=2, rate_per_s=9.0), Job(network="toy", first=1, last=3, batch=2)]
    pools = tuple(Pool(type="board", devices=(f"board-{k}",), jobs=(job,)) for k, job in enumerate(jobs))
    plan = Plan(
        fleet=toy.digest, objective="goodput", slo_ns=10**9, pools=pools, rate_per_s=9.0,
        routes=(Route(network="toy", pools=(0, 1), rate_per_s=9.0),),
    )  # fmt: skip
    with pytest.raises(DriverUsageError, match="must begin and end at an exit, and one does at block 0"):
        duties_of(plan, toy)
