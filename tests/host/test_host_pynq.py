"""The driver through real PYNQ off-board: Overlay, MMIO, allocate, VLNV, register_map, clocks, interrupts."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import PATIENCE_S, HostWorld, traffic_of, world

from fluidnpu.hls import REGISTERS, Cause, register
from fluidnpu.hls.project import NPU_VLNV
from fluidnpu.host import BuildMismatch, BundleError, DeviceAccessError, Driver, NpuError, serve_requests
from fluidnpu.host.devices.pynq.bitstream import read_simulated_bitstream, write_simulated_bitstream
from fluidnpu.host.devices.pynq.hwh import hardware_description
from fluidnpu.host.devices.pynq.overlay import active_device, open_overlay, simulated_pynq_device
from fluidnpu.models import golden
from fluidnpu.scheduler import make_policy

pynq = pytest.importorskip("pynq", reason="PYNQ is an extra: pip install 'fluidnpu[board]'")

FAMILIES = ("zynq7000", "zynquplus")


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(w: HostWorld, folder: Path, family: str = "zynq7000") -> tuple[Any, Any]:
    device = simulated_pynq_device()
    return device, open_overlay(write_simulated_bitstream(folder, w.design, family=family), device)


def test_the_driver_runs_through_pynq(tmp_path: Path, family: str) -> None:
    w = world(3)
    device, npu = opened(w, tmp_path, family)
    assert isinstance(npu, pynq.DefaultIP)
    driver = Driver(npu, w.program, w.design)
    driver.load()
    images = w.images(4)
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.merge([0, 1, 2, 3])
    job = driver.run_to_exit(1)
    assert job.end_ns - job.start_ns == w.design.latency.between(0, 1, 4)
    for exit_index, expected in enumerate(golden.run(w.qnet, images)):
        assert np.array_equal(driver.stored_logits(range(4), exit_index), expected)
    with pytest.raises(NpuError) as caught:
        driver.merge([0])
    assert caught.value.cause is Cause.MERGE_ACTIVE
    before = len(device._memory._buffers)
    driver.close()
    assert len(device._memory._buffers) == before - 2


def test_buffers_are_handed_over_around_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's writes are flushed before START, the NPU's results invalidated before they are read."""
    w = world(3)
    device, npu = opened(w, tmp_path)
    log: list[tuple[str, int, int]] = []
    monkeypatch.setattr(device, "flush", lambda bo, at, address, size: log.append(("flush", at, size)), raising=False)
    monkeypatch.setattr(
        device, "invalidate", lambda bo, at, address, size: log.append(("invalidate", at, size)), raising=False
    )
    allocate = device.allocate

    def incoherent(*words: Any, **more: Any) -> Any:
        buffer = allocate(*words, **more)
        buffer.coherent = False
        return buffer

    monkeypatch.setattr(device, "allocate", incoherent)
    driver = Driver(npu, w.program, w.design)
    driver.load()
    assert [entry[0] for entry in log] == ["flush", "flush", "invalidate"], "the program is read back"
    log.clear()
    driver.write_sample(2, w.images(1)[0])
    place = w.program.tensors[w.program.input]
    ((verb, at, size),) = log
    assert (verb, at % 64, size) == ("flush", (2 * w.program.slot_bytes + place.offset) % 64, place.size)
    log.clear()
    driver.merge([2])
    driver.run_stage(0)
    assert log == []
    driver.stored_logits([2], 0)
    ((verb, _, size),) = log
    tensor = w.program.exits[0].tensor
    assert tensor is not None
    assert (verb, size) == ("invalidate", w.program.tensors[tensor].size)


def test_small_buffers_are_not_asked_for(tmp_path: Path) -> None:
    """XRT places those below a page beyond 32 bits."""
    _, npu = opened(world(3), tmp_path)
    assert len(npu.allocate(10).array) >= 8192


def test_serving_through_pynq_equals_serving_without(tmp_path: Path) -> None:
    w = world(3, exits=3, slots=8)
    _, npu = opened(w, tmp_path)
    driver = Driver(npu, w.program, w.design, slots=8)
    driver.load()
    images, requests = w.images(30), traffic_of(w, 30)
    there = serve_requests(requests, images, make_policy("fluid"), driver)
    here = serve_requests(requests, images, make_policy("fluid"), w.driver)
    assert there == here


