"""Slots of the simulated NPU equal the golden model for every batch, mode, slot pattern and history."""

import numpy as np
import numpy.typing as npt
import pytest
from host_worlds import HostWorld, world
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import BatchPlan
from fluidnpu.dse.design import Stack
from fluidnpu.models import golden

PLANS = {
    "rows": None,
    "wide": BatchPlan(k=Stack.TWO),
    "split": BatchPlan(k=Stack.HALF),
    "row lanes": BatchPlan(row_lanes=True),
}


def fill(w: HostWorld, slots: list[int], seed: int = 0) -> list[npt.NDArray[np.int16]]:
    images = w.images(len(slots), seed)
    for slot, image in zip(slots, images, strict=True):
        w.driver.write_sample(slot, image)
    return golden.run(w.qnet, images)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("seed", range(6))
def test_every_batch_size_is_golden(seed: int, plan: str) -> None:
    w = world(seed, plan=PLANS[plan], split=plan == "split", slots=9)
    for batch in range(1, w.design.b_max + 1):
        slots = sorted(np.random.default_rng(batch).permutation(9)[:batch].tolist())
        expected = fill(w, slots, seed=batch)
        w.driver.activate(slots)
        w.driver.run_to_exit(w.design.stages - 1)
        for exit_index, logits in enumerate(expected):
            assert np.array_equal(w.driver.stored_logits(slots, exit_index), logits)


def test_a_sample_does_not_see_its_neighbours() -> None:
    """Preemption: one batch stops after stage 0, another runs through, both merge; bits stay the same."""
    w = world(slots=8, exits=3)
    early = fill(w, [0, 5], seed=1)
    w.driver.activate([0, 5])
    w.driver.run_stage(0)
    late = fill(w, [2, 3], seed=2)
    w.driver.activate([2, 3])
    w.driver.run_to_exit(1)
    w.driver.activate([0, 5])
    w.driver.run_stage(1)
    w.driver.merge([3, 2])
    w.driver.exit([5])
    w.driver.run_stage(2)
    w.driver.activate([5])
    w.driver.run_stage(2)
    for exit_index in range(3):
        assert np.array_equal(w.driver.stored_logits([0, 5], exit_index), early[exit_index])
        assert np.array_equal(w.driver.stored_logits([2, 3], exit_index), late[exit_index])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_history_of_batches_is_golden(data: st.DataObject) -> None:
    w = world(7, slots=8)
    stage: dict[int, int] = {}
    expected: dict[int, list[npt.NDArray[np.int16]]] = {}
    for step in range(8):
        fresh = [slot for slot in range(8) if slot not in stage]
        if fresh and bool(data.draw(st.booleans())):
            slot = data.draw(st.sampled_from(fresh))
            expected[slot] = fill(w, [slot], seed=100 + step)
            stage[slot] = 0
        at = data.draw(st.integers(0, w.design.stages - 1))
        ready = [slot for slot, where in stage.items() if where == at]
        if not ready:
            continue
        batch: list[int] = data.draw(st.lists(st.sampled_from(ready), min_size=1, max_size=w.design.b_max, unique=True))
        w.driver.activate(batch)
        w.driver.run_stage(at)
        assert np.array_equal(w.driver.stored_logits(batch, at), np.concatenate([expected[slot][at] for slot in batch]))
        for slot in batch:
            stage[slot] += 1
            if stage[slot] == w.design.stages:
                del stage[slot]


def test_new_weights_in_memory_are_seen() -> None:
    """The decoded program is a cache: it must not outlive the bytes it came from."""
    w = world()
    before = fill(w, [0])
    w.driver.activate([0])
    w.driver.run_to_exit(1)
    assert np.array_equal(w.driver.stored_logits([0], 1), before[1])
    image = w.driver._buffers[0].array
    weights = w.program.weights_offset
    image[weights : weights + len(w.program.weights)] = 0
    w.driver.run_to_exit(1)
    assert not np.array_equal(w.driver.stored_logits([0], 1), before[1])
    w.driver.recover()
    w.driver.activate([0])
    w.driver.run_to_exit(1)
    assert np.array_equal(w.driver.stored_logits([0], 1), before[1])


def test_results_appear_only_when_the_job_is_done() -> None:
    """A driver that reads too early must not get right answers from the simulation alone."""
    w = world()
    expected = fill(w, [0])
    w.driver.activate([0])
    first, last = w.program.stages[0]
    w.driver._aim(first, last, 10**9)
    w.driver._write("CTRL", 1)
    assert not np.array_equal(w.driver.stored_logits([0], 0), expected[0])
    w.npu.clock.sleep_until(10**9)
    assert w.driver.status().done
    assert np.array_equal(w.driver.stored_logits([0], 0), expected[0])
