"""Programs: memory map, files, and what is refused; weights in every layout come back as they were."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hls_cases import LANES, R_BATCHING, SPLIT, WIDE, Shape, design_of, design_with, images_for, network_of, with_b_r
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hls_streams import CHAIN

from fluidnpu.dse import BatchPlan, Mode
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import FbcbError, LayoutError, Program, ProgramError, compile_program
from fluidnpu.hls.program import Descriptor, decode_fbcb, encode_fbcb, pack_weights, part_words, unpack_weights
from fluidnpu.models import LayerShape, Workload

WORKLOAD = Workload(name="any", layers=(LayerShape(name="one", r=4, p=4, c=4),))


@pytest.fixture(scope="module")
def chain():
    return network_of(np.random.default_rng(5), (7, 6, 3), CHAIN)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_unpack_is_the_inverse_of_pack(data):
    draw = data.draw
    mode = draw(st.sampled_from([Mode.NORMAL, Mode.WIDE, Mode.LANES, Mode.SPLIT]))
    t_p = 2 * draw(st.integers(2, 6)) if mode is Mode.SPLIT else draw(st.integers(3, 13))
    design = design_for(
        WORKLOAD, t_p=t_p, t_c=draw(st.integers(2, 11)), split=mode is Mode.SPLIT, weight_slots=draw(st.integers(1, 5))
    )
    p, columns = draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weights = rng.integers(-32768, 32768, (p, columns)).astype(np.int16)
    bias = rng.integers(-(1 << 47), 1 << 47, columns)
    words = pack_weights(weights, bias, mode, design)
    assert words.shape == (part_words(p=p, columns=columns, groups=1, mode=mode, design=design),)
    back = unpack_weights(words, p=p, columns=columns, mode=mode, design=design)
    np.testing.assert_array_equal(back[0], weights)
    np.testing.assert_array_equal(back[1], bias)


def test_layouts_refuse_what_they_cannot_hold():
    design = design_for(WORKLOAD)
    weights = np.zeros((4, 3), np.int16)
    with pytest.raises(LayoutError, match="as many biases"):
        pack_weights(weights, np.zeros(2, np.int64), Mode.NORMAL, design)
    with pytest.raises(LayoutError, match="must fit 48 bits"):
        pack_weights(weights, np.full(3, 1 << 47), Mode.NORMAL, design)
    with pytest.raises(LayoutError, match="only GEMM modes"):
        pack_weights(weights, np.zeros(3, np.int64), Mode.MAX_POOL, design)
    with pytest.raises(LayoutError, match="take 24 words"):
        unpack_weights(np.zeros(25, np.int16), p=4, columns=3, mode=Mode.NORMAL, design=design)


def test_tensors_do_not_overlap_and_lie_on_boundaries(chain):
    program = compile_program(chain, design_of(chain))
    end = 0
    for name, place in program.tensors.items():
        assert place.offset % 64 == 0
        assert place.offset >= end
        end = place.offset + place.size
        assert (place.height, place.width, place.channels) == chain.network.tensors[name]
    assert program.slot_bytes % 64 == 0
    assert end <= program.slot_bytes < end + 64
    assert program.tensors["t3"].halo == (1, 2, 1, 2)
    assert program.weights_offset % 64 == 0
    assert all(start % 64 == 0 for d in program.descriptors for start in d.weights if start != 0xFFFFFFFF)


def test_every_word_of_the_image_is_accounted_for(chain):
    design = design_of(chain, LANES)
    program = compile_program(chain, design)
    used = 0
    for index, (qlayer, descriptor) in enumerate(zip(chain.layers, program.descriptors, strict=True)):
        modes = {design.mode(index, batch) for batch in range(1, 5)}
        for mode, start in enumerate(descriptor.weights):
            assert (start != 0xFFFFFFFF) == (bool(qlayer.weights.size) and mode in modes)
            if start != 0xFFFFFFFF:
                shape = qlayer.layer.shape
                size = part_words(p=shape.p, columns=shape.c, groups=shape.groups, mode=Mode(mode), design=design)
                used += -(-2 * size // 64) * 64
    assert used - 64 < len(program.weights) <= used


def test_samples_and_tensors_go_in_and_out(chain):
    program = compile_program(chain, design_of(chain))
    image = images_for(np.random.default_rng(1), chain, 1)[0]
    slot = program.new_slots(1)[0]
    place = program.tensors["t0"]
    packed = program.pack_sample(image)
    slot[place.offset // 2 : (place.offset + place.size) // 2] = packed.reshape(-1)
    np.testing.assert_array_equal(program.read_tensor(slot, "t0"), image)
    np.testing.assert_array_equal(program.read_tensor(slot.view(np.uint8), "t0"), image)
    assert packed[0].any() == packed[:, 0].any() == False  # noqa: E712 -- the halo is zero
    other = np.ones(chain.network.tensors["t4"], np.int16)
    program.write_tensor(slot, "t4", other)
    np.testing.assert_array_equal(program.read_tensor(slot, "t4"), other)
    np.testing.assert_array_equal(program.read_tensor(slot, "t0"), image)
    with pytest.raises(ProgramError, match="has no tensor 'nowhere'"):
        program.read_tensor(slot, "nowhere")
    with pytest.raises(ProgramError, match="a sample of 'random' must be int16"):
        program.pack_sample(image[:-1])
    with pytest.raises(ProgramError, match="tensor 't4' must be int16"):
        program.write_tensor(slot, "t4", other[:-1])


def test_saved_programs_load_again(chain, tmp_path):
    program = compile_program(chain, design_of(chain))
    program.save(tmp_path / "p")
    loaded = Program.load(tmp_path / "p")
    assert loaded == program
    assert loaded.digest == program.digest
    assert loaded.image() == (tmp_path / "p" / "program.bin").read_bytes()
    assert loaded.build_id == int(design_of(chain).digest[:8], 16)
    assert loaded.fbcb.dtype == np.uint32
    assert Descriptor.unpack(loaded.image()[128:256]) == program.descriptors[1]


def test_damaged_programs_are_refused(chain, tmp_path):
    compile_program(chain, design_of(chain)).save(tmp_path)
    manifest, binary = tmp_path / "program.json", tmp_path / "program.bin"
    text, image = manifest.read_text(), binary.read_bytes()

    def refused(match):
        with pytest.raises(ProgramError, match=match):
            Program.load(tmp_path)

    binary.write_bytes(image[:-1])
    refused("does not belong to its program.json")
    binary.write_bytes(image)
    manifest.write_text(text.replace('"b_max": 4', '"b_max": 5'))
    refused("was changed by hand")
    manifest.write_text(json.dumps({**json.loads(text), "schema": 99}))
    refused("must be a program of schema 1, not 99")
    body = {key: value for key, value in json.loads(text).items() if key not in ("digest", "tensors")}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    manifest.write_text(json.dumps({**body, "digest": hashlib.sha256(canonical.encode()).hexdigest()}))
    refused("not a well-formed program: KeyError")
    manifest.write_text("{")
    refused("readable program.json")
    manifest.unlink()
    refused("readable program.json")


def test_networks_and_designs_that_do_not_go_together_are_refused(chain):
    other = network_of(np.random.default_rng(5), (3, 3, 3), [Shape(4)])
    with pytest.raises(ProgramError, match="made for another workload"):
        compile_program(chain, design_of(other))
    with pytest.raises(ProgramError, match="t_p must be at least 3"):
        compile_program(chain, design_of(chain, t_p=2))
    with pytest.raises(ProgramError, match="t_r must be at most 65535"):
        compile_program(chain, design_of(chain, t_r=65536))
    with pytest.raises(ProgramError, match="at most 4095 columns"):
        compile_program(chain, design_of(chain, t_c=4096))
    with pytest.raises(ProgramError, match=r"layer 'l0': b_r must lie in 2\.\.3 at batch 3"):
        compile_program(chain, with_b_r(design_of(chain), lambda batch: 1))
    with pytest.raises(ProgramError, match="needs accumulators of"):
        compile_program(chain, design_with(design_of(chain), acc_bits=32))


def test_numbers_that_no_descriptor_holds_are_refused():
    qnet = network_of(np.random.default_rng(5), (300, 1, 1), [Shape(4, kernel=(300, 1))])
    with pytest.raises(ProgramError, match="layer 'l0' does not fit a descriptor: kernel_h"):
        compile_program(qnet, design_of(qnet))


@given(batch=st.integers(1, 16), data=st.data())
def test_fbcb_words_say_what_the_design_says(batch, data):
    mode = data.draw(st.sampled_from([Mode.NORMAL, Mode.WIDE, Mode.SPLIT, Mode.LANES]))
    row_lanes = mode is Mode.LANES and (batch == 1 or data.draw(st.booleans()))
    low = -(-batch // 2) if mode is Mode.LANES else 1
    b_r = data.draw(st.integers(low, max(low, batch - (mode is Mode.LANES and not row_lanes))))
    deepest = 32 if mode is Mode.SPLIT else 64
    plan = BatchPlan(b_r=b_r, row_lanes=row_lanes, block=data.draw(st.integers(0, deepest)))
    run = decode_fbcb(encode_fbcb(mode, plan, batch), kind=0, batch=batch, t_r=64, stackable=True, split=True)
    assert run.block == (plan.block or deepest)
    assert (run.mode, run.batch, run.row_lanes) == (mode, batch, row_lanes)
    assert run.b_r == (b_r if mode is Mode.LANES and not row_lanes else batch)


def test_networks_that_no_address_reaches_are_refused():
    qnet = network_of(np.random.default_rng(5), (1 << 15, 1 << 14, 8), [Shape(4, stride=(255, 255))])
    with pytest.raises(ProgramError, match="the slot of 'random' must be smaller than 4294967296 bytes"):
        compile_program(qnet, design_of(qnet))


def test_fbcb_words_that_no_hardware_obeys_are_refused():
    with pytest.raises(FbcbError, match=r"b_r must lie in 3\.\.5"):
        decode_fbcb(1 << 2, kind=0, batch=5, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match=r"b_r must lie in 1\.\.2"):
        decode_fbcb(4 << 2, kind=0, batch=2, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match="needs stackable PEs"):
        decode_fbcb(1, kind=0, batch=1, t_r=64, stackable=False)
    with pytest.raises(FbcbError, match="needs stackable PEs"):
        decode_fbcb(0, kind=0, batch=2, t_r=64, stackable=False)
    with pytest.raises(FbcbError, match="needs split trees"):
        decode_fbcb(2, kind=0, batch=1, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match="at most 64 beats, which is what an accumulator bank holds, not 65"):
        decode_fbcb(65 << 7, kind=0, batch=1, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match="at most 32 beats"):
        decode_fbcb(2 | 33 << 7, kind=0, batch=1, t_r=64, stackable=True, split=True)


def test_b_r_is_ignored_without_stackable_pes(chain):
    """Such a design has no lanes, so its FBCB says R-batching whatever b_r the search wrote down."""
    plain = design_of(chain, stackable=False)
    words = compile_program(chain, with_b_r(plain, lambda batch: 1)).fbcb_words
    assert words == compile_program(chain, plain).fbcb_words


def test_programs_refuse_nonsense(chain):
    program = compile_program(chain, design_of(chain, R_BATCHING))
    with pytest.raises(ProgramError, match=r"layers \* b_max = 28 words, not 1"):
        replace(program, fbcb_words=(0,))
    with pytest.raises(ProgramError, match="multiple of 64 bytes, not 100"):
        replace(program, slot_bytes=100)
    with pytest.raises(ProgramError, match="missing: nowhere"):
        replace(program, input="nowhere")
    with pytest.raises(ProgramError, match="one exit for each of 2 stages, not 1"):
        replace(program, stages=((0, 1), (2, 3)))


@pytest.mark.parametrize("plan", [WIDE, SPLIT], ids=["wide", "split"])
def test_compiling_twice_gives_the_same_bytes(chain, plan):
    design = design_of(chain, plan, split=plan is SPLIT)
    assert compile_program(chain, design).files() == compile_program(chain, design).files()
