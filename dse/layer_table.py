"""Layer tables: a network as JSON rows <R, P, C>, read into a `Workload`. The file format of the papers' networks, which need no weights here.

    {"model": "name", "layers": [{"name": "conv1", "R": 12544, "P": 147, "C": 64}, ...]}

A layer may also have "kind" ("max_pool" and "sum_pool" are pools, anything else is a GEMM), "groups", "stage" and "residual". A table may have
"exits" (names in stage order) and "exit_rates". Other keys are notes and are left alone.

>>> parse_layer_table('{"model": "m", "layers": [{"name": "fc", "R": 1, "P": 8, "C": 4}]}').macs
32
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from models import Kind, LayerShape, NetworkError, Workload

from .design import DesignError

MAX_LAYERS = 10_000


def load_layer_table(path: str | Path) -> Workload:
    """The workload in a layer-table file. Raises DesignError with one sentence that names the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DesignError(f"layer table '{path}' must be a readable UTF-8 file: {error}") from None
    return parse_layer_table(text, source=str(path))


def parse_layer_table(text: str, source: str = "layer table") -> Workload:
    """The workload in JSON text; `source` names it in errors. Raises DesignError."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise DesignError(f"layer table '{source}' must be JSON: {error}") from None
    if not isinstance(raw, Mapping) or not isinstance(raw.get("layers"), list) or not raw["layers"]:
        raise DesignError(f"layer table '{source}' must be an object with a non-empty list 'layers'")
    if len(raw["layers"]) > MAX_LAYERS:
        raise DesignError(f"layer table '{source}' must have at most {MAX_LAYERS} layers, not {len(raw['layers'])}")
    layers = tuple(_layer(row, index, source) for index, row in enumerate(raw["layers"]))
    try:
        exits = raw.get("exits", ("final",))
        if not isinstance(exits, list | tuple) or not all(isinstance(name, str) for name in exits):
            raise NetworkError(f"exits must be a list of names, not {exits!r}")
        return Workload(
            name=str(raw.get("model", Path(source).stem)),
            layers=layers,
            exits=tuple(exits),
            exit_rates=_rates(raw, len(exits)),
        )
    except NetworkError as error:
        raise DesignError(f"layer table '{source}': {error}") from None


def _layer(row: Any, index: int, source: str) -> LayerShape:
    where = f"layer {index} of table '{source}'"
    if not isinstance(row, Mapping):
        raise DesignError(f"{where} must be an object, not {row!r:.60}")
    name = str(row.get("name", f"layer{index}"))
    missing = [key for key in ("R", "P", "C") if key not in row]
    if missing:
        raise DesignError(f"{where} ('{name}') must have R, P and C; it lacks {', '.join(missing)}")
    kind, stage = row.get("kind"), row.get("stage", 0)
    if not isinstance(stage, int) or isinstance(stage, bool) or stage < 0:
        raise DesignError(f"{where} ('{name}'): stage must be a whole number of at least 0, not {stage!r:.60}")
    try:
        return LayerShape(
            name=name,
            r=row["R"],
            p=row["P"],
            c=row["C"],
            kind=Kind(kind) if kind in (Kind.MAX_POOL, Kind.SUM_POOL) else Kind.GEMM,
            groups=row.get("groups", 1),
            stage=stage,
            residual=bool(row.get("residual", False)),
        )
    except (NetworkError, TypeError) as error:
        raise DesignError(f"{where}: {error}") from None


def _rates(raw: Mapping[str, Any], stages: int) -> tuple[float, ...] | None:
    rates = raw.get("exit_rates")
    if rates is None:
        return None
    numbers = isinstance(rates, list) and all(isinstance(r, int | float) and r >= 0 for r in rates)
    if not numbers or len(rates) != stages or abs(sum(rates) - 1) > 1e-6:
        raise NetworkError(f"exit_rates must be {stages} shares that sum to 1, not {rates!r}")
    return tuple(float(r) for r in rates)


def equidistant_exits(workload: Workload, exits: int, exit_rates: Sequence[float] | None = None) -> Workload:
    """The same layers cut into `exits` stages of as equal multiply-accumulates as whole layers allow; exit heads cost nothing.

    Seed 004 places three intermediate exits this way. Raises DesignError when there are fewer layers than exits.

    >>> layers = tuple(LayerShape(name=n, r=1, p=1, c=c) for n, c in (("a", 4), ("b", 3), ("c", 9)))
    >>> [layer.stage for layer in equidistant_exits(Workload(name="w", layers=layers), 2).layers]
    [0, 0, 1]
    """
    if not 1 <= exits <= len(workload.layers):
        raise DesignError(
            f"the number of exits must lie in 1..{len(workload.layers)} for '{workload.name}', not {exits}"
        )
    done = list(accumulate(layer.macs for layer in workload.layers))
    cuts: list[int] = []
    for stage in range(1, exits):
        low, high = (cuts[-1] if cuts else 0) + 1, len(workload.layers) - (exits - stage)
        error = {n: abs(done[n - 1] * exits - stage * workload.macs) for n in range(low, high + 1)}
        cuts.append(min(error, key=error.__getitem__))
    stages = [bisect_right(cuts, index) for index in range(len(workload.layers))]
    return replace(
        workload,
        layers=tuple(replace(layer, stage=s) for layer, s in zip(workload.layers, stages, strict=True)),
        exits=tuple(f"exit{s + 1}" for s in range(exits)),
        exit_rates=None if exit_rates is None else tuple(exit_rates),
    )
