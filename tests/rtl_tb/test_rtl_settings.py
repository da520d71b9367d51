"""Settings hold still while a job runs, on the NPU with either core; counters are those of each layer."""

import pytest
from npu_worlds import DESIGN

from fluidnpu.dse import DramModel
from fluidnpu.dse.exact import job_traffic
from fluidnpu.hls import COUNTERS, register
from fluidnpu.host.devices.counting import LayerCounts
from fluidnpu.rtl_tb import NpuModel, SimulationError
from fluidnpu.rtl_tb.npu.campaign import FAR, ROUGH, timeline
from fluidnpu.rtl_tb.npu.device import LayerRun
from fluidnpu.rtl_tb.npu.settings import SETTINGS, settings_in_every_state, written_in_a_job
from fluidnpu.rtl_tb.npu.world import ARRAY, STEADY, NpuWorld, model_of

MODEL = NpuModel.of(DESIGN)  # the build of test_rtl_npu


@pytest.mark.parametrize("core", ["rtl", pytest.param("hls", marks=pytest.mark.long)])
def test_every_setting_in_every_state(core: str) -> None:
    """Right bytes or BUSY, never wrong bytes."""
    world = NpuWorld.of(1, MODEL if core == "rtl" else NpuModel.of(DESIGN, core=core), DESIGN)
    assert settings_in_every_state(world, most=4 if core == "rtl" else None) >= 4 * len(SETTINGS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_every_setting_in_every_state_of_more_jobs(seed: int) -> None:
    assert settings_in_every_state(NpuWorld.of(seed, MODEL, DESIGN)) > 8 * len(SETTINGS)


@pytest.mark.parametrize(("name", "step"), [("WEIGHTS_LO", 64), ("SLOT_BYTES", 64), ("PROGRAM_LO", 128)])
def test_addresses_written_behind_start_do_nothing(name: str, step: int) -> None:
    """Twenty jobs, one write 5 to 400 cycles behind START: none has wrong bytes, each is told BUSY."""
    world = NpuWorld.of(2, MODEL, DESIGN)
    for _ in range(20):
        layers = world.draw_layers(1)
        world.draw_batch()
        world.draw_plans(layers)
        before, whole = world.memory.copy(), world.after(layers)
        length = len(timeline(world, layers))
        moment = min(world.rng.randrange(5, 400), length - 4)
        written_in_a_job(world, layers, register(name), moment, before, whole, world.get(name) + step)


@pytest.mark.long
def test_a_live_setting_is_found() -> None:
    """The part is able to fail: settings that are live change bytes, or are not told."""
    live = ("fluidnpu_regs.sv", "assign writes         = write_ok && !settled;", "assign writes         = write_ok;")
    model = NpuModel(parameters=MODEL.parameters, edits=(live,))
    with pytest.raises(SimulationError, match=r"must not hold|bytes are not those|must be done"):
        settings_in_every_state(NpuWorld.of(1, model, DESIGN))


@pytest.mark.parametrize("dram", [STEADY, FAR, ROUGH], ids=["steady", "far", "rough"])
def test_counters_are_those_of_each_layer(dram: DramModel) -> None:
    """In jobs of several layers, merged pools among them, each counter equals what was seen at the ports."""
    world = NpuWorld.of(3, MODEL, DESIGN, dram=dram)
    seen = 0
    for _ in range(8):
        layers = world.draw_layers(5)
        world.draw_batch()
        world.draw_plans(layers)
        world.start(layers)
        world.ends()
        seen += len(_compared(world, world.npu.take_layers()))
    assert seen > 15


@pytest.mark.parametrize("stripes", [None, 2])
def test_counters_are_those_of_the_exact_model(stripes: int | None) -> None:
    """Words and bursts are those of the masters, also where these are spread over narrow ports."""
    design, model = (ARRAY, model_of(ARRAY, stripes=stripes)) if stripes else (DESIGN, MODEL)
    world = NpuWorld.of(4, model, design, dram=ROUGH)
    held = 0  # layers that end while words for the next one lie in the queues of ports
    for _ in range(24 if stripes else 6):
        layers = world.draw_layers(4)
        world.draw_batch()
        world.draw_plans(layers)
        world.start(layers)
        world.ends()
        jobs = [world._job(layer) for layer in layers]
        slots = [world.at(world.program.slot_base + slot * world.program.slot_bytes) for slot in world.active]
        begun = world.npu.take_layers()[0].start_cycle
        job = job_traffic(jobs, slots, world.npu.model.machine, world.npu.dram, first_cycle=begun)
        for layer, traffic in zip(layers, job, strict=True):
            world.put("COUNTERS_LAYER", layer)
            counted = tuple(world.get(f"LAYER_{counter.name}") for counter in COUNTERS)
            assert counted == LayerCounts.of_model(traffic, stripes or 1).numbers, (layer, traffic)
            held += sum(traffic.layer.read_beats) != (stripes or 1) * traffic.read_beats
    assert (held > 0) == (stripes is not None)


def _compared(world: NpuWorld, runs: list[LayerRun]) -> list[LayerRun]:
    world.npu.run(4 * len(COUNTERS) + 4)  # by then the last layer's are there
    for run in runs:
        world.put("COUNTERS_LAYER", run.layer)
        counted = {counter.name: world.get(f"LAYER_{counter.name}") for counter in COUNTERS}
        assert counted == {
            "CYCLES": run.cycles, "INPUTS": run.input_beats, "STARVED": run.starved_cycles, "BLOCKED": run.blocked_cycles,
            "READ_BEATS": sum(run.read_beats), "READ_BURSTS": sum(run.read_bursts), "WRITE_BEATS": run.write_beats,
            "WRITE_BURSTS": run.write_bursts,
        }, run  # fmt: skip
    return runs
