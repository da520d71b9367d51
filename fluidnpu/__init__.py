"""The front door: the names that a script needs, each from its room, loaded when first used
(docs/how-to/python.md).

>>> import fluidnpu
>>> layers = (fluidnpu.LayerShape(name="fc", r=1, p=64, c=32),)
>>> work = fluidnpu.Workload(name="one", layers=layers)
>>> fluidnpu.explore(work, fluidnpu.load_board("zc706"), model="paper").design.board
'zc706'
"""

from pathlib import Path
from typing import Any

import lazy_loader

if __name__ != "fluidnpu":  # a checkout's folder is on `__path__`, and with it this one
    raise ImportError(f"fluidnpu must be imported by its own name, not as {__name__}")
_HERE = Path(__file__).resolve().parent
if not (_HERE / "boards").is_dir():  # a checkout, where the rooms lie beside this folder
    __path__.append(str(_HERE.parent))
    if not (_HERE.parent / "boards" / "board.py").is_file():
        raise ImportError(f"fluidnpu must have its rooms inside it or beside it, as boards/, and {_HERE} has neither")

_of_rooms, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a name when it is first used; `__version__` is that of the installation, "unknown" without one."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version  # slow to load, and rooms need none of it

        try:
            return version("fluidnpu")
        except PackageNotFoundError:  # a checkout on PYTHONPATH
            return "unknown"
    return _of_rooms(name)
