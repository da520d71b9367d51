"""Boards are killed, stopped and lie under load; the module's own command runs the long campaigns."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_worlds import slow_world
from oip_worlds import bundle_of

from fluidnpu.host.fleet import BoardOptions, DispatchOptions, FleetOptions, campaign


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("fluidnpu").setLevel(logging.NOTSET)


def test_killed_and_stopped_boards_lose_nothing(tmp_path: Path) -> None:
    w = slow_world()
    found = campaign.run_campaign(
        bundle_of(w, tmp_path / "b"), w.images(16), 3, boards=2, every_s=0.4, clients=2, pause_s=0.02
    )
    assert found.clean, found.summary()
    assert set(found.faults) == {"killed", "stopped"}
    assert found.right == found.served, "every answer that left the front once reached a client once"
    assert found.counts["resent"] > 0


def test_a_lying_board_is_found_and_named(tmp_path: Path) -> None:
    """Every tenth of its answers is asked again elsewhere, so it is found within ten where all are wrong."""
    w = slow_world()
    options = FleetOptions(boards=BoardOptions(slo_ns=10**9), dispatch=DispatchOptions(audit_every=10))
    found = campaign.run_campaign(
        bundle_of(w, tmp_path / "b"), w.images(16), 0, boards=1, requests=200, clients=2, lying=1.0, options=options
    )
    liar, honest = found.boards["board-1"], found.boards["board-0"]
    assert liar["state"] == "SICK", found.summary()
    assert "wrong bits" in liar["reason"]
    assert liar["became_sick"] == 1, "it stays out"
    assert honest["state"] == "READY"
    assert honest.get("wrong", 0) == 0
    assert 0 < found.wrong <= liar["answers"] <= 10 + 8, "found within its first ten, and what was under way"
    assert not found.errors
    assert not found.doubled


@pytest.mark.long
def test_many_faults_lose_nothing(tmp_path: Path) -> None:
    w = slow_world()
    found = campaign.run_campaign(bundle_of(w, tmp_path / "b"), w.images(16), 40, boards=3, seed=2)
    assert found.clean, found.summary()
    assert found.right == found.served
