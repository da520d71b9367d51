"""Settings of all tests: one name a module, the markers, and property tests without a deadline.

`pytest dse/` works from the root: a room's folder is imported as `fluidnpu.dse`, never a second time as
`dse`.
"""

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# On a busy machine a slow example is not a wrong one, and one that is made slowly is not a bad one.
settings.register_profile("fluidnpu", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fluidnpu")

# Compiled modules are kept, whatever the shell says: else every command that a test starts compiles anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["workshop.budget"]

# One process of tests must not find another's imitation of a board in use.
_locks = tempfile.TemporaryDirectory(prefix="fluidnpu-locks-")
os.environ["FLUIDNPU_LOCKS"] = _locks.name

# Packages that tests install for a while: a collected file's folder would stay on the path of all tests.
collect_ignore = ["tests/scheduler/combiners", "tests/extensions/fluidnpu-example"]

ROOMS = {"boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies"}


@pytest.fixture(scope="module")
def few_trials() -> Iterator[None]:
    """Choose of few weights, on few and short streams, for tests that hold with any weights."""
    selection = importlib.import_module("fluidnpu.scheduler.policies.selection")
    every = selection.candidates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "candidates", lambda setting: dict(islice(every(setting).items(), 4)))
        patch.setattr(selection, "FIRST", (3, 100))
        patch.setattr(selection, "SECOND", (3, 100))
        patch.setattr(selection, "_tried", {})
        yield


@pytest.fixture(scope="session")
def few_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty of the shipped images: `build --data` guards accuracy on them, and not on all thousand."""
    from fluidnpu.models import shipped_images

    file, some = tmp_path_factory.mktemp("images") / "images.npz", shipped_images(40)
    np.savez(file, images=some.images, labels=some.labels)
    return file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of the matrix as long, too: `make test-long` runs the long ones without it."""
    for item in items:
        if item.get_closest_marker("matrix"):
            item.add_marker("long")


class RoomAlias(MetaPathFinder, Loader):
    """Resolves `dse.x` to the module `fluidnpu.dse.x`."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A spec for names that begin with a room; None for all others."""
        return ModuleSpec(name, self) if name.partition(".")[0] in ROOMS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its one name; the import system overwrites its spec, which `exec_module`
        restores.
        """
        module = importlib.import_module(f"fluidnpu.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module is loaded already."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, RoomAlias())
