"""Metadata of a model file: name, exit table, calibration, preprocessing and provenance, each a text by its
key.

docs/reference/model-metadata.md lists the keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from ..errors import DataError, ModelFileError, NetworkError
from ..graph.checks import Check, ExitCheck, read_check
from ..graph.network import MOST_EXPONENT, Exit, Network
from ..images.class_names import check_class_names, names_of_metadata
from ..images.preprocessing import Preprocessing
from .file import OnnxFile

PREFIX = "fluidnpu."
NAMELESS = frozenset({"", "main", "main_graph", "torch_jit", "torch-jit-export"})  # what exporters call every graph


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The checked metadata of a file; `exits` has a row an output, by the output's name."""

    name: str
    exits: Mapping[str, Mapping[str, Any]]
    calibration: Mapping[str, float]
    equalisation: Mapping[str, tuple[int, ...]]
    corrections: Mapping[str, tuple[float, ...]]
    grids: Mapping[str, tuple[float, int]]
    preprocessing: Preprocessing | None
    check: Check
    provenance: Mapping[str, str]
    class_names: tuple[str, ...]  # as fluidnpu wrote them
    foreign_names: tuple[str, ...]  # as another tool did, of whatever it means


def read_metadata(file: OnnxFile) -> Metadata:
    """Read and check the metadata of an open file. Raises ModelFileError."""
    graph = str(file.model.graph.name)
    ranges = _json_object(file, "calibration", {})
    for tensor, value in ranges.items():
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ModelFileError(
                f"the calibration of tensor '{tensor}' in {file.path} must be a number of at least 0, "
                f"not {str(value)[:80]}"
            )
    record = _json_object(file, "preprocessing", None)
    try:
        preprocessing = None if record is None else Preprocessing.of_dict(record)
    except DataError as error:
        raise ModelFileError(f"the metadata {PREFIX}preprocessing of {file.path}: {error}") from None
    return Metadata(
        name=file.metadata.get(PREFIX + "name") or ("" if graph in NAMELESS else graph) or file.path.stem,
        exits=_exit_table(file),
        calibration=ranges,
        equalisation=_equalisation(file),
        corrections=_corrections(file),
        grids=_grids(file),
        preprocessing=preprocessing,
        check=_check(file),
        provenance={key: str(value) for key, value in _json_object(file, "provenance", {}).items()},
        class_names=_class_names(file),
        foreign_names=names_of_metadata(file.metadata.get("names", "")),
    )


def _equalisation(file: OnnxFile) -> dict[str, tuple[int, ...]]:
    """Return the checked exponents of the channels of each tensor."""
    rows = _json_object(file, "equalisation", {})
    for tensor, exponents in rows.items():
        whole = isinstance(exponents, list) and all(
            isinstance(exponent, int) and not isinstance(exponent, bool) for exponent in exponents
        )
        if not whole or not all(abs(exponent) <= MOST_EXPONENT for exponent in exponents):
            raise ModelFileError(
                f"the equalisation of tensor '{tensor}' in {file.path} must be a list of whole numbers of "
                f"-{MOST_EXPONENT}..{MOST_EXPONENT}, one for each channel, not {str(exponents)[:80]}"
            )
    return {tensor: tuple(exponents) for tensor, exponents in rows.items()}


def _corrections(file: OnnxFile) -> dict[str, tuple[float, ...]]:
    """Return the checked corrections of the channels of each layer."""
    rows = _json_object(file, "corrections", {})
    for layer, offsets in rows.items():
        numbers = isinstance(offsets, list) and all(isinstance(value, int | float) for value in offsets)
        if not numbers or not all(math.isfinite(value) for value in offsets):
            raise ModelFileError(
                f"the corrections of layer '{layer}' in {file.path} must be a list of numbers, one for each channel, "
                f"not {str(offsets)[:80]}"
            )
    return {layer: tuple(float(value) for value in offsets) for layer, offsets in rows.items()}


def _grids(file: OnnxFile) -> dict[str, tuple[float, int]]:
    """Return the checked scale and zero point of tensors."""
    rows = _json_object(file, "grids", {})
    for tensor, row in rows.items():
        good = isinstance(row, list) and len(row) == 2 and isinstance(row[0], float) and isinstance(row[1], int)
        if not good or not 0 < row[0] < math.inf or not -128 <= row[1] <= 127:
            raise ModelFileError(
                f"the grid of tensor '{tensor}' in {file.path} must be a scale above 0 and a zero point of -128..127, not "
                f"{str(row)[:80]}"
            )
    return {tensor: (row[0], row[1]) for tensor, row in rows.items()}


