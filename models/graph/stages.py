"""Stages of a multi-exit network: assign layers to exits and order them. Pure, for any hashable layer.

>>> stages_of([{"a", "head"}, {"a", "b"}], ["a", "b", "head"])
[('a', 0), ('head', 0), ('b', 1)]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def with_outputs(
    exits: Sequence[AbstractSet[T]], outputs: Sequence[AbstractSet[T]]
) -> tuple[list[AbstractSet[T]], list[int]]:
    """Return what each stage needs once outputs that are no exits are computed, too, and the stage of each
    output.

    An output belongs to the first stage after which all that it shares with exits is there.

    >>> stages, places = with_outputs([{"a", "head"}, {"a", "b"}], [{"a", "map"}, {"b", "mask"}])
    >>> [sorted(stage) for stage in stages], places
    ([['a', 'head', 'map'], ['a', 'b', 'mask']], [0, 1])
    """
    stages: list[AbstractSet[T]] = [set(needed) for needed in exits]
    shared = frozenset[T]().union(*exits)
    places = []
    for needed in outputs:
        ahead, stage = set(exits[0]), 0
        while not needed & shared <= ahead:
            stage += 1
            ahead |= exits[stage]
        stages[stage] = stages[stage] | needed
        places.append(stage)
    return stages, places


def stages_of(needs: Sequence[AbstractSet[T]], order: Iterable[T]) -> list[tuple[T, int]]:
    """Return (layer, stage) in execution order: stage by stage, and within a stage the backbone before the
    head.

    `needs[s]` are the layers that exit s depends on; `order` is an execution order of all layers. Layers
    that no exit needs are left out.
    """
    stage: dict[T, int] = {}
    for index, needed in enumerate(needs):
        for layer in needed:
            stage.setdefault(layer, index)
    later = [frozenset[T]().union(*needs[index + 1 :]) for index in range(len(needs))]
    kept = [layer for layer in order if layer in stage]
    kept.sort(key=lambda layer: (stage[layer], layer not in later[stage[layer]]))
    return [(layer, stage[layer]) for layer in kept]
