"""The whole NPU under random jobs, faults, resets and coinciding events, and what its coverage counts."""

import random
import re
from collections import Counter

import pytest
from npu_worlds import DESIGN

from fluidnpu.dse import Design, Mode
from fluidnpu.hls.core import execute_streams_reference
from fluidnpu.hls.formats import FBCB
from fluidnpu.rtl_tb import NpuModel, SimulationError
from fluidnpu.rtl_tb.data_plane.environment.jobs import SlotAllocator, place
from fluidnpu.rtl_tb.npu import coverage
from fluidnpu.rtl_tb.npu.campaign import ONCE, PARTS, campaign, misplaced, right_jobs, timeline, worlds
from fluidnpu.rtl_tb.npu.world import ACROSS, ARRAY, BORDER, BYTES, LEAST, NpuWorld, mask_of, model_of, shapes

MODEL = NpuModel.of(DESIGN)  # the build of test_rtl_npu


def world(seed: int = 1, across: str = "slots") -> NpuWorld:
    return NpuWorld.of(seed, MODEL, DESIGN, across=across)


@pytest.mark.cpu(10, "one campaign has to meet much")
def test_nothing_goes_wrong_and_much_is_met() -> None:
    """The events that need one cycle of many are met by design, the rest of the bins by chance."""
    result = campaign(1, 2, model=MODEL, design=DESIGN)
    wanted, missing = coverage.required(DESIGN), coverage.required(DESIGN) - set(result.hits)
    by_design = {name for name in wanted if re.match(r"(watchdog|soft reset|refused|bad plan)", name)}
    assert len(by_design) > 30
    assert not by_design & missing
    assert len(missing) < len(wanted) / 3
    assert result.jobs > 250


@pytest.mark.parametrize(
    ("design", "stripes"), [(LEAST, None), (ARRAY, 2), (BYTES, None)], ids=["least", "striped", "bytes"]
)
def test_nothing_goes_wrong_on_other_arrays(design: Design, stripes: int | None) -> None:
    """One sample and chains in pieces; every port spread over two; words of 8 bits."""
    result = campaign(1, 1, model=model_of(design, stripes=stripes), design=design)
    assert result.jobs > 150


@pytest.mark.long
def test_layers_of_bytes_are_the_models_words_and_cycles() -> None:
    """300 jobs of layers of every kind, use of the unit and filter, in three memories."""
    for at, world in enumerate(worlds(11, model_of(BYTES), BYTES)):
        for layer in range(100):
            layers = range((layer + at) % len(world.program.descriptors), len(world.program.descriptors))[:1]
            world.draw_batch()
            world.draw_plans(layers)
            world.right(layers)


@pytest.mark.long
def test_nothing_goes_wrong_with_the_hls_core() -> None:
    """What lies behind the outputs of the core in SystemVerilog lies behind those of the other core."""
    result = campaign(1, 1, model=model_of(core="hls"))
    assert result.jobs > 150


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "design"),
    [(1, ARRAY), (1, BYTES), *(pytest.param(seed, ARRAY, marks=pytest.mark.matrix) for seed in (2, 3))],
    ids=["words", "bytes", "words-2", "words-3"],
)
def test_functional_coverage_of_the_npu_closes(seed: int, design: Design) -> None:
    result = campaign(seed, design=design, until_closed=200)
    missing = sorted(coverage.required(design) - set(result.hits))
    assert not missing, missing


@pytest.mark.parametrize("across", ACROSS)
def test_a_world_lies_across_4_gib(across: str) -> None:
    w = world(across=across)
    p = w.program
    ends = {
        "descriptors": (p.program, p.program + 128 * len(p.descriptors)),
        "weights": (p.weights, p.weights + len(p.image)),
        "slots": (p.slot_base, p.slot_base + p.slots * p.slot_bytes),
    }[across]
    assert w.at(ends[0]) < BORDER < w.at(ends[1])


def test_a_wrong_byte_a_wrong_cycle_and_a_foreign_byte_are_told() -> None:
    """The world is able to fail."""
    w = world(2)
    layers = range(1, 2)
    w.draw_batch(2)
    w.draw_plans(layers)
    whole = w.after(layers)
    before = w.memory.copy()
    w.memory[
        w.program.descriptors[1].in_offset + w.program.slot_base - w.program.base + w.active[0] * w.program.slot_bytes
    ] ^= 1
    with pytest.raises(SimulationError, match="must be as before or as the whole job leaves it"):
        w.dropped(before, whole)
    w.memory[:] = before
    good = w.words[1]
    # the models think of another row block
    w.words[1] = FBCB.pack(FBCB.unpack(good) | {"block": 3 if FBCB.number("block", good) != 3 else 4})
    with pytest.raises(SimulationError, match=r"cycles must be the model's|memory must be the model's"):
        w.right(layers)


