"""A small campaign of failures through the network; the module's own command runs the large one."""

import logging
import random
from pathlib import Path

import pytest
from campaigns import requests as campaign
from campaigns.faulty import FaultyDevice, Mischief, Mishap, random_mishaps
from host_worlds import HostWorld, world
from oip_worlds import bundle_of
from rtl_worlds import RtlWorld, rtl_world

from fluidnpu.host import Bundle, DeviceError, Driver, SimulatedNpu
from fluidnpu.host.serving import ModelOptions


def campaigned(folder: Path, faults: int, seed: int) -> campaign.Findings:
    w = world(3, loaded=False)
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)
    try:
        return campaign.run_campaign(bundle_of(w, folder / "b"), w.images(24), faults, seed=seed, clients=4)
    finally:
        logging.getLogger("fluidnpu").setLevel(logging.NOTSET)


def check(found: campaign.Findings, faults: int) -> None:
    assert sum(found.struck.values()) == faults
    assert (found.wrong, found.unanswered) == (0, 0)
    assert found.right > 0
    assert set(found.errors) <= {
        "GaveUpError",
        "ServerClosedError",
        "DeviceAccessError",
        "ModelUnavailableError",
        "NpuTimeout",
    }
    assert len(found.recovered_ms) > faults // 2
    assert set(found.summary()) >= {"recovery_ms", "wrong", "unanswered"}


def test_no_answer_is_wrong_or_missing(tmp_path: Path) -> None:
    check(campaigned(tmp_path, 30, seed=1), 30)


@pytest.mark.long
def test_no_answer_of_many_is_wrong_or_missing(tmp_path: Path) -> None:
    check(campaigned(tmp_path, 600, seed=2), 600)


def test_without_the_guard_the_campaign_finds_wrong_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard keeps answers right: a shifted slot address goes unnoticed without it."""
    w = world(3, loaded=False)
    shifted = 2 + 7 * 6  # bit 6 of SLOT_BASE_LO
    mishaps = [Mishap(kind=Mischief.DAMAGED_REGISTER, job=2, place=shifted)]
    monkeypatch.setattr(campaign, "random_mishaps", lambda count, rng: mishaps)
    monkeypatch.setattr(campaign, "ModelOptions", lambda guarded, **options: ModelOptions(guarded=False, **options))
    found = campaign.run_campaign(bundle_of(w, tmp_path / "b"), w.images(24), 1, clients=2, nuisance=False)
    assert found.wrong > 0


def test_every_kind_strikes_once() -> None:
    w = world(3, loaded=False)
    for kind in Mischief:
        npu = FaultyDevice(SimulatedNpu(w.design), [Mishap(kind=kind, job=0, place=5)])
        driver = Driver(npu, w.program, w.design, guarded=True)
        driver.load()
        driver.write_sample(0, w.images(1)[0])
        driver.activate((0,))
        try:
            driver.run_stage(0)
        except DeviceError:
            npu.clock.sleep_until(npu.clock.now_ns() + 10**9)
            driver.recover()
        assert [one.kind for one in npu.struck] == [kind]


def endured(npu: FaultyDevice, w: HostWorld | RtlWorld, **options: float) -> campaign.Findings:
    images, bundle = w.images(24), Bundle(design=w.design, program=w.program)
    return campaign.endure(npu, bundle, images, campaign.answers_of(bundle, images), **options)


def of_each_kind() -> list[Mishap]:
    """Every kind, in both ways of a hang and of an error; each is over before the next."""
    kinds = [(kind, place) for kind in Mischief for place in (5, 6)]
    return [Mishap(kind=kind, job=2 + 8 * index, place=place) for index, (kind, place) in enumerate(kinds)]


@pytest.mark.parametrize("device", ["simulated", "rtl"])
def test_every_kind_is_endured(device: str) -> None:
    """On a device with a clock of its own; the RTL meets damages and errors in its own logic."""
    w = world(3, loaded=False) if device == "simulated" else rtl_world()
    npu = FaultyDevice(w.npu if isinstance(w, HostWorld) else w.device, of_each_kind())
    found = endured(npu, w, patience=16.0 if device == "simulated" else 20_000.0)
    assert [one.kind for one in npu.struck] == [kind for kind in Mischief for _ in range(2)]
    assert found.wrong == 0
    assert found.right >= campaign.ENDURED
    assert len(found.recovered_ms) == len(npu.struck)
    assert set(found.errors) <= {"GaveUpError"}


@pytest.mark.long
def test_many_faults_on_the_rtl() -> None:
    w = rtl_world()
    found = endured(FaultyDevice(w.device, random_mishaps(300, random.Random(0))), w, patience=20_000.0)
    assert (found.wrong, sum(found.struck.values())) == (0, 300)
