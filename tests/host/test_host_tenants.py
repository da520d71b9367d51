"""Tenants on a device: the simulator's schedule, a victim beside a flood, live changes over the network."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from host_worlds import PATIENCE_S, world
from hypothesis import given, settings
from hypothesis import strategies as st
from oip_worlds import NAME, Served, bundle_of, served
from tritonclient import grpc as triton_grpc

import fluidnpu
from fluidnpu.host import Driver, Reply, Server, serve_requests
from fluidnpu.host.errors import AccessError, DriverUsageError
from fluidnpu.host.oip import Client
from fluidnpu.host.serving import ModelOptions, ProtocolError
from fluidnpu.host.serving.model import Model
from fluidnpu.host.serving.options import modes_of
from fluidnpu.models import golden
from fluidnpu.models.exits.rule import confidence
from fluidnpu.scheduler import PolicyError, Request, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.exits import Criteria, ExitProfile, PowerModel, Recorded, RuledExits
from fluidnpu.scheduler.simulation import Terms
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant, measure_tenants, parse_tenants

RATES = (0.5, 0.2, 0.3)
TENANTS = """
interval = "100ms"
[tenant.doors]
share = 0.5
criteria = "exit_number == 1"
[tenant.cameras]
share = 0.25
"""


def tenancy_of(*names: str, **more: Any) -> Tenancy:
    return Tenancy(tenants=tuple(Tenant(name=n, share=1 / len(names), **more) for n in names), interval_ns=5000)


def roomy(seed: int, tenants: int) -> Any:
    """A world whose driver has a slot more for each tenant."""
    w = world(seed, exits=3, loaded=False)
    driver = Driver(w.driver.device, w.program, w.design, slots=w.design.b_max + tenants)
    driver.load()
    return w, driver


@settings(max_examples=25, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 2500), min_size=1, max_size=20),
    owners=st.lists(st.sampled_from(["a", "b", ""]), min_size=20, max_size=20),
    inner=st.sampled_from(["serial", "greedy", "fluid"]),
    terms=st.sampled_from([{}, {"borrow": False}, {"at_limit": "drop"}, {"mode": "per-workload", "cooperative": True}]),
)
def test_a_device_and_the_simulator_give_tenants_the_same_schedule(
    gaps: list[int], owners: list[str], inner: str, terms: dict[str, Any]
) -> None:
    w, driver = roomy(5, 2)
    requests = [Request(i, int(t), int(t) + 9000, owners[i]) for i, t in enumerate(np.cumsum(gaps))]
    images, profile = w.images(len(requests)), ExitProfile.of(w.design)
    tenancy = tenancy_of("a", "b", burst_ns=3000, **terms)

    def shared() -> tuple[Shared, Criteria]:
        criteria = Criteria(profile, "confidence > 0.35")
        modes = modes_of(tenancy.tenants, profile)
        return Shared(tenancy, inner, criteria=criteria, modes=modes), criteria

    policy, criteria = shared()
    done = serve_requests(requests, images, policy, driver, exit_rates=RATES, rule=criteria)
    done.schedule.check()
    logits = enumerate(golden.run(w.qnet, images))
    sure = np.stack([confidence(w.qnet.logits(i, stored)) for i, stored in logits]).T.tolist()
    policy, criteria = shared()
    exits = RuledExits(rule=criteria, confidences=dict(enumerate(sure)))
    told = World(latency=w.design.latency, exits=exits, exit_rates=RATES, slots=driver.slots)
    simulated = simulate(requests, policy, told)
    assert done.schedule == simulated
    assert done.schedule.because == simulated.because
    assert [reply.tenant for reply in done.replies] == owners[: len(requests)]


def test_a_victim_on_the_simulated_device_waits_a_stage_and_a_burst_longer_at_most() -> None:
    w, driver = roomy(3, 2)
    full, longest = w.design.latency.between(0, 2, 1), max(map(max, w.design.latency.ns))
    rng = np.random.default_rng(4)
    victims = np.cumsum(rng.exponential(8 * full, 40)).astype(int)

    def p99_ms(flooded: bool) -> float:
        flood = np.cumsum(rng.exponential(full / 4, 200)).astype(int) if flooded else []
        rows = sorted([(int(at), "victim") for at in victims] + [(int(at), "flood") for at in flood])
        requests = [Request(i, at, at + 10**9, name) for i, (at, name) in enumerate(rows)]
        policy = Shared(tenancy_of("victim", "flood", burst_ns=2 * full), "fluid")
        rule = Criteria(ExitProfile.of(w.design), "false")
        done = serve_requests(requests, w.images(len(requests)), policy, driver, exit_rates=RATES, rule=rule)
        return measure_tenants(done.schedule)["victim"].p99_ms

    assert p99_ms(flooded=True) <= p99_ms(flooded=False) + (longest + 2 * full) / 1e6


def test_a_victim_waits_for_one_run_of_a_flood_through_the_server() -> None:
    """Counted in runs that begin between its arrival and its first run, since wall time is noisy in CI."""
    w = world(3, exits=3, millis=True, loaded=False)
    driver = Driver(w.driver.device, w.program, w.design, slots=w.design.b_max + 2)
    driver.load()
    started: list[tuple[int, str]] = []

    class Notes:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def ran(self, run: Any, start_ns: int, end_ns: int, job: Any) -> None:
            started.append((start_ns, "victim" if any(r.tenant == "victim" for r in run.requests) else "flood"))

    image = w.images(1)[0]
    policy = Shared(tenancy_of("victim", "flood", burst_ns=10**9), "fluid")
    with Server(driver, policy, observers=[Notes()], rule=Criteria(ExitProfile.of(w.design), "false")) as server:
        flood: list[Future[Reply]] = []
        ebbs = threading.Event()

        def rises(_: object = None) -> None:
            """Keep as many of them waiting, however long this thread is held up."""
            if not ebbs.is_set():
                flood.append(server.submit(image, Terms(slo_ns=10**12, tenant="flood")))
                flood[-1].add_done_callback(rises)

        for _ in range(60):
            rises()
        flood[0].result(PATIENCE_S)  # the flood is under way
        victims: list[tuple[Reply, Future[Reply]]] = []
        for _ in range(5):
            asked = server.submit(image, Terms(slo_ns=10**12, tenant="victim"))
            victims.append((asked.result(PATIENCE_S), flood[-1]))
        ebbs.set()
        with pytest.raises(SchedulerError, match="a tenant must be one of victim, flood, not 'door'"):
            server.submit(image, Terms(slo_ns=10**9, tenant="door"))
    for reply, last in victims:
        between = [name for at, name in started if reply.arrival_ns < at < reply.start_ns]
        assert between.count("flood") <= 1
        assert reply.end_ns < last.result(PATIENCE_S).end_ns
    plain = Server(world(3, millis=True).driver, make_policy("fluid"))
    with plain, pytest.raises(DriverUsageError, match="without tenants"):
        plain.submit(image, Terms(slo_ns=10**9, tenant="victim"))


# -- over the network ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    surfaces, w = {"admin": 0, "admin_grpc": 0}, world(3, exits=3, loaded=False)
    with served(folder, w, surfaces=surfaces, tenancy=parse_tenants(TENANTS), decisions=folder / "decisions") as one:
        yield one


def tenants_of(s: Served, body: object = None) -> tuple[int, Any]:
    verb, raw = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
    status, content, _ = s.exchange(verb, f"/v2/models/{NAME}/tenants", raw, surface="admin")
    return status, json.loads(content)


def test_requests_say_whose_they_are_and_leave_by_their_tenants_criterion(s: Served) -> None:
    image = s.w.images(1)[0]
    with fluidnpu.connect(s.url) as npu:
        assert npu.infer(image, tenant="doors").left_because == "exit_number == 1"
        assert npu.infer(image, tenant="doors", criteria="exit_number == 2").left_because == "exit_number == 2"
        assert npu.infer(image, tenant="cameras").left_because != "exit_number == 1"
        assert npu.infer(image).left_because != "exit_number == 1"
        with pytest.raises(ProtocolError, match="a tenant must be one of doors, cameras, not 'attic'"):
            npu.infer(image, tenant="attic")
    status, answer = s.call("POST", f"/v2/models/{NAME}/infer", s.request(image, parameters={"tenant": 3}))
    assert (status, answer["error"]) == (400, "parameter 'tenant' must be a text of at most 256 characters, not 3")
    made = triton_grpc.InferInput(s.input, [1, *image.shape], "UINT8")
    made.set_data_from_numpy(image[None])
    with triton_grpc.InferenceServerClient(s.grpc_place) as client:
        found = client.infer(NAME, [made], parameters={"tenant": "doors"}).get_response()
        assert found.parameters["left_because"].string_param == "exit_number == 1"


def test_tenants_are_read_and_changed_live_on_the_admin_surface_only(s: Served) -> None:
    status, _ = s.call("GET", f"/v2/models/{NAME}/tenants")
    assert status == 403
    status, before = tenants_of(s)
    assert status == 200
    assert before["tenants"]["doors"]["share"] == 0.5
    assert before["tenants"][""]["share"] == 0.25
    change = {"criteria": "exit_number == 3", "tenants": {"doors": {"share": 0.25, "criteria": "exit_number == 2"}}}
    status, after = tenants_of(s, change)
    assert status == 200
    assert after["criteria"] == "exit_number == 3"
    image = s.w.images(1)[0]
    with fluidnpu.connect(s.url) as npu:
        assert npu.infer(image, tenant="doors").left_because == "exit_number == 2"
        s.model.load()  # what was changed outlives a reload
        assert npu.infer(image, tenant="doors").left_because == "exit_number == 2"
    _, now = tenants_of(s)
    assert now["tenants"]["doors"]["share_now"] == 0.25
    assert now["tenants"]["doors"]["answered"] > 0
    tenants_of(s, {"tenants": {"doors": {"share": 0.5, "criteria": "exit_number == 1"}}})


def by_grpc(s: Served, call: str, surface: str = "admin_grpc", **asked: object) -> Any:
    """A call of our own gRPC service, of JSON bytes."""
    with grpc.insecure_channel(s.server.url(surface)) as channel:
        return json.loads(
            channel.unary_unary(f"/fluidnpu.Tenants/{call}")(json.dumps(asked).encode(), timeout=PATIENCE_S)
        )


def test_grpc_reads_and_sets_tenants_as_rest_does(s: Served) -> None:
    assert by_grpc(s, "Tenants", model=NAME)["tenants"].keys() == tenants_of(s)[1]["tenants"].keys()
    usual = tenants_of(s)[1]["criteria"]
    change = {"doors": {"criteria": "exit_number == 2", "slo": "7ms"}}
    after = by_grpc(s, "ChangeTenants", model=NAME, criteria="exit_number == 3", tenants=change)
    assert (after["criteria"], after["tenants"]["doors"]["slo"]) == ("exit_number == 3", "7000000ns")
    image = s.w.images(1)[0]
    with fluidnpu.connect(s.url) as npu:
        assert npu.infer(image, tenant="doors").left_because == "exit_number == 2"
    by_grpc(s, "ChangeTenants", model=NAME, criteria=usual, tenants={"doors": {"criteria": "exit_number == 1"}})
    with fluidnpu.connect(s.url) as npu:
        assert npu.infer(image, tenant="doors").left_because == "exit_number == 1"


@pytest.mark.parametrize(
    ("ask", "code", "says"),
    [
        (lambda s: by_grpc(s, "Tenants", "grpc", model=NAME), "PERMISSION_DENIED", "on the admin surface"),
        (lambda s: by_grpc(s, "ChangeTenants", "grpc", model=NAME), "PERMISSION_DENIED", "on the admin surface"),
        (lambda s: by_grpc(s, "Tenants"), "INVALID_ARGUMENT", "model must be the name of a model"),
        (lambda s: by_grpc(s, "Tenants", model="attic"), "NOT_FOUND", "must be one of small, not 'attic'"),
        (lambda s: by_grpc(s, "ChangeTenants", model=NAME, shares=1), "INVALID_ARGUMENT", "not shares"),
        (
            lambda s: by_grpc(s, "ChangeTenants", model=NAME, tenants={"doors": {"share": 0.9}}),
            "INVALID_ARGUMENT",
            "sum to at most 1, not 1.15",
        ),
    ],
)
def test_grpc_refuses_in_one_sentence(s: Served, ask: Callable[[Served], Any], code: str, says: str) -> None:
    with pytest.raises(grpc.RpcError, match=says) as refused:
        ask(s)
    assert refused.value.code().name == code


def test_the_client_reads_and_sets_tenants(s: Served) -> None:
    with fluidnpu.connect(s.server.url("admin")) as npu:
        usual = npu.tenants()["criteria"]
        after = npu.change_tenants({"cameras": {"share": 0.125}}, criteria="exit_number == 3")
        assert (after["criteria"], after["tenants"]["cameras"]["share"]) == ("exit_number == 3", 0.125)
        assert npu.change_tenants({"cameras": {"share": 0.25}})["criteria"] == "exit_number == 3"
        assert npu.change_tenants(criteria=usual)["tenants"]["cameras"]["share"] == 0.25
        with pytest.raises(ProtocolError, match="a tenant must be one of doors, cameras, not 'attic'"):
            npu.change_tenants({"attic": {"share": 0.1}})
    with fluidnpu.connect(s.url) as npu, pytest.raises(AccessError, match="admin surface"):
        npu.tenants()


def test_a_mode_and_its_target_are_set_live(tmp_path: Any) -> None:
    """A tenant whose criterion was fixed follows a target accuracy from the next decision on, and back."""
    recorded = Recorded(confidences=[[0.4, 0.6, 0.9]] * 200, correct=[[0, 1, 1]] * 180 + [[0, 0, 1]] * 20)
    options: dict[str, Any] = {"tenancy": parse_tenants(TENANTS), "recorded": {"": recorded}}
    with served(tmp_path, world(3, exits=3, loaded=False), surfaces={"admin": 0}, **options) as one:
        image = one.w.images(1)[0]
        with fluidnpu.connect(one.server.url("admin")) as admin, fluidnpu.connect(one.url) as npu:
            assert npu.infer(image, tenant="doors").left_because == "exit_number == 1"
            for accuracy, exit in ((0.85, 2), (0.99, 3)):  # the second exit has 0.9, the last all
                target = {"mode": "per-workload", "accuracy": accuracy, "rate": 0.001}
                assert admin.change_tenants({"doors": target})["tenants"]["doors"]["accuracy"] == accuracy
                said = "last exit" if exit == 3 else f"exit_number == {exit}"
                assert npu.infer(image, tenant="doors").left_because == said
            changed = admin.change_tenants({"doors": {"mode": "fixed", "criteria": "exit_number == 1"}})
            assert "accuracy" not in changed["tenants"]["doors"]
            assert npu.infer(image, tenant="doors").left_because == "exit_number == 1"
            with pytest.raises(ProtocolError, match="accuracy is the target of a mode, and its mode is fixed"):
                admin.change_tenants({"doors": {"accuracy": 0.9}})
            assert npu.infer(image, criteria="accuracy > 0.85").exit == 1  # it is known from the samples


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"shares": {}}, "a change may have criteria and tenants, not shares"),
        ({"criteria": 3}, "criteria must be a text of at most 4096 characters, not 3"),
        ({"criteria": "sure"}, "a criterion must have"),
        ({"criteria": "energy > 1mJ"}, "power model of the board"),
        ({"tenants": [1]}, "an object for each tenant by its name"),
        ({"tenants": {"attic": {"share": 0.1}}}, "a tenant must be one of doors, cameras, not 'attic'"),
        ({"tenants": {"doors": {"share": 0.9}}}, "shares of all tenants must sum to at most 1, not 1.15"),
        ({"tenants": {"doors": {"speed": 1}}}, "tenant 'doors' may have share"),
        ({"tenants": {"doors": {"mode": "pareto"}}}, "must have recorded confidences"),
        ({"tenants": {"doors": {"mode": "per-workload", "accuracy": 0.9}}}, "a target accuracy must have recorded"),
        ({"tenants": {"doors": {"mode": "per-workload", "accuracy": 2}}}, "accuracy must be a number in 0..1, not 2"),
    ],
)
def test_a_wrong_change_is_one_sentence_and_changes_nothing(s: Served, body: object, says: str) -> None:
    _, before = tenants_of(s)
    status, answer = tenants_of(s, body)
    assert status == 400
    assert says in answer["error"]
    _, after = tenants_of(s)
    assert {k: v["share"] for k, v in after["tenants"].items()} == {k: v["share"] for k, v in before["tenants"].items()}
    assert after["criteria"] == before["criteria"]


def test_metrics_by_tenant(s: Served) -> None:
    with fluidnpu.connect(s.url) as npu:
        npu.infer(s.w.images(1)[0], tenant="cameras")
    _, text = s.call("GET", "/metrics")
    text = text.decode() if isinstance(text, bytes) else text
    assert f'fluidnpu_tenant_requests_total{{model="{NAME}",outcome="exit",tenant="cameras"}}' in text
    assert f'fluidnpu_tenant_npu_seconds_total{{model="{NAME}",tenant="cameras"}}' in text
    assert f'fluidnpu_tenant_share{{model="{NAME}",tenant="cameras"}} 0.25' in text


def test_a_model_refuses_tenants_that_do_not_fit(tmp_path: Any) -> None:
    folder = bundle_of(world(3, exits=3, loaded=False), tmp_path / "small")
    for text, says in (
        ("[tenant.a]\nshare = 1\nmode = 'pareto'", "recorded confidences"),
        ("[tenant.a]\nshare = 1\ncriteria = 'accuracy > 0.5'", "accuracy of each exit"),
    ):
        model = Model("small", folder, ModelOptions(tenancy=parse_tenants(text)))
        with pytest.raises(SchedulerError, match=says):
            model.load()
    model = Model("small", folder)
    with pytest.raises(ProtocolError, match="has no tenants"):
        model.check_tenant("a")


def crowd(npu: Client, images: Any, tenants: Sequence[str]) -> None:
    """Ask for every image at once, so that tenants want the NPU at the same time."""
    with ThreadPoolExecutor(8) as pool:
        for one in [pool.submit(npu.infer, x, tenant=t) for x, t in zip(images, tenants, strict=True)]:
            one.result(PATIENCE_S)


def test_the_turns_of_tenants_are_asked_again_from_the_log(s: Served) -> None:
    """With a change of shares in the middle, and found out where the log tells other shares than there
    were.
    """
    s.model.load()  # a log of its own
    images, owners = s.w.images(24), ["doors", "cameras", ""] * 8
    with fluidnpu.connect(s.url) as npu, fluidnpu.connect(s.server.url("admin")) as admin:
        crowd(npu, images, owners)
        admin.change_tenants({"cameras": {"share": 0.125, "burst": "1us"}, "doors": {"burst": "1us"}})
        crowd(npu, images, owners)
        admin.change_tenants({"cameras": {"share": 0.25, "burst": "50ms"}, "doors": {"burst": "50ms"}})
    folder = s.model.options.decisions
    assert folder is not None
    s.model.unload()
    lines = (folder / f"{NAME}.jsonl").read_text().splitlines()
    s.model.load()
    relived = replay_live(lines)
    assert (relived.requests, relived.asked) == (48, relived.decisions)
    anew = next(i for i, line in enumerate(lines) if '"shared"' in line and i)
    assert json.loads(lines[anew])["shared"]["tenants"]["cameras"]["share"] == 0.125
    told = json.loads(lines[0])
    # After its first run such a tenant waits for years, so even a machine that sends images slowly sees it.
    told["shared"]["tenants"]["cameras"] |= {"borrow": False, "burst": "1ns", "share": 1e-9}
    with pytest.raises(PolicyError, match=r"decision .* was .* by the log"):
        replay_live([json.dumps(told), *lines[1:]])
    old = [json.dumps(json.loads(lines[0]) | {"shared": True}), *lines[1:]]  # as logs were: the rules alone
    assert (replay_live(old).decisions, replay_live(old).asked) == (relived.decisions, 0)


def test_an_energy_budget_is_asked_again_from_the_log(tmp_path: Any) -> None:
    """The NPU waits where the battery is empty, and the log tells with how many watts that was reckoned."""
    text = TENANTS + "[energy]\nover_idle = 1.0001\nbattery = '0.000001mJ'"
    options: dict[str, Any] = {"tenancy": parse_tenants(text), "power": PowerModel(idle_w=1.0, active_w=3.0)}
    with served(tmp_path, world(3, exits=3, loaded=False), decisions=tmp_path / "log", **options) as one:
        with fluidnpu.connect(one.url) as npu:
            crowd(npu, one.w.images(9), ["doors", "cameras", ""] * 3)
        one.model.unload()
    lines = (tmp_path / "log" / f"{NAME}.jsonl").read_text().splitlines()
    assert any("the energy budget is spent" in line for line in lines)
    assert replay_live(lines).asked > 0
    other = json.dumps(json.loads(lines[0]) | {"power_w": [1.0, 1.5]})
    with pytest.raises(PolicyError, match="the energy budget is spent"):
        replay_live([other, *lines[1:]])
