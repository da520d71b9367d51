"""A tail as plain JSON: operators, attributes, and constants as base64 of little-endian bytes.

Nothing of a file is believed: sizes are bounded before arrays are made, and every refusal is one sentence.

>>> from .graph import Tail, TailNode, TailOutput
>>> tail = Tail(opset=17, inputs=("x",), nodes=(TailNode("Relu", ("x",), ("y",)),),
...             outputs=(TailOutput("y", "float32", (1, 2)),))
>>> tail_of(facts_of(tail)) == tail
True
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import TailError
from .call import DTYPES, MOST_VALUES, Array
from .graph import Tail, TailNode, TailOutput

MOST_NODES = 20_000
MOST_NAMES = 1 << 16  # of one list
MOST_CONSTANTS = 1 << 26  # values of all constants together
OLDEST_OPSET, NEWEST_OPSET = 7, 64
_DTYPES = frozenset(DTYPES.values())


def facts_of(tail: Tail) -> dict[str, Any]:
    """Return a tail in plain JSON types; `tail_of` inverts it."""
    return {
        "opset": tail.opset,
        "inputs": list(tail.inputs),
        "nodes": [
            [
                node.operator,
                list(node.inputs),
                list(node.outputs),
                {key: _plain(node.attributes[key]) for key in sorted(node.attributes)},
            ]
            for node in tail.nodes
        ],
        "outputs": [[output.name, output.dtype, list(output.shape)] for output in tail.outputs],
        "constants": {name: _array_facts(array) for name, array in sorted(tail.constants.items())},
    }


def _plain(value: Any) -> Any:
    return (
        _array_facts(value)
        if isinstance(value, np.ndarray)
        else list(value)
        if isinstance(value, tuple | list)
        else value
    )


def _array_facts(array: Array) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(little.tobytes()).decode()}


def tail_of(facts: Any) -> Tail:
    """Return the tail that `facts_of` wrote. Raises TailError for anything else."""
    table = _Checked(facts)
    nodes = table.rows("nodes", MOST_NODES)
    outputs = table.rows("outputs", MOST_NAMES)
    given = facts.get("constants")
    if not isinstance(given, dict) or len(given) > MOST_NAMES:
        raise TailError(f"the constants of a tail must be an object of at most {MOST_NAMES}")
    constants, total = {}, 0
    for name, value in given.items():
        constants[name] = _array(value, f"constant '{name}'")
        total += constants[name].size
        if total > MOST_CONSTANTS:
            raise TailError(f"the constants of a tail must have at most {MOST_CONSTANTS} values together")
    return Tail(
        opset=table.whole("opset", OLDEST_OPSET, NEWEST_OPSET),
        inputs=_names(facts.get("inputs"), "inputs"),
        nodes=tuple(_node(row) for row in nodes),
        outputs=tuple(_output(row) for row in outputs),
        constants=constants,
    )


class _Checked:
    """A JSON object, of which whole numbers and lists are taken within bounds."""

    def __init__(self, facts: Any) -> None:
        if not isinstance(facts, dict):
            raise TailError(f"a tail must be an object, not {type(facts).__name__}")
        self.facts: Mapping[str, Any] = facts

    def whole(self, key: str, least: int, most: int) -> int:
        value: Any = self.facts.get(key)
        if not _is_whole(value) or not least <= value <= most:
            raise TailError(f"the {key} of a tail must be a whole number in {least}..{most}, not {str(value)[:40]}")
        return int(value)

    def rows(self, key: str, most: int) -> list[Any]:
        value = self.facts.get(key)
        if not isinstance(value, list) or len(value) > most:
            raise TailError(f"the {key} of a tail must be a list of at most {most}")
        return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(value: Any, what: str) -> tuple[str, ...]:
    good = isinstance(value, list) and len(value) <= MOST_NAMES and all(isinstance(name, str) for name in value)
    if not good:
        raise TailError(f"the {what} of a tail must be a list of at most {MOST_NAMES} names")
    return tuple(value)


def _node(row: Any) -> TailNode:
    if not isinstance(row, list) or len(row) != 4 or not isinstance(row[0], str) or not isinstance(row[3], dict):
        raise TailError(f"a node of a tail must be operator, inputs, outputs and attributes, not {str(row)[:80]}")
    attributes = {key: _attribute(key, value) for key, value in row[3].items()}
    return TailNode(
        row[0], _names(row[1], f"inputs of '{row[0]:.40}'"), _names(row[2], "outputs of a node"), attributes
    )


def _attribute(key: str, value: Any) -> object:
    """Return a number, a text, a list of one of them, or an array."""
    if isinstance(value, dict):
        return _array(value, f"attribute '{key:.40}'")
    listed = value if isinstance(value, list) else [value]
    texts, numbers = (all(isinstance(element, kind) for element in listed) for kind in (str, int | float))
    finite = numbers and all(
        not isinstance(element, bool) and math.isfinite(element) and abs(element) < 2**63 for element in listed
    )
    if len(listed) > MOST_NAMES or not (texts or finite):
        raise TailError(f"attribute '{key:.40}' of a tail must be finite numbers or texts, not {str(value)[:60]}")
    return tuple(value) if isinstance(value, list) else value


def _shape(value: Any, what: str, least: int = 0) -> tuple[int, ...]:
    good = isinstance(value, list) and len(value) <= 16
    if not good or not all(_is_whole(element) and least <= element <= MOST_VALUES for element in value):
        raise TailError(f"the shape of {what} must be at most 16 whole numbers from {least}, not {str(value)[:60]}")
    return tuple(value)


def _dtype(value: Any, what: str) -> np.dtype[Any]:
    if not isinstance(value, str) or value not in _DTYPES:
        raise TailError(f"the type of {what} must be one of {', '.join(sorted(_DTYPES))}, not {str(value)[:40]}")
    return np.dtype(value)


def _array(facts: Any, what: str) -> Array:
    what = what[:80]
    if not isinstance(facts, dict) or not isinstance(facts.get("data"), str):
        raise TailError(f"{what} of a tail must have a dtype, a shape and data")
    dtype, shape = _dtype(facts.get("dtype"), what), _shape(facts.get("shape"), what)
    size = math.prod(shape)
    if size > MOST_CONSTANTS or len(facts["data"]) != 4 * -(-size * dtype.itemsize // 3):
        raise TailError(f"{what} of a tail must hold the bytes of its shape {shape}, and it does not")
    try:
        raw = base64.b64decode(facts["data"], validate=True)
    except ValueError:
        raise TailError(f"{what} of a tail must be base64, and it is not") from None
    if len(raw) != size * dtype.itemsize:
        raise TailError(f"{what} of a tail must hold the bytes of its shape {shape}, and it does not")
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _output(row: Any) -> TailOutput:
    if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], str):
        raise TailError(f"an output of a tail must be name, type and shape, not {str(row)[:80]}")
    what = f"output '{row[0]:.40}'"
    shape = _shape(row[2], what, -1)
    if math.prod(max(1, size) for size in shape) > MOST_VALUES:
        raise TailError(f"{what} of a tail must have at most {MOST_VALUES} values, not the shape {shape}")
    return TailOutput(row[0], _dtype(row[1], what).name, shape)
