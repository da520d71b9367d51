"""One way to a device by name: simulated with and without PYNQ, and the refusals."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from host_worlds import HostWorld, traffic_of, world

from fluidnpu.boards import list_boards, load_board
from fluidnpu.dse import Design
from fluidnpu.hls import REGISTERS, register
from fluidnpu.host import (
    Bundle,
    BundleError,
    DeviceAccessError,
    Driver,
    DriverUsageError,
    PynqMissingError,
    Server,
    SimulatedNpu,
    WallClock,
    open_device,
    serve_requests,
)
from fluidnpu.host.devices import opening
from fluidnpu.host.devices import pynq as pynq_package
from fluidnpu.host.devices.physical.checkup import CheckupTarget
from fluidnpu.host.devices.physical.places import BOARD, Places
from fluidnpu.host.devices.pynq.overlay import simulated_pynq_device
from fluidnpu.models import golden
from fluidnpu.scheduler import make_policy
from fluidnpu.scheduler.simulation import Terms


@pytest.fixture
def w() -> HostWorld:
    return world(3)


def bundle_of(w: HostWorld) -> Bundle:
    return Bundle(design=w.design, program=w.program)


def at(w: HostWorld, board: str, memory: str = "ps", **more: Any) -> Design:
    """Return the world's design on a shipped board, or on one of whose facts nothing is known."""
    facts = load_board(board) if board in list_boards() else None
    return w.design.changed(board=board, memory=memory, facts=facts, **more)


@pytest.mark.parametrize("board", ["zc706", "zcu104", "mine"])
def test_simulated_boards_serve(w: HostWorld, board: str) -> None:
    design = at(w, board)
    bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    requests, images = traffic_of(w, 5), w.images(5)
    with open_device("simulated", bundle) as device:
        driver = Driver(device, bundle.program, bundle.design)
        driver.load()
        served = serve_requests(requests, images, make_policy("greedy"), driver)
    assert served == serve_requests(requests, images, make_policy("greedy"), w.driver)


