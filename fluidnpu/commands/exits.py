"""`fluidnpu exits` and the `--exits` of `fluidnpu dse`: where a network can be left early, and heads put there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fluidnpu.models import Network, Workload, read_model
from fluidnpu.models.exits import attach_exits, equidistant_exits, equidistant_tensors, exit_places, exits_after
from fluidnpu.models.zoo import FULL_SIZE, full_size, with_random_weights

from .. import show
from ..errors import UsageError

Places = int | tuple[str, ...]  # so many at equal shares of the MACs, or names
CALIBRATION_IMAGES = 2  # of noise, for weights that are random anyway


def parse_places(text: str) -> Places:
    """What `--exits` means.

    >>> parse_places("4"), parse_places("equidistant=4"), parse_places("at=conv3,conv7")
    (4, 4, ('conv3', 'conv7'))
    """
    key, equals, value = text.strip().partition("=")
    if equals and key == "at":
        names = tuple(filter(None, (name.strip() for name in value.split(","))))
        if names:
            return names
    number = value if equals and key == "equidistant" else "" if equals else key
    if not number.isdecimal() or len(number) > 9:
        raise UsageError(f"--exits must be N or at=NAME,NAME, not '{text}'")
    return int(number)


def with_exits(model: Network | Workload, places: Places, threshold: float = 1.0) -> Network | Workload:
    """A single-exit model with more: heads of their own in a network, cuts free of charge in a layer table."""
    exits = model.exits
    if isinstance(places, int) and len(exits) > 1:
        raise UsageError(f"equal shares are for models with one exit, and '{model.name}' has {len(exits)}; use at=NAME")
    if isinstance(model, Network):
        tensors = equidistant_tensors(model, places) if isinstance(places, int) else places
        return attach_exits(model, tensors, threshold=threshold)
    if len(exits) > 1:
        raise UsageError(f"the layer table '{model.name}' must have one exit to be cut, and it has {len(exits)}")
    return equidistant_exits(model, places) if isinstance(places, int) else exits_after(model, places)


def exits(source: Path, places: str | None, out: Path | None, threshold: float, seed: int, as_json: bool) -> None:
    """List places and exits; with `places` attach exits there, with `out` write the network."""
    if not 0 <= threshold <= 1:
        raise UsageError(f"--threshold must be a confidence of 0..1, not {threshold}")
    bare = str(source) in FULL_SIZE and not source.exists()
    network = full_size(str(source)) if bare else read_model(source)
    if isinstance(network, Workload):
        raise UsageError(
            f"this command needs a network (ONNX, or {', '.join(FULL_SIZE)}), and '{source}' is a layer table"
        )
    found = exit_places(network)
    if places is not None:
        changed = with_exits(network, parse_places(places), threshold)
        assert isinstance(changed, Network)
        network = changed
    if out is not None:
        from fluidnpu.models.onnx import write_onnx

        if bare:
            network = with_random_weights(network, seed, CALIBRATION_IMAGES)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_onnx(network, out)
    report: dict[str, Any] = {
        "name": network.name,
        "macs": network.workload.macs,
        "exits": _rows(network),
        "places": [
            {"tensor": p.tensor, "shape": list(p.shape), "macs": p.macs, "share": p.share, "cut": p.cut} for p in found
        ],
        "model": None if out is None else str(out),
    }
    if as_json:
        show.emit(report)
    else:
        _print(report, places is None)


def _rows(network: Network) -> list[dict[str, Any]]:
    """Each exit, where its head begins, and the MACs of a sample that leaves there."""
    work, rows = network.workload, []
    for stage, exit in enumerate(network.exits):
        macs = sum(layer.macs for layer in work.layers if layer.stage <= stage)
        row = {"name": exit.name, "logits": exit.logits, "macs": macs, "share": macs / work.macs}
        rows.append(row | {"threshold": exit.threshold, "rate": exit.rate})
    return rows


def _print(report: dict[str, Any], places: bool) -> None:
    out = show.console()
    if places:
        rows: Sequence[Sequence[str]] = [
            (p["tensor"], " x ".join(map(str, p["shape"])), f"{p['macs'] / 1e6:.2f}", f"{100 * p['share']:.1f} %", "yes" * p["cut"])
            for p in report["places"]
        ]  # fmt: skip
        title = f"{report['name']}: tensors that an exit can stand at (height x width x channels)"
        out.print(show.table(title, ("tensor", "shape", "MMAC before", "share", "cut"), rows, left=2))
        out.print("  [dim]cut: everything later depends on it alone; --exits N chooses among these[/]")
    rows = [
        (e["name"], e["logits"], f"{e['macs'] / 1e6:.2f}", f"{100 * e['share']:.1f} %", f"{e['threshold']:g}")
        for e in report["exits"]
    ]
    title = f"{report['name']}: exits, MACs with all heads up to there"
    out.print(show.table(title, ("exit", "logits", "MMAC", "share", "threshold"), rows, left=2))
    if report["model"]:
        out.print(f"network written to [bold]{report['model']}[/]")
