"""`fluidnpu measure --layers`: what an NPU counts in each layer, beside what the exact model counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluidnpu import host

from ... import show
from ...errors import UsageError

COUNTED = ("simulated", "rtl", "cosim", "pynq", "devmem")  # devices with counters
_PATIENT = 1e4  # of a simulation in RTL, which a design with latencies of another model may take longer
_COLUMNS = ("cycles", "inputs", "starved", "blocked", "read_beats", "read_bursts", "write_beats", "write_bursts")


@dataclass(frozen=True, kw_only=True)
class LayersMeasured:
    """The counters of every layer of one job, and those of the exact model, in the order of the layers."""

    network: str
    device: str
    batch: int
    names: tuple[str, ...]
    counted: tuple[host.LayerCounts, ...]
    expected: tuple[host.LayerCounts, ...]

    @property
    def differing(self) -> int:
        """Layers of which a counter is not that of the model."""
        return sum(count != other for count, other in zip(self.counted, self.expected, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The record of `--json`."""
        layers = [
            {"layer": name, "counted": vars(counted), "exact": vars(expected)}
            for name, counted, expected in zip(self.names, self.counted, self.expected, strict=True)
        ]
        return {
            "network": self.network,
            "device": self.device,
            "batch": self.batch,
            "layers": layers,
            "differing_layers": self.differing,
        }


def measure_layers(folder: Path, device: str, batch: int | None, addresses: dict[str, Any]) -> LayersMeasured:
    """Run a bundle's whole network once on random samples and read the counters of its layers.

    `batch`: by default the largest. Raises UsageError, and the errors of the device.
    """
    bundle = host.Bundle.read(folder)
    design, program = bundle.design, bundle.program
    if design.is_measured:
        raise UsageError(f"--layers is for the bundle of an NPU, and that in '{folder}' is for {design.board}")
    if batch is not None and batch > design.b_max:
        raise UsageError(f"--batch must lie in 1..{design.b_max} with this bundle, not {batch}")
    samples = program.input_intake.random(batch or design.b_max, 1)
    with host.open_device(device, bundle, folder, **addresses) as npu:
        patience = _PATIENT if device in ("rtl", "cosim") else host.PATIENCE
        driver = host.Driver(npu, program, design, patience=patience)
        driver.load()
        for slot, sample in enumerate(samples):
            driver.write_sample(slot, sample)
        driver.activate(range(len(samples)))
        driver.run_to_exit(design.stages - 1)
        last = len(design.layers) - 1
        counted, expected = driver.read_counts(0, last), driver.expected_counts(0, last)
        driver.close()
    return LayersMeasured(
        network=design.network,
        device=device,
        batch=len(samples),
        names=tuple(layer.name for layer in design.layers),
        counted=tuple(counted),
        expected=tuple(expected),
    )


def print_layers(measured: LayersMeasured, *, as_json: bool) -> None:
    """Print a line for each layer; what differs from the exact model has the difference behind it."""
    if as_json:
        show.emit(measured.to_dict())
        return
    rows = [
        (name, *(_cell(getattr(counted, column), getattr(expected, column)) for column in _COLUMNS))
        for name, counted, expected in zip(measured.names, measured.counted, measured.expected, strict=True)
    ]
    out = show.console()
    title = f"{measured.network}, B = {measured.batch}, counted by the {measured.device} device"
    out.print(show.table(title, ["layer", *(column.replace("_", " ") for column in _COLUMNS)], rows))
    cycles = sum(layer.cycles for layer in measured.counted)
    out.print(f"{cycles:,} cycles; {measured.differing} of {len(rows)} layers differ from the exact model")


def _cell(counted: int, expected: int) -> str:
    """Make the text of one counter.

    >>> _cell(1200, 1200), _cell(1200, 1180)
    ('1,200', '1,200 (+20)')
    """
    return f"{counted:,}" if counted == expected else f"{counted:,} ({counted - expected:+,})"
