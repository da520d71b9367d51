"""Fleet files that the command line names."""

from __future__ import annotations

from pathlib import Path

from fluidnpu.scheduler import placement


def read_fleet(path: Path, lost: str | None = None) -> placement.Fleet:
    """Read a fleet file with its bundles, without the devices that are lost. Raises FleetError and
    BundleError.
    """
    from fluidnpu import host

    fleet = placement.read_fleet(path, bundle=lambda folder: host.Bundle.read(folder).profile)
    return fleet if lost is None else fleet.without(tuple(name.strip() for name in lost.split(",")))
