"""The driver: refusals, deadlines, recovery, and that it never disagrees with the NPU about the batch."""

import errno
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest
from host_worlds import design_of, network, read, world, write

from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls import REGISTERS, Access, Cause, compile_program
from fluidnpu.host import (
    BuildMismatch,
    DeviceAccessError,
    Driver,
    DriverUsageError,
    HostError,
    NpuError,
    NpuTimeout,
    OutOfMemory,
    SimulatedNpu,
)
from fluidnpu.host.devices import SimulatedMemory
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.driver import PATIENCE
from fluidnpu.host.identity import build_id_word
from fluidnpu.models import golden


def test_a_foreign_build_is_refused() -> None:
    w = world(loaded=False, build=0xDEAD_BEEF)
    with pytest.raises(BuildMismatch, match=r"BUILD_ID .* not 0xdeadbeef") as caught:
        w.driver.load()
    assert (caught.value.expected, caught.value.found) == (build_id_word(w.design), 0xDEAD_BEEF)


def test_another_shape_is_refused_even_with_the_right_build_id() -> None:
    w = world(loaded=False)
    other = w.design.changed(t_c=16)
    driver = Driver(SimulatedNpu(other, build=build_id_word(w.design)), w.program, w.design)
    with pytest.raises(BuildMismatch, match="SHAPE"):
        driver.load()


def test_a_device_with_too_few_layers_is_refused() -> None:
    """Same build id by forgery, same shape, but no room for all FBCB words."""
    w = world(loaded=False)
    driver = Driver(SimulatedNpu(tiny_design(), build=build_id_word(w.design)), w.program, w.design)
    with pytest.raises(NpuError) as caught:
        driver.load()
    assert caught.value.cause is Cause.BAD_FBCB


def test_a_program_of_another_design_is_refused() -> None:
    qnet = network(3)
    program = compile_program(qnet, design_of(qnet))
    with pytest.raises(DriverUsageError, match="compiled for this design"):
        Driver(SimulatedNpu(design_of(qnet)), program, design_of(qnet, t_c=16))


@pytest.mark.parametrize("slots", [3, 33])
def test_slots_must_fit_the_mask_and_the_batch(slots: int) -> None:
    with pytest.raises(DriverUsageError, match=rf"slots must lie in b_max = 4\.\.32, not {slots}"):
        world(slots=slots)


def test_memory_that_does_not_suffice() -> None:
    with pytest.raises(OutOfMemory, match="contiguous memory"):
        world(memory=SimulatedMemory(size=8192))


def test_close_gives_memory_back() -> None:
    memory = SimulatedMemory()
    w = world(memory=memory)
    first = read(w.npu, "SLOT_BASE_LO")
    w.driver.load()
    w.driver.close()
    with pytest.raises(DriverUsageError, match="loaded first"):
        w.driver.write_sample(0, w.images(1)[0])
    w.driver.load()
    assert read(w.npu, "SLOT_BASE_LO") == first


def test_wrong_use_is_one_sentence() -> None:
    w = world()
    image = w.images(1)[0]
    nothing: Any = None
    numbers: Any = image.tolist()
    cases: dict[str, Callable[[], object]] = {
        "a slot must lie": lambda: w.driver.write_sample(4, image),
        r"a sample must be one that the network takes: images must be of shape": lambda: w.driver.write_sample(
            0, image[1:]
        ),
        "finite floats, and NaN came": lambda: w.driver.write_sample(0, np.full(image.shape, np.nan)),
        "finite floats, and inf came": lambda: w.driver.write_sample(0, np.full(image.shape, -np.inf)),
        r"must lie in 0\.\.1, and .* came; give uint8": lambda: w.driver.encode(image.astype(np.float32)),
        r"a sample must be of shape .*, not \(\)": lambda: w.driver.encode(np.array(0.5)),
        "uint8, int16 or floats, not int64": lambda: w.driver.encode(image.astype(np.int64)),
        "must be a NumPy array of shape .*, not list": lambda: w.driver.encode(numbers),
        "must be a NumPy array of shape .*, not NoneType": lambda: w.driver.encode(nothing),
        "an exit must lie": lambda: w.driver.logits([0], 2),
        "stages must be ordered": lambda: w.driver.run_to_exit(0, first_stage=1),
        "stages must be": lambda: w.driver.run_stage(2),
    }
    for message, act in cases.items():
        with pytest.raises(DriverUsageError, match=message):
            act()


