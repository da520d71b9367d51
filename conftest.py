"""Settings of all tests: the markers, shared fixtures, and property tests without a deadline."""

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# On a busy machine a slow example is not a wrong one, and one that is made slowly is not a bad one.
settings.register_profile("fluidnpu", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fluidnpu")

# Compiled modules are kept, whatever the shell says: else every command that a test starts compiles anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["cpu_budget"]

# One process of tests must not find another's imitation of a board in use.
_locks = tempfile.TemporaryDirectory(prefix="fluidnpu-locks-")
os.environ["FLUIDNPU_LOCKS"] = _locks.name


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
