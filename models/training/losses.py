"""Losses of exits: cross entropy of classes and pixels, and of heat maps against bumps at the landmarks."""

from __future__ import annotations

from typing import Any

from ..exits.scores import UNJUDGED
from ..graph.checks import Check, MapCheck, MapTask
from .framework import load_torch

BUMP_PIXELS = 1.0  # standard deviation of the bump that a heat map is to have at its landmark


def exit_loss(logits: Any, truths: Any, check: Check) -> Any:
    """Return the mean loss of an exit's logits (N, n) for truths as `scores` takes them, both torch
    tensors.

    Of heat maps it is the binary cross entropy with a bump at the landmark, summed over a map's pixels:
    nearly all pixels are far from it, and a mean would hide the few that matter.
    """
    functional = load_torch().nn.functional
    if not isinstance(check, MapCheck):
        return functional.cross_entropy(logits, truths)
    maps = logits.reshape(-1, *check.shape)
    if check.task is MapTask.SEGMENTATION:
        return functional.cross_entropy(maps.permute(0, 3, 1, 2), truths, ignore_index=UNJUDGED)
    wanted, judged = bumps(truths, check)
    per_map = functional.binary_cross_entropy_with_logits(maps, wanted, reduction="none").sum((1, 2))
    return (per_map * judged).sum() / judged.sum().clamp(min=1)


def bumps(landmarks: Any, check: MapCheck) -> tuple[Any, Any]:
    """Return the heat maps (N, height, width, landmarks) wanted for landmarks (N, landmarks, 2).

    With them comes which are judged, (N, landmarks): those that are not NaN.
    """
    torch = load_torch()
    height, width, _ = check.shape
    judged = torch.isfinite(landmarks).all(-1)
    places = torch.nan_to_num(landmarks).float()
    rows = torch.arange(height).view(1, height, 1, 1) + 0.5 - places[:, None, None, :, 0] * height
    columns = torch.arange(width).view(1, 1, width, 1) + 0.5 - places[:, None, None, :, 1] * width
    return torch.exp(-(rows**2 + columns**2) / (2 * BUMP_PIXELS**2)), judged.float()


def distance(logits: Any, goal: Any, check: Check, heat: float) -> Any:
    """Return how far an exit's logits are from another's, for distillation at a temperature.

    It is the divergence of their softmax for each sample or pixel, of heat maps the cross entropy of their
    sigmoids.
    """
    functional = load_torch().nn.functional
    if isinstance(check, MapCheck) and check.task is MapTask.LANDMARKS:
        shape = (-1, *check.shape)
        per_map = functional.binary_cross_entropy_with_logits(
            logits.reshape(shape), (goal / heat).sigmoid().reshape(shape), reduction="none"
        )
        return per_map.sum((1, 2)).mean()
    if isinstance(check, MapCheck):
        logits, goal = (tensor.reshape(-1, check.shape[2]) for tensor in (logits, goal))
    learned, wanted = functional.log_softmax(logits / heat, 1), functional.softmax(goal / heat, 1)
    return functional.kl_div(learned, wanted, reduction="batchmean") * heat**2
