"""The reference core against the stream model of `hls`, beat by beat and cycle by cycle, in every mode."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from core_cycles import CoreTiming, command_cycles, stream_cycles, tile_layout
from core_streams import random_command, random_streams, streams_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls.core import execute_streams_reference
from fluidnpu.hls.core.streams import Command
from fluidnpu.hls.core.vectors import core_modes
from fluidnpu.rtl_tb import ParameterError, SimulationError, sources
from fluidnpu.rtl_tb.core.edges import differs, edges
from fluidnpu.rtl_tb.core.model import STREAMS, CoreModel, core_parameters

BYTES: dict[str, int | str] = {"word_bits": 8, "model": "exact"}
LEGAL_BYTES = {"WordBits": 8, "AccBits": 32, "TP": 8, "InWords": 16, "WeightSlots": 2}
# Odd and even T_C, with and without pairs and split trees, every alignment of slots and output words.
DESIGNS: dict[str, dict[str, int | bool | str]] = {
    "all_modes": {"t_r": 13, "t_p": 4, "t_c": 5, "split": True, "weight_slots": 3, "out_words": 4},
    "stackable": {"t_r": 64, "t_p": 7, "t_c": 8, "weight_slots": 2, "out_words": 2, "acc_bits": 36},
    "smallest": {"t_r": 5, "t_p": 3, "t_c": 3, "weight_slots": 1, "out_words": 1, "stackable": False},
    "narrow": {"t_r": 16, "t_p": 6, "t_c": 12, "weight_slots": 4, "out_words": 3, "split": True, "acc_bits": 40},
    "wide_ports": {"t_r": 32, "t_p": 9, "t_c": 7, "weight_slots": 5, "out_words": 16, "acc_bits": 32},
    "wide_pools": {"t_r": 11, "t_p": 3, "t_c": 6, "weight_slots": 2, "out_words": 4, "port_bits": 256},
    "pieces": {"t_r": 17, "t_p": 8, "t_c": 7, "weight_slots": 3, "out_words": 4, "piece": 3, "broken": 3},
    "single_pieces": {
        "t_r": 9,
        "t_p": 5,
        "t_c": 4,
        "weight_slots": 2,
        "out_words": 3,
        "piece": 1,
        "broken": 1,
        "stackable": False,
    },
    "all_pieces": {"t_r": 33, "t_p": 11, "t_c": 6, "weight_slots": 2, "out_words": 5, "piece": 4, "broken": 6},
    # Words of 8 bits: one chain, odd TP; the longest chain of either slice; segments; pieces; no pairs.
    "bytes": {"t_r": 13, "t_p": 9, "t_c": 12, "weight_slots": 4, "out_words": 5, **BYTES},
    "longest_bytes": {"t_r": 9, "t_p": 32, "t_c": 4, "weight_slots": 2, "out_words": 4, **BYTES},
    "longest_bytes_of_17": {
        "t_r": 9,
        "t_p": 16,
        "t_c": 8,
        "weight_slots": 6,
        "out_words": 3,
        **BYTES,
        "field_bits": 17,
    },
    "segments_of_bytes": {"t_r": 7, "t_p": 19, "t_c": 4, "weight_slots": 2, "out_words": 8, **BYTES, "field_bits": 17},
    "pieces_of_bytes": {
        "t_r": 17,
        "t_p": 20,
        "t_c": 8,
        "weight_slots": 2,
        "out_words": 4,
        **BYTES,
        "piece": 6,
        "broken": 4,
    },
    "single_bytes": {"t_r": 5, "t_p": 8, "t_c": 6, "weight_slots": 2, "out_words": 1, "stackable": False, **BYTES},
    "split_only": {"t_r": 9, "t_p": 4, "t_c": 3, "weight_slots": 2, "out_words": 5, "split": True, "stackable": False},
}
DEFAULT = ("all_modes", "stackable", "pieces", "segments_of_bytes")
LONG = (
    "bytes",
    "smallest",
    "split_only",
    "all_pieces",
    "longest_bytes",
    "longest_bytes_of_17",
    "pieces_of_bytes",
    "single_bytes",
)
MARKS = dict.fromkeys(DEFAULT, ()) | dict.fromkeys(LONG, (pytest.mark.long,))
every_design = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, (pytest.mark.matrix,))) for name in DESIGNS]
)


@cache
def design_named(name: str) -> Design:
    return tiny_design().changed(**DESIGNS[name])


def stalls_of(rng: np.random.Generator) -> dict[str, float]:
    return {name: float(rng.choice([0.0, 0.0, 0.3, 0.9])) for name in STREAMS}


@every_design
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), commands=st.integers(1, 10), mixed=st.booleans())
def test_any_streams_with_any_stalls_equal_the_model(name: str, seed: int, commands: int, mixed: bool) -> None:
    design, rng = design_named(name), np.random.default_rng(seed)
    modes = None if mixed else [Mode(int(rng.choice([int(mode) for mode in core_modes(design)])))]
    streams = random_streams(rng, design, commands=commands, modes=modes)
    expected, saturations = execute_streams_reference(streams, design)
    run = CoreModel.of(design).run(streams, stalls=stalls_of(rng), seed=seed + 1)
    np.testing.assert_array_equal(run.output, expected)
    assert run.saturations == saturations


@every_design
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), commands=st.integers(1, 10))
def test_cycles_of_ideal_streams_are_as_predicted(name: str, seed: int, commands: int) -> None:
    design = design_named(name)
    streams = random_streams(np.random.default_rng(seed), design, commands=commands, tiles=6)
    run = CoreModel.of(design).run(streams)
    assert run.total_cycles == stream_cycles(streams.commands, design)


@every_design
def test_sums_at_the_limits_of_a_word_and_pools_of_many_taps(name: str) -> None:
    """On each limit, half a step and a step beside it, at every shift, with and without a residual."""
    design = design_named(name)
    for streams in edges(design):
        assert not differs(CoreModel.of(design), streams, design), streams.commands


@every_design
def test_sums_of_many_tiles(name: str) -> None:
    design, rng = design_named(name), np.random.default_rng(1)
    for mode in core_modes(design):
        if mode < Mode.MAX_POOL:
            command = replace(random_command(rng, design, mode), p_tiles=1500, beats=2, lane1_beats=0, last=1)
            assert not differs(CoreModel.of(design), streams_of(rng, design, [command]), design), command


@every_design
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_cycles_of_one_command_follow_the_closed_formula(name: str, seed: int) -> None:
    design, rng = design_named(name), np.random.default_rng(seed)
    command = random_command(rng, design, Mode(int(rng.choice([int(mode) for mode in core_modes(design)]))), tiles=9)
    run = CoreModel.of(design).run(streams_of(rng, design, [command]))
    assert run.total_cycles == command_cycles(command, design) == stream_cycles([command], design)


@pytest.mark.parametrize("mode", [Mode.NORMAL, Mode.WIDE, Mode.LANES, Mode.SPLIT])
def test_no_bubble_between_tiles_and_commands_when_weights_and_drain_keep_up(mode: Mode) -> None:
    design = design_named("all_modes").changed(t_r=13)
    command = Command(mode=mode, beats=6 if mode is Mode.SPLIT else 13, p_tiles=9, cols=2, shift=9)
    timing = CoreTiming.of(design)
    assert max(timing.turnaround, tile_layout(command, design).tile_beats) <= command.beats or mode is Mode.SPLIT
    period = max(command.beats, timing.turnaround)
    streams = streams_of(np.random.default_rng(1), design, [command] * 7)
    taken = CoreModel.of(design).run(streams).cycles["input"].astype(np.int64)
    starts = taken[2 :: command.beats]  # the register slice takes the first two beats ahead
    steps = np.diff(starts[2:])
    assert set(steps[np.arange(len(steps)) % command.p_tiles != 6]) <= {period}
    assert set(steps) <= {period, command.beats}


def test_saturations_are_counted_and_stalls_change_no_bit() -> None:
    design = design_named("stackable")
    streams = random_streams(np.random.default_rng(5), design, commands=12, modes=[Mode.NORMAL, Mode.LANES])
    expected, saturations = execute_streams_reference(streams, design)
    assert saturations > 0
    for seed in range(1, 4):
        run = CoreModel.of(design).run(streams, stalls=dict.fromkeys(STREAMS, 0.5), seed=seed)
        np.testing.assert_array_equal(run.output, expected)
        assert run.saturations == saturations
        assert run.total_cycles > stream_cycles(streams.commands, design)


def test_missing_weights_end_in_an_error_that_says_what_was_taken() -> None:
    design = design_named("all_modes")
    streams = random_streams(np.random.default_rng(2), design, commands=2, modes=[Mode.NORMAL])
    with pytest.raises(SimulationError, match=r"no end came .* 'output'"):
        CoreModel.of(design).run(replace(streams, weight=streams.weight[:-1]), limit_cycles=4000)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"TP": 2, "InWords": 4}, "TP >= 3"),
        ({"TC": 1}, "come in pairs"),
        ({"AccBits": 49}, "AccBits must lie in 32..48"),
        ({"Split": 1, "TP": 5, "InWords": 10}, "even TP"),
        ({"TR": 65536}, "TR in 1..65535"),
        ({"Piece": 5, "Broken": 2}, "Piece must lie in 1..TP"),
        ({"Piece": 2, "Broken": 10}, "Broken in 0..TC"),
        ({"Piece": 2, "Broken": 3}, "both chains of a pair must break"),
        ({"Piece": 2, "Broken": 2, "Split": 1}, "no chain may break with split trees"),
        ({"InWords": 4}, "InWords must be at least"),
        ({"WordBits": 12}, "WordBits must be 16 or 8"),
        ({"WordBits": 8}, "needs AccBits = 32"),
        ({**LEGAL_BYTES, "TC": 6}, "TC a multiple of 4 when Stackable"),
        ({**LEGAL_BYTES, "WeightSlots": 1}, "an even WeightSlots"),
        ({**LEGAL_BYTES, "FieldBits": 19}, "FieldBits must be 17 or 18"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_illegal_parameters_die_at_elaboration(wrong: dict[str, int], message: str) -> None:
    model = CoreModel(parameters=core_parameters(tiny_design()) | wrong)
    with pytest.raises(ParameterError, match=message):
        model.lint()


def test_a_legal_core_has_no_lint_warnings() -> None:
    CoreModel.of(tiny_design()).lint()


BUGS = [
    ("half-up", "core_requantise.sv", "fine[0] && (lost || fine[1])", "fine[0]"),
    ("sticky-lost", "core_requantise.sv", "assign lost      = lost_5_q ||", "assign lost      = "),
    ("early-overwrite", "core_sequencer.sv", "fetched_q && fetch_i.rows != inner_q + 16'd1", "fetched_q"),
    ("short-turnaround", "core_sequencer.sv", "16'(age_q) <= cmd_i.beats", "16'(age_q) <= cmd_i.beats + 16'd1"),
    ("wide-counts-twice", "core_array.sv", "zero_q[2] || (!Lower && wide_q[2])", "zero_q[2]"),
    ("bias-overwritten", "core_bias.sv", "held_q != 2'(Generations - 1)", "1'b1"),
    ("pool-drops-a-row", "core_pool.sv", "!valid_q || take_i", "1'b1"),
]


def test_seeded_bugs_fit_their_sources() -> None:
    assert [name for name, file, old, _ in BUGS if sources()[file].count(old) != 1] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=bug[0], marks=pytest.mark.matrix if bug != BUGS[0] else ()) for bug in BUGS]
)
def test_a_seeded_bug_is_found(bug: tuple[str, str, str, str]) -> None:
    _, file, old, new = bug
    design = design_named("all_modes")
    model = CoreModel(parameters=core_parameters(design), edits=((file, old, new),))
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        streams = random_streams(rng, design, commands=8)
        expected, saturations = execute_streams_reference(streams, design)
        try:
            run = model.run(streams, stalls=stalls_of(rng), seed=seed + 1)
        except SimulationError:
            return
        if run.saturations != saturations or not np.array_equal(run.output, expected):
            return
    pytest.fail("3000 random streams do not tell the bug from the core")
