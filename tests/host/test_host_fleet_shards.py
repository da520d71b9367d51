"""Fleets in shards: how boards are cut, what a shard is predicted to do, and Ray's actors under SIGKILL."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from campaigns.cluster import LocalCluster, tree
from fleet_worlds import fleet_file, plan_of, slow_world
from host_worlds import PATIENCE_S, HostWorld, eventually
from hypothesis import given
from hypothesis import strategies as st

import fluidnpu
from fluidnpu.dse import LatencyTable
from fluidnpu.host import DriverUsageError
from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet import FleetOptions, Roster, ShardedFront, ShardOptions
from fluidnpu.host.fleet.boards.leaf import Times
from fluidnpu.host.fleet.fronts.shards import cut
from fluidnpu.host.fleet.roster import Seat
from fluidnpu.host.oip import Limits
from fluidnpu.models import golden

DEVICES = '[[devices]]\ntype = "board"\ncount = 3\n'


@given(st.integers(1, 200), st.integers(1, 70))
def test_boards_are_cut_evenly_and_none_is_left_out(boards: int, most: int) -> None:
    seats = [Seat(name=str(k), address="", folders={}, bundles={}) for k in range(boards)]
    shards = cut(seats, most)
    assert [seat for one in shards.values() for seat in one] == seats
    sizes = [len(one) for one in shards.values()]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(shards) == -(-boards // most)


def test_a_shard_is_as_fast_as_its_boards_together() -> None:
    quick = Times.of(LatencyTable(ns=((10**6, 15 * 10**5),)), (1.0,))
    slow = Times.of(LatencyTable(ns=((4 * 10**6, 5 * 10**6, 6 * 10**6),)), (1.0,))
    both = Times.of_many([quick, slow])
    assert both.b_max == 5
    assert both.whole_s == (0.004, 0.004, 0.005, 0.005, 0.006), "ceil(n / 2) each, and the slower one ends last"
    assert 1 / both.sample_s == pytest.approx(1 / quick.sample_s + 1 / slow.sample_s)
    assert Times.of_many([slow]) == slow


def test_a_roster_of_some_boards(tmp_path: Path) -> None:
    roster = Roster.read(fleet_file(tmp_path, DEVICES))
    assert [seat.name for seat in roster.only({"board-0", "board-2"}).seats] == ["board-0", "board-2"]


def test_shards_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fleet_file(tmp_path, DEVICES)
    with pytest.raises(DriverUsageError, match="at least one board, not 0"):
        ShardOptions(boards=0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DriverUsageError, match="needs Ray, which is not installed"):
        ShardedFront(Roster.read(path), FleetOptions(), Limits(), "0", file=path)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'")
def test_an_actor_that_is_killed_is_restarted_and_nobody_notices(tmp_path: Path) -> None:
    """In a process of its own. Ray gives its raylet 30 s to start, which a busy machine may not keep."""
    w = slow_world()
    path, images = fleet_file(tmp_path, DEVICES, w), w.images(8)
    _, classes, _ = golden.early_exit(w.qnet, images)
    right = _logits(w, images)
    process, url = _started(path)
    try:
        with fluidnpu.connect(url, timeout_s=PATIENCE_S) as npu:
            answer = npu.infer(images)
            assert answer.outputs["label"].tolist() == classes.tolist()
            assert str(answer.parameters["board"]).startswith("shard-"), "a shard, and its boards"
            before = _boards(url)
            assert sorted(before) == ["shard-0", "shard-1"]
            os.kill(before["shard-0"]["pid"], signal.SIGKILL)
            pid = before["shard-0"]["pid"]
            _ask_until(npu, images, right, lambda: _boards(url)["shard-0"]["pid"] != pid)
            _ask_until(npu, images, right, lambda: _boards(url)["shard-0"]["state"] == "READY")
            # The new actor must be asked, too: a shard that was slow is asked less, and not never.
            eventually(lambda: str(npu.infer(images[0]).parameters["board"]).startswith("shard-0/"))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, "it drains at SIGTERM"


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'")
def test_a_node_that_is_lost_costs_no_answer_and_its_shard_moves(tmp_path: Path) -> None:
    """Three nodes have room for a shard each, and there are two: what was on one goes to the third."""
    w = slow_world()
    path, images = fleet_file(tmp_path, DEVICES.replace("3", "4"), w), w.images(8)
    right = _logits(w, images)
    with LocalCluster(3, 2) as cluster:
        process, url = _started(path, "--ray-address", cluster.address)
        try:
            with fluidnpu.connect(url, timeout_s=PATIENCE_S) as npu:
                before = _boards(url)["shard-0"]
                cluster.order("lose", before["node"])
                _ask_until(npu, images, right, lambda: _boards(url)["shard-0"]["state"] != "READY")
                _ask_until(npu, images, right, lambda: _boards(url)["shard-0"]["state"] == "READY")
                after = _boards(url)["shard-0"]
                assert after["node"] not in (before["node"], _boards(url)["shard-1"]["node"]), "the spare one"
                assert after["pid"] != before["pid"]
                with pytest.raises(BoardError, match="must be known to the cluster"):
                    cluster.order("stop", before["node"])
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'")
def test_a_network_in_parts_is_handed_from_shard_to_shard_and_outlives_a_kill(tmp_path: Path) -> None:
    """The first part is in one shard alone, the second in both; the front above joins them."""
    w = slow_world()
    path, images = fleet_file(tmp_path, DEVICES, w), w.images(8)
    plan, right = plan_of(path, (0, 0, 4, "on"), (1, 1, 4, "on"), devices=(1, 2)), _logits(w, images)
    process, url = _started(path, "--plan", str(plan))
    try:
        with fluidnpu.connect(url, timeout_s=PATIENCE_S) as npu:
            answer = npu.infer(images)
            assert [row.tobytes() for row in answer.outputs["logits"]] == right
            assert len(set(answer.outputs["exit"])) == 2, "some go on to the second part"
            assert {board.split("/")[1].strip() for board in answer.parameters["board"].split(", ")} >= {"board-0"}
            before = _boards(url)["shard-0"]["pid"]
            os.kill(before, signal.SIGKILL)  # it alone has the first part, so requests wait for its return
            _ask_until(npu, images, right, lambda: _boards(url)["shard-0"]["pid"] != before)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_all_processes_of_a_node_are_found_below_its_first() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        eventually(lambda: len(tree(shell.pid)) == 3)
        found = tree(shell.pid)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
    assert found[0] == shell.pid
    assert len(found) == 3


def _logits(w: HostWorld, images: Any) -> list[bytes]:
    """Return the golden model's logits of each image at its exit, as bytes."""
    exits, _, _ = golden.early_exit(w.qnet, images)
    stored = golden.run(w.qnet, images)
    return [np.float32(w.qnet.logits(exit, stored[exit])[row]).tobytes() for row, exit in enumerate(exits)]


def _ask_until(npu: Any, images: Any, right: list[bytes], done: Callable[[], bool]) -> None:
    """Ask again and again, and have every answer right; once more when it is done."""
    until, more = time.monotonic() + 3 * PATIENCE_S, True
    while more:
        more = not done()
        assert [npu.infer(image).logits.tobytes() for image in images] == right
        assert time.monotonic() < until, "it must happen in time"


def _started(path: Path, *more: str) -> tuple[Any, str]:
    words = ["fleet", str(path), "--engine", "ray", "--shard", "2", "--http", "0", "--slo", "5s", "--json"]
    words, said = [*words, *more], ""
    for _ in range(3):  # Ray may not start in its time
        process = subprocess.Popen(
            [sys.executable, "-c", "from fluidnpu.cli import main; main()", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if line:
            return process, str(json.loads(line)["urls"]["http"])
        said = process.communicate()[1]
        if "timed out during startup" not in said:
            break
    raise AssertionError(said)


def _boards(url: str) -> dict[str, Any]:
    with urlopen(url + "/live.json") as answer:
        return {one["name"]: one for one in json.load(answer)["boards"]}
