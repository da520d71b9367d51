"""Non-maximum suppression of boxes, as ONNX defines it.

Candidates are visited by descending score, of equal ones the first box first, as onnxruntime does.
"""

from __future__ import annotations

import numpy as np

from .call import Array, Operator, OperatorCall, bounded


def _corners(boxes: Array, centred: bool) -> Array:
    """Return boxes (n, 4) as least and largest y, then x."""
    if centred:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _kept(boxes: Array, scores: Array, most: int, overlap: float, least: float | None) -> list[int]:
    """Return the boxes of one class that are kept.

    A box leaves if it shares more than `overlap` of the union with a kept one; empty boxes share nothing.
    """
    candidates = np.arange(len(scores)) if least is None else np.nonzero(scores > np.float32(least))[0]
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    top, left, bottom, right = np.ascontiguousarray(boxes[order].T)
    areas = (bottom - top) * (right - left)
    gone = np.zeros(len(order), np.bool_)
    kept: list[int] = []
    for index, box in enumerate(order):
        if gone[index]:
            continue
        if len(kept) == most:
            break
        kept.append(int(box))
        rest = slice(index + 1, None)
        height = np.minimum(bottom[index], bottom[rest]) - np.maximum(top[index], top[rest])
        width = np.minimum(right[index], right[rest]) - np.maximum(left[index], left[rest])
        shared = np.maximum(height, 0) * np.maximum(width, 0)
        gone[rest] |= (shared > 0) & (shared / (areas[index] + areas[rest] - shared) > np.float32(overlap))
    return kept


def _number(call: OperatorCall, index: int) -> float | None:
    given = call.optional(index)
    return None if given is None else float(given.reshape(-1)[0])


def _suppress(call: OperatorCall) -> Array:
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
