"""One way to a device by name: simulated with and without PYNQ, and the refusals."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from host_worlds import World, traffic_of, world

from host import (
    Bundle,
    BundleError,
    Driver,
    DriverUsageError,
    PynqMissingError,
    Server,
    SimulatedNpu,
    WallClock,
    open_device,
    serve,
)
from host import pynq_device as lazily
from models import golden
from scheduler import make_policy


@pytest.fixture
def w() -> World:
    return world(3)


def bundle_of(w: World) -> Bundle:
    return Bundle(design=w.design, program=w.program)


@pytest.mark.parametrize("board", ["zc706", "zcu104", "mine"])
def test_simulated_boards_serve(w: World, board: str) -> None:
    design = replace(w.design, board=board)
    bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    requests, images = traffic_of(w, 5), w.images(5)
    with open_device("simulated", bundle) as device:
        driver = Driver(device, bundle.program, bundle.design)
        driver.load()
        served = serve(requests, images, make_policy("greedy"), driver)
    assert served == serve(requests, images, make_policy("greedy"), w.driver)


def test_without_pynq_the_simulated_npu_is_used_directly(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lazily._pynq.cache_clear()
    lazily.pynq_classes.cache_clear()
    try:
        monkeypatch.setitem(sys.modules, "pynq", None)
        with open_device("simulated", bundle_of(w)) as device:
            assert isinstance(device, SimulatedNpu)
        with pytest.raises(PynqMissingError):
            lazily.simulated_pynq_device()
    finally:
        monkeypatch.undo()
        lazily._pynq.cache_clear()
        lazily.pynq_classes.cache_clear()


def test_a_live_server_through_the_simulated_board() -> None:
    w = world(3, millis=True)
    images = w.images(12)
    with open_device("simulated", bundle_of(w), clock=WallClock()) as device:
        driver = Driver(device, w.program, w.design)
        driver.load()
        with Server(driver, make_policy("fluid")) as server:
            futures = [server.submit(image, 10**9) for image in images]
        answers = [future.result(0) for future in futures]
    exits, classes, _ = golden.early_exit(w.qnet, images)
    assert [(a.exit, a.prediction) for a in answers] == list(zip(exits, classes, strict=True))


def test_refusals(w: World, tmp_path: Path) -> None:
    cases: list[tuple[str, Path | None, type[Exception], str]] = [
        ("cloud", None, DriverUsageError, "simulated, rtl, pynq, not 'cloud'"),
        ("pynq", None, DriverUsageError, "needs the folder"),
        ("pynq", tmp_path, BundleError, "exactly one bitstream"),
    ]
    for kind, folder, error, message in cases:
        with pytest.raises(error, match=message), open_device(kind, bundle_of(w), folder):
            pass


def test_memory_that_pynq_does_not_reach_is_refused(w: World, tmp_path: Path) -> None:
    design = replace(w.design, board="zc706", memory="pl", port_bits=512)
    bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    with pytest.raises(DriverUsageError, match="'pl': open it with DevMemNpu"), open_device("pynq", bundle, tmp_path):
        pass
