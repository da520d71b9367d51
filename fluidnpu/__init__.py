"""The front door: the names that a script needs, each from its room, loaded when first used so that `fluidnpu --help` answers at once.

>>> import fluidnpu
>>> found = fluidnpu.explore(fluidnpu.Workload(name="one", layers=(fluidnpu.LayerShape(name="fc", r=1, p=64, c=32),)), fluidnpu.load_board("zc706"))
>>> found.design.board
'zc706'
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not (Path(__file__).parent / "boards").is_dir():
    raise ImportError(
        "fluidnpu/boards must be a symbolic link to ../boards, not a text file: clone with "
        "'git clone -c core.symlinks=true', or install the wheel, which has no links"
    )

if TYPE_CHECKING:
    from fluidnpu.boards import load_board
    from fluidnpu.dse import Design, explore
    from fluidnpu.hls import compile_program, csim_network, render_project, write_project
    from fluidnpu.host import Bundle, Driver, Server, open_device, serve_requests
    from fluidnpu.models import LayerShape, Network, Workload, accuracy_guard, quantise, read_model, read_onnx
    from fluidnpu.scheduler import compare, make_policy, measure, poisson, simulate

_ROOM_OF = {
    "boards": ("load_board",),
    "models": ("LayerShape", "Network", "Workload", "accuracy_guard", "quantise", "read_model", "read_onnx"),
    "dse": ("Design", "explore"),
    "hls": ("compile_program", "csim_network", "render_project", "write_project"),
    "scheduler": ("compare", "make_policy", "measure", "poisson", "simulate"),
    "host": ("Bundle", "Driver", "Server", "open_device", "serve_requests"),
}
_HOME = {name: room for room, names in _ROOM_OF.items() for name in names}

__all__ = [
    "Bundle",
    "Design",
    "Driver",
    "LayerShape",
    "Network",
    "Server",
    "Workload",
    "accuracy_guard",
    "compare",
    "compile_program",
    "csim_network",
    "explore",
    "load_board",
    "make_policy",
    "measure",
    "open_device",
    "poisson",
    "quantise",
    "read_model",
    "read_onnx",
    "render_project",
    "serve_requests",
    "simulate",
    "write_project",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fluidnpu' has no attribute '{name}'")
    return getattr(import_module(f"fluidnpu.{_HOME[name]}"), name)