def test_an_image_may_be_pixels_reals_or_stored() -> None:
    w = world()
    pixels = w.images(1)[0]
    stored = w.qnet.quantise_input(pixels[None])[0]
    for image in (pixels, pixels / 255, (pixels / 255).astype(np.float64), stored):
        assert np.array_equal(w.driver.encode(image), stored)
    assert not np.shares_memory(w.driver.encode(stored), stored)


def test_the_driver_and_the_npu_agree_on_the_batch() -> None:
    w = world(slots=8)
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = rng.permutation(8)[: rng.integers(0, 5)].tolist()
        w.driver.activate(wanted)
        assert w.driver.active == w.driver.status().active == tuple(sorted(wanted))


@pytest.mark.parametrize(
    ("verb", "slots", "cause"),
    [
        ("merge", [1], Cause.MERGE_ACTIVE),
        ("merge", [2, 3, 4], Cause.BATCH_TOO_LARGE),
        ("exit", [2], Cause.EXIT_NOT_ACTIVE),
    ],
)
def test_a_refused_edit_raises_and_keeps_the_batch(verb: str, slots: list[int], cause: Cause) -> None:
    w = world(slots=8)
    w.driver.merge([0, 1])
    with pytest.raises(NpuError) as caught:
        getattr(w.driver, verb)(slots)
    assert caught.value.cause is cause
    assert w.driver.active == w.driver.status().active == (0, 1)
    assert w.driver.status().cause is Cause.NONE


def test_an_empty_batch_is_refused_by_the_npu() -> None:
    w = world()
    with pytest.raises(NpuError) as caught:
        w.driver.run_stage(0)
    assert caught.value.cause is Cause.EMPTY_BATCH


def test_a_hang_ends_with_the_watchdog() -> None:
    w = world(faults=[JobFault(job=0, layer=2)])
    w.driver.merge([0])
    start = w.npu.clock.now_ns()
    with pytest.raises(NpuError) as caught:
        w.driver.run_stage(0)
    assert (caught.value.cause, caught.value.layer_index) == (Cause.WATCHDOG, 2)
    allowed = PATIENCE * w.design.latency.ns[0][0]
    assert allowed <= w.npu.clock.now_ns() - start <= allowed + 20  # two cycles


def test_a_deaf_device_ends_with_a_timeout() -> None:
    """No interrupt, no watchdog: the host's own deadline holds."""

    class Deaf(SimulatedNpu):
        def write(self, offset: int, value: int) -> None:
            watchdog = next(r for r in REGISTERS if r.name == "WATCHDOG")
            super().write(offset, 0 if offset == watchdog.offset else value)

    w = world(loaded=False)
    driver = Driver(Deaf(w.design, faults=[JobFault(job=0, layer=1)]), w.program, w.design)
    driver.load()
    driver.merge([2, 3])
    with pytest.raises(NpuTimeout, match=r"no answer from the NPU within .* slots 2, 3 active") as caught:
        driver.run_stage(0)
    assert (caught.value.layer_index, caught.value.batch) == (1, 2)
    assert caught.value.layer == w.design.layers[1].name
    driver.reset()
    assert driver.status().idle
    driver.merge([2, 3])
    driver.run_stage(0)


def test_a_reset_that_never_ends_is_a_timeout() -> None:
    class Stuck(SimulatedNpu):
        def read(self, offset: int) -> int:
            status = next(r for r in REGISTERS if r.name == "STATUS")
            return (
                super().read(offset) & ~status.field("IDLE").mask if offset == status.offset else super().read(offset)
            )

    w = world(loaded=False)
    with pytest.raises(NpuTimeout):
        Driver(Stuck(w.design), w.program, w.design).load()


