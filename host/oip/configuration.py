"""Triton's configuration of a model, made from the metadata that clients see. Pure arithmetic.

Load generators such as perf_analyzer ask for it before they send anything. Sizes leave the batch out.

>>> config = configuration({"name": "m", "platform": "p", "inputs": [], "outputs": []}, 8)
>>> config["max_batch_size"], config["output"]
(8, [])
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_STRING = "TYPE_STRING"  # Triton's word for BYTES


def configuration(metadata: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """Return the configuration of a model that takes `batch` samples in a request, as plain JSON types.

    The parameter `class_names` is the JSON list of the names of its classes, where they have any.
    """
    names = metadata.get("class_names")
    return {
        "name": metadata["name"],
        "platform": metadata["platform"],
        "backend": metadata["platform"],
        "max_batch_size": batch,
        "input": [_tensor(tensor) for tensor in metadata["inputs"]],
        "output": [_tensor(tensor) for tensor in metadata["outputs"]],
        "parameters": {"class_names": {"string_value": json.dumps(names)}} if names else {},
    }


def _tensor(tensor: Mapping[str, Any]) -> dict[str, Any]:
    kind = _STRING if tensor["datatype"] == "BYTES" else f"TYPE_{tensor['datatype']}"
    return {"name": tensor["name"], "data_type": kind, "dims": list(tensor["shape"][1:])}
