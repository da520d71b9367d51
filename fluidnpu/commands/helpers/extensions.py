"""The extensions that installed packages bring, of both groups, for `fluidnpu doctor`."""

from __future__ import annotations

from fluidnpu.models.files import Extension


def installed_extensions() -> list[tuple[Extension, str]]:
    """Return each extension, and why it cannot be used: a sentence, or nothing. Loads all of them."""
    from importlib.metadata import entry_points  # slow to load, and help needs none of it

    if not any(group.startswith("fluidnpu.") for group in entry_points().groups):
        return []  # no room need be opened
    from fluidnpu.host.devices import DEVICE_EXTENSIONS
    from fluidnpu.scheduler.policies import POLICY_EXTENSIONS

    devices = [(extension, DEVICE_EXTENSIONS.problem(extension)) for extension in DEVICE_EXTENSIONS.extensions]
    return devices + [(extension, POLICY_EXTENSIONS.problem(extension)) for extension in POLICY_EXTENSIONS.extensions]