def _class_names(file: OnnxFile) -> tuple[str, ...]:
    names = _json_value(file, "classes", None)
    try:
        if names is not None and not isinstance(names, list):
            raise DataError(f"it must be a list of names, not {type(names).__name__}")
        return () if names is None else check_class_names(names, "the list")
    except DataError as error:
        raise ModelFileError(f"the metadata {PREFIX}classes of {file.path}: {error}") from None


def _exit_table(file: OnnxFile) -> dict[str, dict[str, Any]]:
    """Return the checked rows of the exit table by output name."""
    rows = _json_value(file, "exits", [])
    good = isinstance(rows, list) and all(isinstance(row, dict) and isinstance(row.get("output"), str) for row in rows)
    if not good:
        raise ModelFileError(
            f"the exit table in {file.path} must be a list of objects that name their output, and it is not"
        )
    table = {}
    for row in rows:
        entry = {"name": row.get("name", row["output"])} | {
            key: row.get(key) for key in ("threshold", "rate", "accuracy")
        }
        shares = [entry[key] for key in ("threshold", "rate", "accuracy") if entry[key] is not None]
        if not isinstance(entry["name"], str) or not all(
            isinstance(share, int | float) and 0 <= share <= 1 for share in shares
        ):
            raise ModelFileError(
                f"the exit table's row of '{row['output']}' must have a name and shares of 0..1, not {str(row)[:120]}"
            )
        table[row["output"]] = entry
    return table


def _check(file: OnnxFile) -> Check:
    try:
        return read_check(file.metadata.get(PREFIX + "check", ExitCheck.TOP.value))
    except NetworkError as error:
        raise ModelFileError(f"{file.path}: {error}") from None


def _json_value(file: OnnxFile, key: str, default: Any) -> Any:
    text = file.metadata.get(PREFIX + key)
    if text is None:
        return default
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError(f"the metadata {PREFIX}{key} of {file.path} must be JSON, and it is not") from None


def _json_object(file: OnnxFile, key: str, default: dict[str, Any] | None) -> Any:
    value = _json_value(file, key, default)
    if value is not default and not isinstance(value, dict):
        raise ModelFileError(f"the metadata {PREFIX}{key} of {file.path} must be an object, and it is not")
    return value


def record(model: onnx.ModelProto, key: str, what: str, ranges: Mapping[str, float] | None = None) -> None:
    """Write into the provenance of a model what a rewrite did, and ranges where the file has none."""
    metadata = {metadata_prop.key: metadata_prop.value for metadata_prop in model.metadata_props}
    try:
        provenance = json.loads(metadata.get(PREFIX + "provenance", "{}"))
    except (ValueError, RecursionError):
        return  # refused where it is read
    if ranges is not None:
        metadata.setdefault(PREFIX + "calibration", json.dumps(ranges))
    if isinstance(provenance, dict):
        metadata[PREFIX + "provenance"] = json.dumps({**provenance, key: what})
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, metadata)


def metadata_of(network: Network) -> dict[str, str]:
    """Return name, exit table, calibration, provenance and preprocessing as text by their keys.

    Calibration is in real units, with the average pools' gain, as ONNX's own tensors have it.
    """
    gains = network.gains
    ranges = {name: value * gains[name] for name, value in network.calibration.items()}
    entries = {
        PREFIX + "name": network.name,
        PREFIX + "exits": json.dumps([_exit_row(exit_) for exit_ in network.exits if exit_.logits], allow_nan=False),
        PREFIX + "calibration": json.dumps(ranges, allow_nan=False),
        PREFIX + "provenance": json.dumps(dict(network.metadata), sort_keys=True, allow_nan=False),
    }
    if network.equalisation:
        entries[PREFIX + "equalisation"] = json.dumps(network.equalisation, sort_keys=True)
    if network.corrections:
        entries[PREFIX + "corrections"] = json.dumps(network.corrections, sort_keys=True, allow_nan=False)
    if network.grids:
        entries[PREFIX + "grids"] = json.dumps(network.grids, sort_keys=True)
    if network.check is not ExitCheck.TOP:
        entries[PREFIX + "check"] = network.check.text
    if network.preprocessing is not None:
        entries[PREFIX + "preprocessing"] = network.preprocessing.dumps()
    if network.class_names:
        entries[PREFIX + "classes"] = json.dumps(network.class_names)
    return entries


def _exit_row(exit: Exit) -> dict[str, object]:
    """Return a row of the exit table; what is not known, or only assumed, is left out."""
    threshold = None if exit.assumed else exit.threshold
    facts = {"threshold": threshold, "rate": exit.rate, "accuracy": exit.accuracy}
    row: dict[str, object] = {"name": exit.name, "output": exit.logits}
    return row | {key: value for key, value in facts.items() if value is not None}
