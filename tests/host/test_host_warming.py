"""A model is ready only when it has computed one batch of each size that it will run."""

from pathlib import Path
from typing import Any

import pytest
from host_worlds import HOUR_NS, PATIENCE_S, world
from network_worlds import pair
from oip_worlds import bundle_of

from fluidnpu.host import Driver, NpuError, SimulatedNpu, WallClock
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.serving import ModelOptions
from fluidnpu.host.serving.model import UNAVAILABLE, Model
from fluidnpu.host.serving.warming import warm_up
from fluidnpu.models import golden

Jobs = list[tuple[int, int]]  # (stage, batch)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """What drivers run from now on."""
    ran: Jobs = []
    run_to_exit = Driver.run_to_exit

    def noted(self: Driver, stage: int, *words: Any, **options: Any) -> Any:
        ran.append((stage, len(self.active)))
        return run_to_exit(self, stage, *words, **options)

    monkeypatch.setattr(Driver, "run_to_exit", noted)
    return ran


def test_a_batch_of_each_size_runs_through_all_stages_before_the_model_is_ready(tmp_path: Path, jobs: Jobs) -> None:
    w = world(3, loaded=False)
    every = [(stage, size) for size in range(1, w.design.b_max + 1) for stage in range(w.design.stages)]
    model = Model("m", bundle_of(w, tmp_path / "m"), ModelOptions(slo_ns=HOUR_NS))
    model.load()
    assert jobs == every
    assert model.ready
    statistics = model.statistics
    assert statistics is not None
    assert statistics.executions == statistics.answered == 0  # nothing of it is counted
    images = w.images(8)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    answers = [model.submit(image).result(PATIENCE_S) for image in images]
    assert [(one.exit, one.prediction) for one in answers] == list(zip(exits.tolist(), classes.tolist(), strict=True))
    jobs.clear()
    model.load()
    assert jobs == every
    jobs.clear()
    model.options = ModelOptions(slo_ns=HOUR_NS, warm=False)
    model.load()
    assert jobs == []
    model.close()


def test_every_program_of_an_npu_is_warmed_up(jobs: Jobs) -> None:
    w = pair(slots=(8, 2))
    w.driver.load()
    warm_up(w.driver, (None, None))
    first, second = w.driver.parts
    sizes = [range(1, first.b_max + 1), range(1, 3)]  # of the second only as many as it has slots
    assert first.b_max > 2
    assert jobs == [
        (stage + start, size)
        for part, start, of in zip(w.driver.parts, (0, first.stages), sizes, strict=True)
        for size in of
        for stage in range(part.stages)
    ]
    assert w.driver.active == ()
    assert second.stages > 0


@pytest.mark.parametrize("faults", [2, 3])
def test_a_device_that_fails_in_a_row_is_not_ready(tmp_path: Path, faults: int) -> None:
    """Two attempts of three may fail, as those of a job of requests may."""
    w, left = world(3, loaded=False, millis=True), [JobFault(job=job) for job in range(faults)]

    def opened(bundle: Any) -> SimulatedNpu:
        made = SimulatedNpu(bundle.design, clock=WallClock(), faults=list(left))
        left.clear()  # the next one has none
        return made

    model = Model("m", bundle_of(w, tmp_path / "m"), ModelOptions(slo_ns=HOUR_NS, opened=opened))
    if faults == 3:
        with pytest.raises(NpuError, match="WATCHDOG"):
            model.load()
        assert (model.ready, model.state, model.loads) == (False, UNAVAILABLE, 0)
    model.load()
    assert model.ready
    model.close()