def test_a_wrong_count_of_saturations_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(2)
    layers = range(1, 2)
    w.draw_batch(2)
    w.draw_plans(layers)
    w.right(layers)
    monkeypatch.setattr(
        "fluidnpu.rtl_tb.npu.world.execute_streams_reference",
        lambda *given: (execute_streams_reference(*given)[0], 3),
    )
    with pytest.raises(SimulationError, match="3 words must be counted as saturated, not"):
        w.right(layers)


def test_the_timeline_is_the_sequencers() -> None:
    w = world(3)
    layers = range(1, 2)
    w.draw_batch(1)
    w.draw_plans(layers)
    states = timeline(w, layers)
    names = [coverage.STATES[state & 7] for state in states]
    assert list(dict.fromkeys(names)) == ["Slots", "Await", "Begin", "Commands", "Drain"]
    assert (names.count("Begin"), names.count("Slots")) == (1, 32)
    ahead = [coverage.AHEAD[state >> 3] for state in states]
    assert list(dict.fromkeys(ahead)) == ["Rest", "Fetch", "Lookup", "Plan", "Planned"]
    assert ahead[:2] == ["Rest"] * 2, "the first descriptor is asked for as soon as its address has settled"
    assert set(ahead[names.index("Begin") :]) == {"Rest"}, "nothing comes behind the last layer"
    assert len(states) == w.get("CYCLES_LO")


def test_batches_change_in_every_way() -> None:
    w = world(4)
    ways = Counter[tuple[bool, bool]]()
    for _ in range(60):
        old = set(w.active)
        w.draw_batch()
        ways[bool(old - set(w.active)), bool(set(w.active) - old)] += 1
        assert 1 <= len(w.active) <= DESIGN.b_max
    assert len(ways) == 4
    assert w.get("ACTIVE") == mask_of(w.active)


def test_samples_are_named() -> None:
    w = world(5)
    right_jobs(w)
    misplaced(w)
    layers = sum(
        hits for name, hits in w.hits.items() if name.startswith("layer ") and "batch " in name and name[-1].isdigit()
    )
    assert layers >= 12
    assert w.hits["refused START in Idle"] == 6 * 4 + 24 * 3
    assert not w.npu.take_samples()


def test_every_bin_that_is_demanded_can_be_named() -> None:
    """A bin whose name no sample could give would stay open for ever."""
    rng = random.Random(1)
    named = {name for kind in range(1, 8) for what in _samples(kind, rng) for name in coverage.named(kind, what)}
    played = [place(shape, rng, SlotAllocator(), ARRAY) for shape in shapes(ARRAY)]
    named |= {name for layer in played for mode in Mode for name in coverage.layer_bins(layer, mode)}
    assert coverage.required(ARRAY) <= named


def _samples(kind: int, rng: random.Random) -> list[int]:
    if kind == 1:
        return [mode | lanes << 4 | residual << 5 | since << 6 | batch << 8 for mode in range(6) for lanes in range(2)
                for residual in range(2) for since in range(4) for batch in range(1, 5)]  # fmt: skip
    if kind == 2:
        pairs = [1 << a | 1 << b | 1 << 11 for a in range(11) for b in range(11)]
        states = [state | ahead << 3 for state in range(len(coverage.STATES)) for ahead in range(len(coverage.AHEAD))]
        return [mask | state << 16 for mask in pairs for state in states]
    if kind == 6:
        return [place << 8 | response << 4 | port for place in range(4) for response in (2, 3) for port in range(4)]
    if kind == 7:
        return [state | asks << 3 for state in range(len(coverage.STATES)) for asks in range(2)]
    return list(range({3: 32, 4: 5, 5: 8}[kind]))


def test_parts_are_what_a_campaign_plays() -> None:
    assert {*PARTS, *ONCE} == {
        "right jobs", "resets", "watchdogs", "lowered watchdog", "bus errors", "bad words", "misplaced", "refusals", "every state"
    }  # fmt: skip
