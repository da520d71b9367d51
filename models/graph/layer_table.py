"""Read layer tables: JSON lists of <R, P, C> that stand for a network without weights.

A table has "layers": [{"name", "R", "P", "C"}, ...] and may have "model" (its name), "exits" (names),
"exit_rates", and per layer "kind" ("gemm" by default; "max_pool", "sum_pool"), "groups", "stage" and
"residual". Unknown keys are ignored.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import FileError, LayerTableError
from ..files import regular_file
from .shapes import Kind, LayerShape, Workload

MOST_TABLE_BYTES = 1 << 26
MOST_VALUE = 1 << 40
_KINDS = {"max_pool": Kind.MAX_POOL, "sum_pool": Kind.SUM_POOL, "avg_pool": Kind.SUM_POOL}


def read_layer_table(path: Path | str) -> Workload:
    """Read the workload of a JSON layer table. Raises LayerTableError, naming the entry."""
    path = Path(path)
    try:
        table = json.loads(regular_file(path, MOST_TABLE_BYTES).read_bytes())
    except FileError:
        raise
    except FileNotFoundError:
        raise LayerTableError(f"the layer table {path} does not exist") from None
    except OSError as error:
        raise LayerTableError(f"the layer table {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise LayerTableError(f"the layer table {path} must be JSON, and it is not: {str(error)[:120]}") from None
    if not isinstance(table, dict) or not isinstance(table.get("layers"), list) or not table["layers"]:
        raise LayerTableError(
            f"the layer table {path} must be an object with a list 'layers' of at least one layer, and it is not"
        )
    layers = tuple(_layer(entry, index, path) for index, entry in enumerate(table["layers"]))
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise LayerTableError(f"the layers of {path} must have different names, and '{twice}' comes twice")
    stages = max(layer.stage for layer in layers) + 1
    exits = table.get("exits", [f"exit{i + 1}" for i in range(stages - 1)] + ["final"] if stages <= len(layers) else [])
    if not isinstance(exits, list) or not exits or not all(isinstance(exit_, str) for exit_ in exits):
        raise LayerTableError(f"'exits' of {path} must be a list of names, one for each stage, not {str(exits)[:80]}")
    name = table.get("model", path.stem)
    return Workload(
        name=str(name), layers=layers, exits=tuple(exits), exit_rates=_rates(table.get("exit_rates"), len(exits), path)
    )


def _layer(entry: Any, index: int, path: Path) -> LayerShape:
    where = f"layer {index} of {path}"
    if not isinstance(entry, dict):
        raise LayerTableError(f"{where} must be an object with name, R, P and C, not {str(entry)[:80]}")
    name = entry.get("name", f"layer{index}")
    if not isinstance(name, str):
        raise LayerTableError(f"{where} must have a text as its name, not {str(name)[:80]}")
    values: dict[str, Any] = {}
    for key, default, least in (("R", None, 1), ("P", None, 1), ("C", None, 1), ("groups", 1, 1), ("stage", 0, 0)):
        value = entry.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_VALUE:
            raise LayerTableError(
                f"{where} ('{name}') needs a whole number {key} of at least {least}, not {str(value)[:80]}"
            )
        values[key.lower()] = value
    kind = _KINDS.get(str(entry.get("kind")), Kind.GEMM)
    return LayerShape(name=name, kind=kind, residual=bool(entry.get("residual", False)), **values)


def _rates(rates: Any, exits: int, path: Path) -> tuple[float, ...] | None:
    if rates is None:
        return None
    good = (
        isinstance(rates, list)
        and len(rates) == exits
        and all(isinstance(r, int | float) and 0 <= r <= 1 for r in rates)
    )
    if not good or not math.isclose(sum(rates), 1.0, abs_tol=1e-3):
        raise LayerTableError(f"'exit_rates' of {path} must be {exits} shares that sum to 1, not {str(rates)[:80]}")
    return tuple(float(rate) for rate in rates)
