"""The shares of a model's versions, as the admin surface reads and changes them.

>>> read_shares({"shares": {"1": 90, "2": 10}}), read_shares({"back": True})
({'1': 90, '2': 10}, None)
>>> read_shares({"back": 1})
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: back must be true, not 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConflictError, ProtocolError
from ..serving.models import Models
from ..serving.versions import Versions
from .parameters import shown


def read_shares(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the shares that are asked for by version, None for those of before. Raises ProtocolError."""
    if set(asked) not in ({"shares"}, {"back"}):
        raise ProtocolError("a change must have either shares, by version, or back alone")
    if "back" in asked:
        if asked["back"] is not True:
            raise ProtocolError(f"back must be true, not {shown(asked['back'])}")
        return None
    if not isinstance(asked["shares"], Mapping):
        raise ProtocolError(
            f"shares must be an object with a number for each version, not {type(asked['shares']).__name__}"
        )
    return dict(asked["shares"])


def versions_of(models: Models, name: str) -> Versions:
    """Return the versions of a model. Raises UnknownModelError, and ConflictError where it is one bundle."""
    versions = models.versions(name)
    if versions is None:
        raise ConflictError(f"model '{name}' must be a folder of numbered bundles to have shares, and is one bundle")
    return versions