def test_the_register_map_has_every_register_and_field(tmp_path: Path) -> None:
    w = world(3)
    _, npu = opened(w, tmp_path)
    for entry in REGISTERS:
        view = getattr(npu.register_map, entry.name)
        assert int(view) == npu.read(entry.offset)
        for field in entry.fields:
            assert getattr(view, field.name) == field.get(npu.read(entry.offset))
    npu.register_map.SLOT_MASK = 0b101
    npu.register_map.CTRL.MERGE = 1
    assert npu.register_map.STATUS.B_ACT == 2
    assert int(npu.register_map.ACTIVE) == 0b101


def test_the_overlay_as_a_pynq_user_opens_it(tmp_path: Path) -> None:
    w = world(3)
    bit = write_simulated_bitstream(tmp_path, w.design)
    device = simulated_pynq_device()
    with active_device(device):
        overlay = pynq.Overlay(str(bit))
        assert overlay.ip_dict["npu_0"]["type"] == NPU_VLNV
        assert overlay.npu_0.read(register("STATUS").offset) == register("STATUS").reset
        buffer = pynq.allocate((16,), dtype=np.int16)
        buffer[:] = 5
        assert buffer.physical_address % 64 == 0
        assert (device._memory.view(buffer.physical_address, 32).view(np.int16) == 5).all()
        assert pynq.MMIO(overlay.ip_dict["npu_0"]["phys_addr"], 4096).read(
            register("SHAPE").offset
        ) == overlay.npu_0.read(register("SHAPE").offset)


def test_the_clock_is_the_designs(tmp_path: Path, family: str) -> None:
    w = world(3)
    device, _ = opened(w, tmp_path, family)
    with active_device(device):
        assert pynq.Clocks.fclk0_mhz == pytest.approx(w.design.clock_hz / 1e6, rel=0.01)


def test_interrupts_arrive_in_an_event_loop(tmp_path: Path, family: str) -> None:
    w = world(3)
    _, npu = opened(w, tmp_path, family)
    driver = Driver(npu, w.program, w.design)
    driver.load()
    driver.write_sample(0, w.images(1)[0])
    driver.merge([0])
    driver._aim(*w.program.stages[0], 10**9)

    async def job() -> None:
        npu.write(register("CTRL").offset, register("CTRL").field("START").mask)
        assert not driver.status().done
        await asyncio.wait_for(npu.wait_interrupt_async(), PATIENCE_S)

    asyncio.run(job())
    assert driver.status().done
    assert np.array_equal(driver.stored_logits([0], 0), golden.run(w.qnet, w.images(1))[0])


def test_another_bitstream_is_another_npu(tmp_path: Path) -> None:
    w, other = world(3), world(3, t_c=16)
    device, npu = opened(w, tmp_path / "a")
    Driver(npu, w.program, w.design).load()
    npu = open_overlay(write_simulated_bitstream(tmp_path / "b", other.design), device)
    with pytest.raises(BuildMismatch):
        Driver(npu, w.program, w.design).load()
    Driver(npu, other.program, other.design).load()


@pytest.mark.parametrize("content", [b"\x00\x09\x0f\xf0\xff", b"one line", b"a\nb\nc", b""])
def test_a_bitstream_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    bit = tmp_path / "npu.bit"
    bit.write_bytes(content)
    bit.with_suffix(".hwh").write_text(hardware_description("zynq7000", clock_hz=10**8))
    with pytest.raises(BundleError, match="simulated bitstream"):
        open_overlay(bit, simulated_pynq_device())
    good = write_simulated_bitstream(tmp_path, world(3).design)
    good.write_text(good.read_text().replace('"t_r"', '"t_x"'))
    with pytest.raises(BundleError, match="t_r"):
        read_simulated_bitstream(good)


def test_unknown_families_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="family"):
        write_simulated_bitstream(tmp_path, world(3).design, family="virtex")


def test_without_pynq_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pynq'] = None\n"
        "from fluidnpu.host import PynqMissingError\n"
        "from fluidnpu.host.devices.pynq.overlay import simulated_pynq_device\n"
        "try:\n    simulated_pynq_device()\n"
        "except PynqMissingError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "pip install 'fluidnpu[board]'" in done.stdout


def test_without_a_board_pynqs_own_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bit = write_simulated_bitstream(tmp_path, world(3).design, family="zynq7000")
    monkeypatch.delattr(pynq.Device, "_devices", raising=False)  # PYNQ looks once and warns
    with pytest.raises(DeviceAccessError, match=r"\.bit' on a board, and it cannot: No Devices Found"):
        open_overlay(bit)
    with pytest.raises(DeviceAccessError, match=r"and it cannot: .*nowhere\.bit"):
        open_overlay(tmp_path / "nowhere.bit", simulated_pynq_device())
