"""Files made to hurt: whatever they hold, reading ends in a network or one sentence, and in little memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_mutations import Mutator
from test_models_onnx_random import MOVES, STEPS, RandomGraph
from waiting import PATIENCE_S, ends

from fluidnpu.models import NetworkError, golden, quantise, read_onnx
from fluidnpu.models.onnx.wire import WireError, count_fields
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import random_network
from fluidnpu.models.zoo.patchwork import random_patchwork

BASES = [
    *(build_onnx(random_network(seed)) for seed in range(6)),
    *(build_onnx(random_patchwork(seed, exits=seed % 3)) for seed in range(6)),
    *(RandomGraph(seed, among=(*STEPS, *MOVES)).model() for seed in range(12)),
]


def survives(path: Path, seed: int) -> None:
    """Read, and where that works quantise and run, what damage of this seed makes of a good file."""
    rng = np.random.default_rng(seed)
    try:
        path.write_bytes(Mutator(rng)(BASES[int(rng.integers(len(BASES)))]).SerializeToString())
    except (ValueError, TypeError):  # damage that protobuf itself cannot write down
        return
    said = "a network"
    try:
        network = read_onnx(path)
        if network.workload.macs < 1e7 and max(np.prod(shape) for shape in network.tensors.values()) < 1e6:
            images = np.ones((1, *network.tensors[network.input]), np.float32)
            golden.run_outputs(quantise(network, images), images)
    except NetworkError as error:
        said = str(error)
    assert said.isprintable(), seed


def test_damaged_files_give_a_network_or_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(1000))
    for seed in range(400):
        with ends():
            survives(tmp_path / "damaged.onnx", seed)


@pytest.mark.long
def test_many_damaged_files_give_a_network_or_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(1000))
    for seed in range(10_000, 13_000):
        with ends():
            survives(tmp_path / "damaged.onnx", seed)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


GRAPH, NODE, INITIALISER, ATTRIBUTE = 7, 1, 5, 5
COUNT = 3_000_000  # two or three bytes of file each, and hundreds once parsed
BOMBS: dict[str, Callable[[], bytes]] = {  # made when they are thrown: up to 200 MB
    "nodes": lambda: field(NODE, b"") * COUNT,
    "attributes": lambda: field(NODE, field(ATTRIBUTE, b"") * COUNT),
    "inputs": lambda: field(NODE, field(1, b"") * COUNT),
    "dims": lambda: field(INITIALISER, b"\x08\x01" * COUNT),
    "packed": lambda: field(INITIALISER, field(1, b"\x01" * (COUNT << 6))),
}
READ = """
import resource, sys
from fluidnpu.models import NetworkError, read_onnx
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_onnx(sys.argv[1])
except NetworkError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", BOMBS)
def test_small_parts_in_great_number_are_refused_before_they_are_parsed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.onnx"
    path.write_bytes(field(GRAPH, BOMBS[kind]()))
    found = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    sentence, kilobytes = found.stdout.splitlines()
    assert "more than 1048576 fields" in sentence
    assert int(kilobytes) * 1024 < 4 * path.stat().st_size + (200 << 20)


def test_cut_and_foreign_fields_are_no_message() -> None:
    raw = BASES[0].SerializeToString()
    assert count_fields(raw) < 3000
    for wrong in (raw[:-1], b"\x0b", b"\xff" * 11, b"\x3a\x7f", b"\x09abc"):
        with pytest.raises(WireError):
            count_fields(wrong)


def test_counting_agrees_with_the_parser() -> None:
    model = onnx.helper.make_model(onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [], []))
    # ir_version, opset_import (version), graph (name, node (input, output, op_type))
    assert count_fields(model.SerializeToString()) == 1 + 2 + 3 + 3
