"""Fleet files that the command line names."""

from __future__ import annotations

from pathlib import Path

from fluidnpu.scheduler import placement

from ...errors import UsageError


def read_fleet(path: Path, lost: str | None = None) -> placement.Fleet:
    """Read a fleet file with its bundles, without the devices that are lost.

    Raises FleetError and BundleError, and UsageError for one whose devices are found later.
    """
    from fluidnpu import host

    fleet = placement.read_fleet(path, bundle=lambda folder: host.Bundle.read(folder).profile)
    if fleet.sources:
        raise UsageError(
            f"plans are for devices that the fleet file names, and those of '{fleet.sources[0].name}' are found while it "
            "is served: say their count"
        )
    return fleet if lost is None else fleet.without(tuple(name.strip() for name in lost.split(",")))
