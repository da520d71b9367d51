"""Vectors of logits that nobody calls exits: several heads of one trunk answer several questions.

An early exit ends the work on a sample. Digits of a number are all wanted: their heads branch from one tensor
with nothing but dense layers of their own between, or cost next to nothing beyond one another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...graph.shapes import Kind
from .drafts import Draft, Plane

LEAST_STAGE = 0.01  # of a network's MACs: what a sample must be able to save by leaving one exit earlier


def are_heads(planes: Sequence[Plane]) -> bool:
    """True if vectors branch from one tensor through dense layers of their own alone."""
    needs = [needed(plane) for plane in planes]
    trunks: set[Plane] = set()
    for index, drafts in enumerate(needs):
        own = drafts.difference(*(other for at, other in enumerate(needs) if at != index))
        written = {draft.output for draft in own}
        if not own or not all(_is_dense(draft) for draft in own):
            return False
        trunks |= {draft.input for draft in own} - written
    return len(planes) > 1 and len(trunks) == 1


def cheap_stage(planes: Sequence[Plane]) -> tuple[int, float] | None:
    """Return the first of some exits, by cost, that is hardly more work than those before it.

    With it comes its share of the MACs, below `LEAST_STAGE`; None where each is worth leaving before.
    """
    needs = [needed(plane) for plane in planes]
    order = sorted(range(len(planes)), key=lambda index: sum(map(macs, needs[index])))
    total = sum(map(macs, set[Draft]().union(*needs)))
    done: set[Draft] = set()
    for rank, index in enumerate(order):
        share = sum(map(macs, needs[index] - done)) / max(1, total)
        if rank and share < LEAST_STAGE:
            return index, share
        done |= needs[index]
    return None


def needed(plane: Plane) -> set[Draft]:
    """Return the layers that a plane is computed by."""
    seen: set[Draft] = set()
    stack = list(plane.writers)
    while stack:
        draft = stack.pop()
        if draft not in seen:
            seen.add(draft)
            stack += [writer for source in draft.sources() for writer in source.writers]
    return seen


def macs(draft: Draft) -> int:
    """Multiply-accumulates of a layer; a pool has none."""
    return 0 if draft.weights is None else math.prod(draft.layer().out_hw) * draft.weights.size


def _is_dense(draft: Draft) -> bool:
    return draft.kind is Kind.GEMM and draft.layer().out_hw == (1, 1)
