"""Several fronts over the same boards: what each knows by itself, and what holds over all of them."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from fleet_scripts import Doubles, Scripted, ask, call, gated, logits, run
from fleet_worlds import slow_world
from oip_worlds import bundle_of
from test_host_fleet_plans import TIMES as TWO
from test_host_fleet_plans import TURNS

from fluidnpu.host.errors import ServerClosedError
from fluidnpu.host.fleet import Leaf
from fluidnpu.host.fleet.boards.children import environment
from fluidnpu.host.fleet.boards.leaf import BoardState
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.fleet.fronts.homes import rank_homes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "three-servers.md").read_text(encoding="utf-8")
Work = Callable[[Dispatcher, Dispatcher], Awaitable[None]]


def of_two(links: list[Scripted], work: Work, **options: object) -> None:
    """Run a coroutine between two dispatchers over the same boards."""

    async def both(first: Dispatcher) -> None:
        leaves = [
            Leaf(name=one.name, address=one.address, link=one.link, times=one.times, duties=one.duties)
            for one in first.leaves
        ]
        second = Dispatcher(leaves, {model: Doubles() for model in leaves[0].times}, first.options)  # type: ignore[misc]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(second.close)
            await second.start()
            await work(first, second)
            assert second.waiting == 0

    run(links, both, **options)  # type: ignore[arg-type]


def test_a_repeat_at_another_front_asks_the_same_board_for_the_same() -> None:
    """The first front goes before it has the answer; the board knows the key, and would answer at once."""
    links = [Scripted(name, gated) for name in "abcd"]
    order = call(*range(9), idempotency_key="order-7")
    order.outputs = ("label",)

    async def work(first: Dispatcher, second: Dispatcher) -> None:
        asked = asyncio.ensure_future(ask(first, order))
        await asyncio.sleep(0.002)
        before = {one.name: one.asked[0] for one in links if one.asked}
        assert sum(len(one.asked) for one in links) == 3, "pieces of four, four and one"
        await first.close()
        with pytest.raises(ServerClosedError):
            await asked
        for one in links:
            one.acts, one.asked = [], []
        answer = await ask(second, order)
        assert answer.outputs["label"].tolist() == [1] * 9
        again = {one.name: one.asked[0] for one in links if one.asked}
        assert again.keys() == before.keys()
        for name, message in again.items():
            old = before[name]
            assert message.parameters["idempotency_key"] == old.parameters["idempotency_key"]
            assert [one.name for one in message.outputs] == [one.name for one in old.outputs]
            assert message.raw_input_contents == old.raw_input_contents

    of_two(links, work, audit_every=2, allowance_s=10.0)


def test_keys_have_homes_all_over_the_boards_and_few_move() -> None:
    boards = {f"board-{number}": 0.0 for number in range(5)}
    homes = {f"key-{number}": rank_homes(f"key-{number}", boards)[0] for number in range(1000)}
    assert all(150 < count < 250 for count in Counter(homes.values()).values())
    fewer = {name: rate for name, rate in boards.items() if name != "board-3"}
    assert all(home == "board-3" or rank_homes(key, fewer)[0] == home for key, home in homes.items())
    planned = Counter(rank_homes(key, {"fast": 3.0, "slow": 1.0})[0] for key in homes)
    assert 700 < planned["fast"] < 800


@pytest.mark.parametrize("spread", [True, False])
def test_turns_hold_over_fronts_where_each_has_requests_of_all_networks(spread: bool) -> None:
    """Each front sends its turns by the plan; one that has one network only does not know of the other's."""
    link = Scripted("a", *[gated] * 400)

    async def work(first: Dispatcher, second: Dispatcher) -> None:
        asked = []
        for turn in range(120):
            for at, model in enumerate(("big", "small")):
                front = (first, second)[turn % 2 if spread else at]
                asked.append(asyncio.ensure_future(ask(front, call(turn, turn, model=model))))
        spent: Counter[str] = Counter()
        for turn in range(80):
            await asyncio.sleep(0.002)
            model = link.asked[turn].model_name
            spent[model] += 6 if model == "big" else 2
            link.gate.release()
        share = spent["big"] / spent.total()
        assert (abs(share - 0.75) < 0.03) == spread, share
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    of_two([link], work, times=TWO, duties={"a": TURNS}, allowance_s=100.0, queue=10_000)


def test_each_front_audits_its_own_answers_and_finds_the_board_that_lies() -> None:
    links = [Scripted("a"), Scripted("b")]
    links[0].wrong = 1.0

    async def work(first: Dispatcher, second: Dispatcher) -> None:
        for front in (first, second):
            while front.leaves[0].state is not BoardState.SICK:
                await ask(front, call(3))
                await asyncio.sleep(0.001)
            assert logits(await ask(front, call(3))) == [[6.0, 8.0]]

    of_two(links, work, audit_every=3, allowance_s=10.0)


def _file(name: str) -> str:
    found = re.search(rf'title="{name}"\n(.*?)```', PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed")
def test_haproxy_takes_the_file_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "haproxy.cfg").write_text(_file("haproxy.cfg"), encoding="utf-8")
    done = subprocess.run(["haproxy", "-c", "-f", "haproxy.cfg"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "warning" in done.stderr.lower()) == (0, False), done.stderr


def test_envoys_file_has_the_fronts_of_haproxys() -> None:
    yaml = pytest.importorskip("yaml")
    file = yaml.safe_load(_file("envoy.yaml"))
    (cluster,) = file["static_resources"]["clusters"]
    (group,) = cluster["load_assignment"]["endpoints"]
    places = [one["endpoint"]["address"]["socket_address"] for one in group["lb_endpoints"]]
    theirs = re.search(r"\nbackend rest\n(.*?)\n\n", _file("haproxy.cfg"), re.DOTALL)
    assert theirs is not None
    ours = [f"{one['address']}:{one['port_value']}" for one in places]
    assert ours == re.findall(r"server \S+ (\S+)", theirs[1])
    assert cluster["health_checks"][0]["http_health_check"]["path"] in theirs[1]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed")
def test_boards_fronts_and_backends_are_struck_and_nothing_is_lost(tmp_path: Path) -> None:
    w = slow_world()
    np.save(tmp_path / "images.npy", w.images(16))
    words = [sys.executable, "-m", "campaigns.many_fronts", str(bundle_of(w, tmp_path / "bundle"))]
    words += [f"--images={tmp_path / 'images.npy'}", "--requests=2000", "--every=1.5"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["wrong"], found["doubled"], found["lost"]) == (0, 0, 0)
    assert set(found["longest_wait_s"]) == {
        *("board killed", "board stopped", "front killed", "front stopped", "backend out")
    }
