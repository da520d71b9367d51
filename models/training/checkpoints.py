"""Checkpoints of training: one file, written whole after every epoch, that continues to the same bits.

It holds tensors and numbers only, so reading one runs no code of its own.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, NetworkError
from ..files import regular_file, write_file
from ..graph.network import Network
from .examples import Examples
from .framework import load_torch
from .schedule import TrainingSchedule

SCHEMA = 1
MOST_BYTES = 1 << 34


def fingerprint(network: Network, examples: Examples, schedule: TrainingSchedule) -> str:
    """Return a digest of all that a run depends on: layers, first weights, settings, images' number and first
    items.
    """
    digest = hashlib.sha256()
    for part in (network.layers, network.exits, schedule, examples.indices.tolist()):
        digest.update(repr(part).encode())
    for name in sorted(network.parameters):
        digest.update(np.ascontiguousarray(network.parameters[name].weights).tobytes())
    images, labels = examples[:4].images_and_labels()
    digest.update(np.ascontiguousarray(images).tobytes() + np.ascontiguousarray(labels).tobytes())
    return digest.hexdigest()


def save(path: Path, fingerprint: str, state: dict[str, Any]) -> None:
    """Write a checkpoint."""
    stream = io.BytesIO()
    load_torch().save({"schema": SCHEMA, "fingerprint": fingerprint, **state}, stream)
    write_file(path, stream.getvalue())


def load(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Read a checkpoint of the same run; None where there is no file.

    Raises DataError for a damaged file and NetworkError for one of another network, data set or schedule.
    """
    if not path.exists():
        return None
    torch = load_torch()
    try:
        state = torch.load(io.BytesIO(regular_file(path, MOST_BYTES).read_bytes()), weights_only=True)
        good = state["schema"] == SCHEMA
    except (RuntimeError, ValueError, KeyError, EOFError, TypeError, AttributeError, ImportError, OSError) as error:
        raise DataError(
            f"'{path}' must be a checkpoint of training, and reading it failed: {str(error)[:120]}"
        ) from None
    except Exception as error:  # torch.load raises pickle's own errors for what it refuses
        raise DataError(f"'{path}' must be a checkpoint of training, and it is not: {str(error)[:120]}") from None
    if not good or state["fingerprint"] != fingerprint:
        raise NetworkError(
            f"the checkpoint '{path}' must be of this network, these images and these settings, and it is of others; "
            "name another folder or remove it"
        )
    return dict(state)
