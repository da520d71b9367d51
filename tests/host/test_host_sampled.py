"""Counters that are read while a model is served: of the RTL, and of an NPU that is off the exact model."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from host_worlds import HOUR_NS, PATIENCE_S, world
from rtl_worlds import design_of, network, rtl_world

from fluidnpu.hls import compile_program, register
from fluidnpu.host import Bundle, SimulatedNpu
from fluidnpu.host.devices.device import VirtualClock
from fluidnpu.host.driver import Driver
from fluidnpu.host.errors import DeviceAccessError
from fluidnpu.host.oip.observing.metrics import model_rows, render
from fluidnpu.host.serving import ModelOptions, Models, sampled
from fluidnpu.host.serving.model import Model
from fluidnpu.host.serving.runtime import Runtime
from fluidnpu.host.serving.sampled import SampledJob, Sampler
from fluidnpu.scheduler import Request, Run, make_policy

SECOND_NS = 10**9
REQUEST = Request(id=0, arrival_ns=0, deadline_ns=HOUR_NS)


class OffByOne(SimulatedNpu):
    """Layer 0 takes a cycle more than the exact model has for it. `deaf`: its counters cannot be read."""

    reads, deaf = 0, False

    def read(self, offset: int) -> int:
        word = super().read(offset)
        if offset != register("LAYER_CYCLES").offset:
            return word
        if self.deaf:
            raise OSError("no such address")
        self.reads += 1
        return word + (super().read(register("COUNTERS_LAYER").offset) == 0)


def off_by_one() -> tuple[OffByOne, Driver]:
    design = design_of(0)
    npu = OffByOne(design, clock=VirtualClock())
    driver = Driver(npu, compile_program(network(0), design), design)
    driver.load()
    driver.write_sample(0, rtl_world().images(1)[0])
    return npu, driver


def run(driver: Driver, sampler: Sampler, stages: Sequence[int] = (0,), at_ns: int = 0) -> None:
    """Run stages of the sample in slot 0, one job each, and tell the sampler that they ended at a time."""
    for stage in stages:
        driver.activate([0])
        job = driver.run_stage(stage)
        sampler.ran(Run(stage, (REQUEST,)), at_ns, at_ns, job)
        sampler.wait(PATIENCE_S)


def test_a_job_of_the_rtl_counts_what_the_exact_model_counts() -> None:
    design = design_of(0)
    w = rtl_world(dram=design.dram, port_bytes=design.port_bytes)
    sampler = Sampler(w.driver, interval_ns=0)
    runtime = Runtime(w.driver, make_policy("greedy"), observers=[sampler])
    for id, image in enumerate(w.images(3)):
        now = runtime.now_ns
        runtime.admit(Request(id=id, arrival_ns=now, deadline_ns=now + HOUR_NS), image)
    while runtime.ledger.flights:
        jobs = sampler.jobs
        runtime.step(closed=True)
        sampler.wait(PATIENCE_S)
        if sampler.jobs > jobs:
            assert sampler.latest is not None
            assert sampler.latest.cycles == w.driver.status().cycles
            assert sampler.latest.off_model == 0
    assert sampler.jobs > 1


def test_totals_are_those_of_the_layers_of_that_job() -> None:
    _, driver = off_by_one()
    sampler = Sampler(driver, interval_ns=0)
    for stage, (first, last) in enumerate(driver.program.stages):
        run(driver, sampler, [stage])
        assert sampler.latest is not None
        counts = driver.read_counts(first, last)
        assert sampler.latest.layers == last - first + 1
        assert sampler.latest.starved == sum(layer.starved for layer in counts) > 0
        assert sampler.latest.write_words == sum(layer.write_beats for layer in counts) > 0
        assert sampler.latest.off_model == (stage == 0), "layer 0 is one of stage 0"


def test_a_job_is_read_once_in_an_interval() -> None:
    npu, driver = off_by_one()
    sampler = Sampler(driver)
    layers = driver.program.stages[0][1] + 1
    for at_s, jobs in ((0, 1), (3, 1), (9, 1), (10, 2), (19, 2), (21, 3), (30, 3), (31, 4)):
        run(driver, sampler, at_ns=at_s * SECOND_NS)
        assert (sampler.jobs, npu.reads) == (jobs, jobs * layers), f"at {at_s} s"


def test_counters_that_cannot_be_read_cost_no_job() -> None:
    npu, driver = off_by_one()
    sampler = Sampler(driver)
    npu.deaf = True
    with pytest.raises(DeviceAccessError):
        driver.read_counts(0, 0)
    run(driver, sampler)
    assert (sampler.jobs, sampler.latest) == (0, None)
    npu.deaf = False
    run(driver, sampler, at_ns=10 * SECOND_NS)
    assert sampler.jobs == 1


@pytest.mark.parametrize("lacking", ["facts of the board", "Numba"])
def test_nothing_is_compared_where_the_model_cannot_count(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    if lacking == "Numba":
        monkeypatch.setattr(sampled, "has_numba", lambda: False)
        driver = off_by_one()[1]
    else:
        w = world(3)
        driver = w.driver
        driver.write_sample(0, w.images(1)[0])
    sampler = Sampler(driver)
    run(driver, sampler)
    assert isinstance(sampler.latest, SampledJob)
    assert sampler.latest.off_model is None


@pytest.mark.parametrize("device", ["devmem", "simulated"])
def test_metrics_tell_of_an_npu_that_counts(tmp_path: Path, device: str) -> None:
    """A simulated one is left alone: its counters are the model's."""
    design = design_of(0)
    Bundle(design=design, program=compile_program(network(0), design)).write(tmp_path)
    npus: list[OffByOne] = []

    def opened(bundle: Bundle) -> OffByOne:
        npus.append(OffByOne(bundle.design, clock=VirtualClock()))
        return npus[-1]

    models = Models({"m": tmp_path}, ModelOptions(slo_ns=HOUR_NS, device=device, opened=opened))
    model: Model = models.find("m").npu
    model.load()
    model.submit(rtl_world().images(1)[0]).result(PATIENCE_S)
    if model.sampler is not None:
        model.sampler.wait(PATIENCE_S)
    text = render(model_rows(models, {})).decode()
    model.close()
    if device == "simulated":
        assert "fluidnpu_npu_" not in text
        assert npus[0].reads == 0
        return
    assert 'fluidnpu_npu_layers_off_model{model="m"} 1.0' in text
    assert 'fluidnpu_npu_sampled_jobs_total{model="m"} 1.0' in text
    shares = [float(line.split()[-1]) for line in text.splitlines() if line.startswith(("fluidnpu_npu_starved_r",))]
    assert len(shares) == 1
    assert 0 < shares[0] < 1
