"""The extensions that installed packages bring, of every group, for `fluidnpu doctor`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fluidnpu.models.files import Extension, ExtensionGroup


def extension_groups() -> list[ExtensionGroup[Any]]:
    """Return the groups of entry points; that of operators only where ONNX can be read."""
    from fluidnpu.host.devices import DEVICE_EXTENSIONS
    from fluidnpu.scheduler.exits import QUANTITY_EXTENSIONS
    from fluidnpu.scheduler.placement import COMBINER_EXTENSIONS
    from fluidnpu.scheduler.policies import POLICY_EXTENSIONS

    groups: list[ExtensionGroup[Any]] = [DEVICE_EXTENSIONS, POLICY_EXTENSIONS, QUANTITY_EXTENSIONS, COMBINER_EXTENSIONS]
    with suppress(ImportError):
        from fluidnpu.models.onnx import OPERATOR_EXTENSIONS

        groups.insert(0, OPERATOR_EXTENSIONS)
    return groups


def installed_extensions() -> list[tuple[Extension, str]]:
    """Return each extension, and why it cannot be used: a sentence, or nothing. Loads all of them."""
    from importlib.metadata import entry_points  # slow to load, and help needs none of it

    if not any(group.startswith("fluidnpu.") for group in entry_points().groups):
        return []  # no room need be opened
    return [(extension, group.problem(extension)) for group in extension_groups() for extension in group.extensions]