def test_without_pynq_the_simulated_npu_is_used_directly(w: HostWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynq", None)
    monkeypatch.delitem(sys.modules, f"{pynq_package.__name__}.classes", raising=False)
    monkeypatch.delattr(pynq_package, "classes", raising=False)
    with open_device("simulated", bundle_of(w)) as device:
        assert isinstance(device, SimulatedNpu)
    with pytest.raises(PynqMissingError):
        simulated_pynq_device()


def test_a_live_server_through_the_simulated_board() -> None:
    w = world(3, millis=True)
    images = w.images(12)
    with open_device("simulated", bundle_of(w), clock=WallClock()) as device:
        driver = Driver(device, w.program, w.design)
        driver.load()
        with Server(driver, make_policy("fluid")) as server:
            futures = [server.submit(image, Terms(slo_ns=10**9)) for image in images]
        answers = [future.result(0) for future in futures]
    exits, classes, _ = golden.early_exit(w.qnet, images)
    assert [(a.exit, a.prediction) for a in answers] == list(zip(exits, classes, strict=True))


def test_refusals(w: HostWorld, tmp_path: Path) -> None:
    cases: list[tuple[str, Path | None, type[Exception], str]] = [
        ("cloud", None, DriverUsageError, "simulated, cpu, rtl, cosim, pynq, devmem, not 'cloud'"),
        ("pynq", None, DriverUsageError, "needs the folder"),
        ("pynq", tmp_path, BundleError, "exactly one bitstream"),
    ]
    for kind, folder, error, message in cases:
        with pytest.raises(error, match=message), open_device(kind, bundle_of(w), folder):
            pass


def test_memory_that_pynq_does_not_reach_is_refused(w: HostWorld, tmp_path: Path) -> None:
    design = at(w, "zc706", "pl", port_bits=512)
    bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    with pytest.raises(DriverUsageError, match="'pl': open it as 'devmem'"), open_device("pynq", bundle, tmp_path):
        pass


@pytest.mark.parametrize(
    ("board", "memory", "given", "found"),
    [
        ("zc706", "pl", {}, ("zynq7000", 0x43C0_0000, None, True, (0, 0))),
        ("zc706", "ps", {"reserved": (4096, 8192)}, ("zynq7000", 0x43C0_0000, (4096, 8192), False, (3, 64))),
        ("zcu104", "ps", {}, ("zynquplus", 0xA000_0000, None, False, (3, 64))),
        ("mine", "ps", {"registers": 0x4000_0000}, ("zynq7000", 0x4000_0000, None, False, (0, 0))),
    ],
)
def test_devmem_has_its_addresses_from_the_board_or_the_operator(
    w: HostWorld,
    monkeypatch: pytest.MonkeyPatch,
    board: str,
    memory: str,
    given: dict[str, Any],
    found: tuple[Any, ...],
) -> None:
    asked: list[tuple[Any, ...]] = []

    def opened(target: CheckupTarget, reserved: tuple[int, int] | None, places: Places) -> nullcontext[SimulatedNpu]:
        assert places is BOARD
        asked.append((target.family, target.registers, reserved, target.in_logic, target.ports))
        return nullcontext(w.npu)

    monkeypatch.setattr(opening, "open_npu", opened)
    design = at(w, board, memory, port_bits=512 if memory == "pl" else 64)
    bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
    with open_device("devmem", bundle, **given) as device:
        assert device is w.npu
    assert asked == [found]


def test_devmem_says_what_is_missing(w: HostWorld, tmp_path: Path) -> None:
    ours = at(w, "mine")
    nowhere = Places(memory=tmp_path / "mem", classes=tmp_path, compatible=tmp_path / "compatible")
    shipped, where = at(w, "zc706"), {"registers": 0, "places": nowhere}
    reserved = {**where, "reserved": (0, 4096)}
    cases: list[tuple[str, Design, dict[str, Any], type[Exception], str]] = [
        ("devmem", ours, {"reserved": (0, 4096)}, DriverUsageError, "address of the NPU's registers must be given"),
        ("devmem", ours, where, DeviceAccessError, "a u-dma-buf must be there"),
        ("devmem", ours, reserved, DeviceAccessError, "mapped from '.*mem', and they cannot be"),
        (
            "devmem",
            shipped,
            where,
            DeviceAccessError,
            "compatible with 'xlnx,zynq-7000', and it is none of the boards'",
        ),
        ("simulated", w.design, {"registers": 0}, DriverUsageError, "for the device 'devmem' alone"),
    ]
    for kind, design, given, error, message in cases:
        bundle = Bundle(design=design, program=replace(w.program, design_digest=design.digest))
        with pytest.raises(error, match=message), open_device(kind, bundle, **given):
            pass


class Bus:
    """Registers that only know how long a job takes to be dropped."""

    def __init__(self, looks: int) -> None:
        self.looks, self.log = looks, list[tuple[str, int]]()

    def write(self, offset: int, value: int) -> None:
        self.log.append((next(one.name for one in REGISTERS if one.offset == offset), value))

    def read(self, offset: int) -> int:
        if self.looks < 0:
            raise OSError(5, "the bus failed")
        self.looks -= 1
        return register("STATUS").field("IDLE" if self.looks <= 0 else "BUSY").mask


@pytest.mark.parametrize("looks", [1, 40, 10**9, -1])
def test_a_board_is_left_idle(looks: int) -> None:
    """Its job is dropped and memory owes it nothing, whatever ended the block; a dead bus ends the wait."""
    bus = Bus(looks)
    with pytest.raises(KeyError), opening.left_idle(bus):  # type: ignore[arg-type]
        raise KeyError
    assert bus.log == [("CTRL", register("CTRL").field("SOFT_RESET").mask)]
    assert bus.looks in (0, -1, 10**9 - opening._LOOKS)