def test_samples_survive_a_failure() -> None:
    w = world(faults=[JobFault(job=1)])
    images = w.images(3)
    for slot, image in enumerate(images):
        w.driver.write_sample(slot, image)
    w.driver.merge([0, 1, 2])
    w.driver.run_stage(0)
    with pytest.raises(NpuError):
        w.driver.run_stage(1)
    w.driver.reset()
    w.driver.merge([0, 1, 2])
    w.driver.run_stage(1)
    assert np.array_equal(w.driver.stored_logits([0, 1, 2], 1), golden.run(w.qnet, images)[1])


def test_recovery_writes_every_register_again() -> None:
    """Also those that the driver had no reason to write, had the device kept them."""
    w = world()
    images = w.images(1)
    w.driver.write_sample(0, images[0])
    w.driver.merge([0])
    w.driver.run_stage(0)
    for register in REGISTERS:
        if register.access is Access.RW and register.name != "FBCB_DATA":
            w.npu.write(register.offset, 0)
    w.driver.recover()
    w.driver.merge([0])
    w.driver.run_stage(0)
    assert np.array_equal(w.driver.stored_logits([0], 0), golden.run(w.qnet, images)[0])
    assert read(w.npu, "WATCHDOG") > 0


def test_logits_are_real_numbers() -> None:
    w = world()
    images = w.images(2)
    for slot, image in enumerate(images):
        w.driver.write_sample(slot, image)
    w.driver.merge([0, 1])
    w.driver.run_to_exit(1)
    for exit_index, stored in enumerate(golden.run(w.qnet, images)):
        assert np.array_equal(w.driver.logits([0, 1], exit_index), w.qnet.logits(exit_index, stored))


def test_a_lost_interrupt_is_found_in_the_status() -> None:
    """An NPU whose line never rises, but which works: the job's end is seen when the deadline comes."""
    w = world()
    w.driver.write_sample(0, w.images(1)[0])
    w.driver.merge([0])
    w.driver.run_stage(0)
    assert w.driver.missed_interrupts == 0
    write(w.npu, "IRQ_ENABLE", 0)
    w.driver.run_stage(0)
    assert w.driver.status().done
    assert w.driver.missed_interrupts == 1


@pytest.mark.parametrize("verb", ["read", "write", "allocate", "free", "wait_interrupt"])
def test_what_the_system_says_of_a_device_is_a_device_error(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    w.driver.write_sample(0, w.images(1)[0])
    w.driver.merge([0])

    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(w.npu, verb, fail)
    act = w.driver.load if verb in ("allocate", "free") else lambda: w.driver.run_stage(0)
    with pytest.raises(DeviceAccessError, match=r"the device failed while .*: \[Errno 5\] Input/output error"):
        act()


class Silent(SimulatedNpu):
    """A device whose bus reads all ones from now on once `dead` is set."""

    dead = False

    def read(self, offset: int) -> int:
        return 0xFFFF_FFFF if self.dead else super().read(offset)


def test_a_dead_bus_is_no_foreign_build() -> None:
    w = world(loaded=False)
    npu = Silent(w.design)
    driver = Driver(npu, w.program, w.design)
    npu.dead = True
    with pytest.raises(DeviceAccessError, match="does not answer: BUILD_ID reads 0xffffffff"):
        driver.load()
    npu.dead = False
    driver.load()
    driver.merge([0])
    npu.dead = True
    with pytest.raises(DeviceAccessError, match="does not answer: ERROR"):
        driver.run_stage(0)
    assert driver.missed_interrupts == 0
    with pytest.raises(DeviceAccessError, match="does not answer"):
        driver.recover()


def test_errors_are_one_tree() -> None:
    from fluidnpu import host
    from fluidnpu.host import errors as tree

    errors = [value for value in vars(tree).values() if isinstance(value, type) and issubclass(value, BaseException)]
    assert len(errors) > 8
    for error in errors:
        assert issubclass(error, HostError), error
    faults: set[type[Exception]] = {error for error in errors if issubclass(error, ValueError)}
    requests = {tree.ProtocolError, tree.TooLargeError, tree.ConflictError, tree.UnsupportedError}
    assert faults == {
        host.BundleError,
        host.DriverUsageError,
        tree.UnknownModelError,
        tree.UnknownRegionError,
        *requests,
    }
