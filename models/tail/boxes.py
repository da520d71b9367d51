"""Non-maximum suppression of boxes, as ONNX defines it.

Candidates are visited by descending score, of equal ones the first box first, as onnxruntime does.
"""

from __future__ import annotations

import numpy as np

from .call import Array, Call, Operator, bounded


def _corners(boxes: Array, centred: bool) -> Array:
    """Return boxes (n, 4) as least and largest y, then x."""
    if centred:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _overlaps(box: Array, others: Array, limit: float) -> Array:
    """True for boxes that share more than a share of their union with a box; empty boxes share nothing."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.maximum(high - low, 0).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1)
    area = (box[2:] - box[:2]).prod()
    union = area + areas - shared
    valid = (shared > 0) & (areas > 0) & (area > 0) & (union > 0)
    return np.asarray(valid & (shared > np.float32(limit) * np.where(valid, union, 1)))


def _kept(boxes: Array, scores: Array, most: int, overlap: float, least: float | None) -> list[int]:
    """Return the boxes of one class that are kept."""
    known = np.arange(len(scores)) if least is None else np.nonzero(scores > np.float32(least))[0]
    left = known[np.argsort(-scores[known], kind="stable")]
    kept: list[int] = []
    while len(left) and len(kept) < most:
        kept.append(int(left[0]))
        left = left[1:][~_overlaps(boxes[left[0]], boxes[left[1:]], overlap)]
    return kept


def _number(call: Call, index: int) -> float | None:
    given = call.optional(index)
    return None if given is None else float(given.reshape(-1)[0])


def _suppress(call: Call) -> Array:
    """Return (kept, 3): sample, class and box of each, by sample, then class, then score."""
    boxes, scores = call[0], call[1]
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4 or boxes.shape[1] != scores.shape[2]:
        raise ValueError(
            f"boxes (N, n, 4) and scores (N, classes, n) must belong together, not {boxes.shape}, {scores.shape}"
        )
    most = int(_number(call, 2) or 0)
    overlap, least = _number(call, 3) or 0.0, _number(call, 4)
    rows = []
    for sample in range(len(boxes)):
        corners = _corners(boxes[sample], bool(call.integer("center_point_box", 0)))
        for label in range(scores.shape[1]):
            rows += [(sample, label, box) for box in _kept(corners, scores[sample, label], most, overlap, least)]
    bounded([len(rows), 3])
    return np.array(rows, np.int64).reshape(-1, 3)


BOXES: dict[str, Operator] = {"NonMaxSuppression": _suppress}
