"""A board needs NumPy and nothing compiled beyond it: no torch, no onnx, and PYNQ only when asked for."""

import subprocess
import sys

import pytest
from host_worlds import PATIENCE_S


def loaded_by(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return set(done.stdout.split())


def test_all_names_of_host_load_numpy_and_our_rooms_only() -> None:
    code = """
import sys
old = set(sys.modules)
from fluidnpu import host
from fluidnpu.host import devices
for door in (host, devices):
    for name in door.__all__:
        getattr(door, name)
print(*{m.partition(".")[0] for m in set(sys.modules) - old})
"""
    allowed = {"fluidnpu", "lazy_loader", "numpy", "cython_runtime", "tomli"}  # tomli: of the base before Python 3.11
    loaded = {name for name in loaded_by(code) if not name.startswith("_")}
    assert "numpy" in loaded
    assert loaded - set(sys.stdlib_module_names) - allowed == set()


def test_serving_loads_nothing_more() -> None:
    code = """
import sys
import numpy as np
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, Driver, SimulatedNpu, serve_requests
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_network
from fluidnpu.scheduler import make_policy, poisson
network = quantise(random_network(3))
design = design_for(network.network.workload)
driver = Driver(SimulatedNpu(design), compile_program(network, design), design)
driver.load()
images = np.zeros((4, *network.network.tensors["image"]), np.uint8)
requests = poisson(1e5, 4, slo_ns=10**9, rng=np.random.default_rng(0))
assert len(serve_requests(requests, images, make_policy("fluid"), driver).replies) == 4
print(*{m.partition('.')[0] for m in sys.modules})
"""
    heavy = {"torch", "onnx", "onnxruntime", "pynq", "jinja2", "matplotlib", "scipy", "google", "click", "rich"}
    assert not loaded_by(code) & heavy


def test_a_client_of_a_board_loads_the_wire_format_and_no_server() -> None:
    pytest.importorskip("grpc")
    host = "fluidnpu.host"
    code = f"import sys, {host}.fleet.boards.link; print(*(name for name in sys.modules if name.startswith('{host}')))"
    loaded = {name for name in loaded_by(code) if not name.startswith(f"{host}.oip.wire")}
    packages = {host, f"{host}.oip", f"{host}.fleet", f"{host}.fleet.boards"}
    assert loaded == {*packages, f"{host}.errors", f"{host}.fleet.boards.link"}
