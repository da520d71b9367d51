"""Boards are killed, stopped and lie under load; the module's own command runs the long campaigns."""

import importlib.util
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from campaigns import fleet as campaign
from campaigns import strikes
from fleet_worlds import slow_world
from host_worlds import HOUR_NS, PATIENCE_S
from oip_worlds import bundle_of

from fluidnpu.host.fleet import BoardOptions, DispatchOptions, FleetOptions
from fluidnpu.host.fleet.boards.children import environment


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("fluidnpu").setLevel(logging.NOTSET)


PATIENT = FleetOptions(boards=BoardOptions(slo_ns=HOUR_NS), dispatch=DispatchOptions(**strikes.PATIENT))


def test_boards_that_are_killed_or_stopped_or_cut_off_lose_nothing(tmp_path: Path) -> None:
    w = slow_world()
    found = campaign.run_campaign(
        bundle_of(w, tmp_path / "b"), w.images(16), 3, boards=2, every_s=0.4, clients=2, pause_s=0.02, options=PATIENT
    )
    assert found.clean, found.summary()
    assert set(found.faults) == {"killed", "stopped", "cut"}
    assert found.right == found.served, "every answer that left the front once reached a client once"
    assert found.counts.get("resent", 0) > 0, "a fault met a board that was at work"


def test_a_front_that_is_killed_loses_no_request(tmp_path: Path) -> None:
    """Boards and clients outlive it; what it had not answered is asked of the next one."""
    w = slow_world()
    found = campaign.run_campaign(
        bundle_of(w, tmp_path / "b"),
        w.images(16),
        4,
        boards=2,
        every_s=0.3,
        clients=2,
        pause_s=0.02,
        front=True,
        options=PATIENT,
    )
    assert found.clean, found.summary()
    assert found.faults["front killed"] == 1
    assert found.again > 0, "its clients had to ask again"
    assert {one["state"] for one in found.boards.values()} <= {"READY", "STARTING", "HUNG", "LOST"}


def test_a_lying_board_is_found_and_named(tmp_path: Path) -> None:
    """Every tenth of its answers is asked again elsewhere; all are wrong, so the first audit finds it.

    How many it gives until then is a matter of how fast the other board answers the audit. Nobody is taken
    for hung, however busy the machine is.
    """
    w, every, clients = slow_world(), 10, 2
    dispatch = DispatchOptions(audit_every=every, allowance_s=PATIENCE_S, hold_s=PATIENCE_S)
    options = FleetOptions(boards=BoardOptions(slo_ns=HOUR_NS), dispatch=dispatch)
    found = campaign.run_campaign(
        bundle_of(w, tmp_path / "b"),
        w.images(16),
        0,
        boards=1,
        requests=200,
        clients=clients,
        lying=1.0,
        options=options,
    )
    liar, honest = found.boards["board-1"], found.boards["board-0"]
    assert liar["state"] == "SICK", found.summary()
    assert "wrong bits" in liar["reason"]
    assert liar["became_sick"] == 1, "it stays out"
    assert honest["state"] == "READY"
    assert honest.get("wrong", 0) == 0
    assert "audits_agreed" not in found.counts, "no audit came back before it was found"
    under_way = 4 * clients  # the windows of its clients
    believed = liar["answers"] - liar.get("ignored", 0)
    assert found.counts.get("audits_differed", 0) > 0, "an audit told it apart"
    assert found.wrong <= believed <= every * (liar.get("audited", 0) + 1) + under_way, found.summary()
    assert not found.errors
    assert not found.doubled


IN_ACTORS = """
import json, logging, sys
import numpy as np
from campaigns import fleet as campaign

logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)
images = np.load(sys.argv[2])
found = campaign.run_campaign(sys.argv[1], images, 4, boards=2, every_s=2, clients=2, pause_s=0.02, engine="ray")
print(json.dumps({**found.summary(), "clean": found.clean}))
"""


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'")
def test_actors_and_nodes_of_ray_are_struck_and_lose_nothing(tmp_path: Path) -> None:
    """In a process of its own, since Ray takes signals."""
    w = slow_world()
    np.save(tmp_path / "images.npy", w.images(16))
    words = [sys.executable, "-c", IN_ACTORS, str(bundle_of(w, tmp_path / "b")), str(tmp_path / "images.npy")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])  # Ray may have had its say before
    assert found["clean"], found
    assert found["right"] == found["served"]
    assert set(found["faults"]) == {"killed", "node killed", "stopped", "node stopped"}
    assert found["fleet"]["resent"] > 0


@pytest.mark.long
def test_many_faults_lose_nothing(tmp_path: Path) -> None:
    w = slow_world()
    found = campaign.run_campaign(bundle_of(w, tmp_path / "b"), w.images(16), 40, boards=3, seed=2, options=PATIENT)
    assert found.clean, found.summary()
    assert found.right == found.served
