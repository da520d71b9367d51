"""Fixtures that several files of this room's tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fluidnpu.models import shipped_images


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty of the shipped images: `build --data` guards accuracy on them, and not on all thousand."""
    out, some = tmp_path_factory.mktemp("images") / "images.npz", shipped_images(40)
    np.savez(out, images=some.images, labels=some.labels)
    return out
