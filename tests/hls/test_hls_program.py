"""Programs: slots, files, and refused damage."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hls_cases import R_BATCHING, design_of, images_for

from fluidnpu.hls import Program, ProgramError, compile_program
from fluidnpu.hls.program import Descriptor
from fluidnpu.models import QuantisedNetwork


def test_samples_and_tensors_go_in_and_out(chain: QuantisedNetwork) -> None:
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


def test_saved_programs_load_again(chain: QuantisedNetwork, tmp_path: Path) -> None:
    program = compile_program(chain, design_of(chain))
    program.save(tmp_path / "p")
    loaded = Program.load(tmp_path / "p")
    assert loaded == program
    assert loaded.digest == program.digest
    assert loaded.image() == (tmp_path / "p" / "program.bin").read_bytes()
    assert loaded.design_digest == design_of(chain).digest
    assert loaded.fbcb.dtype == np.uint32
    assert Descriptor.unpack(loaded.image()[128:256]) == program.descriptors[1]


def test_damaged_programs_are_refused(chain: QuantisedNetwork, tmp_path: Path) -> None:
    compile_program(chain, design_of(chain)).save(tmp_path)
    manifest, binary = tmp_path / "program.json", tmp_path / "program.bin"
    text, image = manifest.read_text(), binary.read_bytes()

    def refused(match: str) -> None:
        with pytest.raises(ProgramError, match=match):
            Program.load(tmp_path)

    binary.write_bytes(image[:-1])
    refused("does not belong to its program.json")
    binary.write_bytes(image)
    manifest.write_text(text.replace('"b_max": 4', '"b_max": 5'))
    refused("was changed by hand")
    manifest.write_text(json.dumps({**json.loads(text), "schema": 99}))
    refused("must be a program of schema 1 to 5, not 99")
    body = {key: value for key, value in json.loads(text).items() if key not in ("digest", "tensors")}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    manifest.write_text(json.dumps({**body, "digest": hashlib.sha256(canonical.encode()).hexdigest()}))
    refused("not a well-formed program: KeyError")
    manifest.write_text("{")
    refused("readable program.json")
    manifest.unlink()
    refused("readable program.json")


def test_programs_refuse_nonsense(chain: QuantisedNetwork) -> None:
    program = compile_program(chain, design_of(chain, R_BATCHING))
    with pytest.raises(ProgramError, match=r"layers \* b_max = 28 words, not 1"):
        replace(program, fbcb_words=(0,))
    with pytest.raises(ProgramError, match="multiple of 64 bytes, not 100"):
        replace(program, slot_bytes=100)
    with pytest.raises(ProgramError, match="missing: nowhere"):
        replace(program, input="nowhere")
    with pytest.raises(ProgramError, match="one exit for each of 2 stages, not 1"):
        replace(program, stages=((0, 1), (2, 3)))


def test_lists_in_lists_are_no_program(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ProgramError, match="must hold a readable program"):
        Program.load(tmp_path)
