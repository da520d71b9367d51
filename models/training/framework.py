"""PyTorch as training uses it: loaded where it is needed, on one thread, so that a seed gives one result."""

from __future__ import annotations

from typing import Any

from ..errors import TrainingError


def load_torch() -> Any:
    """Return the module torch, set to one thread. Raises TrainingError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise TrainingError("training needs PyTorch, which is not installed: pip install 'fluidnpu[train]'") from None
    torch.set_num_threads(1)
    return torch
