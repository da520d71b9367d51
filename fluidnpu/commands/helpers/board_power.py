"""The watts of the board that a stream is served on: those of its model, and those that are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from fluidnpu import boards, host
from fluidnpu.host import devices
from fluidnpu.scheduler import exits

from ...errors import UsageError
from ...options import read_power

MEASURED = "measured"
ON_BOARDS = ("pynq", "devmem")


@dataclass(frozen=True, kw_only=True)
class BoardPower:
    """Watts for modelled energies, and the meter of this machine; None where they are not known.

    `asked`: the watts are to be measured before the stream. `why`: the reason for which there is no meter.
    `unknown`: that for which there is no board, where one is needed.
    """

    model: exits.PowerModel | None
    meter: devices.PowerMeter | None = None
    asked: bool = False
    why: str = ""
    unknown: str = ""

    def measured(self, driver: host.Driver, images: Sequence[Any]) -> BoardPower:
        """Return it with the watts measured, where that was asked for. Raises DeviceAccessError."""
        if not self.asked or self.meter is None:
            return self
        slots = list(driver.slots_of[0])[: driver.design.b_max]
        for slot, image in zip(slots, cycle(images), strict=False):
            driver.write_sample(slot, image)

        def batch() -> None:
            driver.activate(slots)
            driver.run_to_exit(driver.design.stages - 1)

        return replace(self, model=devices.measure_power(self.meter, batch))


def board_power(text: str | None, bundle: host.Bundle, device: str) -> BoardPower:
    """Read --power: two numbers, `measured`, a board's file, or nothing for what the bundle's board has.

    Only a board has a meter. Raises UsageError, and BoardFileError for a file that breaks the rules.
    """
    board, given, unknown = bundle.design.facts, None, ""
    if text is not None and text.endswith(".toml"):
        board = boards.load_board(Path(text))
    elif text not in (None, MEASURED):
        given = read_power(text)
    elif board is None and not bundle.design.is_measured:
        unknown = bundle.design.lacking
    meter, why = _meter(board, device)
    asked = text == MEASURED or (text is not None and text.endswith(".toml") and board is not None and not board.power)
    if asked and meter is None:
        raise UsageError(f"--power {text} must find a power sensor, and it cannot: {why}")
    power = None if board is None or asked else board.power
    model = None if power is None else exits.PowerModel(idle_w=power.idle_w, active_w=power.active_w)
    return BoardPower(model=given or model, meter=meter, asked=asked, why=why, unknown=unknown)


def _meter(board: boards.Board | None, device: str) -> tuple[devices.PowerMeter | None, str]:
    if device not in ON_BOARDS:
        return None, f"the device '{device}' is no board"
    if board is None:
        return None, "no facts of the board are known: name its file, --power BOARD.toml"
    try:
        return devices.find_meter(board), ""
    except host.HostError as error:
        return None, str(error)


@contextmanager
def read_meanwhile(power: BoardPower) -> Iterator[devices.Recording | None]:
    """Record the meter, if there is one, for the length of a `with` block."""
    if power.meter is None:
        yield None
        return
    with devices.metered(power.meter) as recording:
        yield recording


def energies(
    power: BoardPower, recording: devices.Recording | None, profile: exits.ExitProfile, left: Sequence[int]
) -> dict[str, Any]:
    """Return the report's numbers: modelled ones where watts are known, measured ones where a meter told
    them.

    `left`: the exit of each answered request. Measured energy is all that the board took meanwhile, idle time
    and other programs included.
    """
    figures: dict[str, Any] = {}
    if power.model is not None and profile.energy_nj is not None and left:
        figures["power_modelled_w"] = [power.model.idle_w, power.model.active_w]
        figures["energy_mj_modelled"] = sum(profile.energy_nj[exit] for exit in left) / len(left) / 1e6
    done = None if recording is None else recording.done
    if done is not None:
        figures["power_w_measured"] = done.mean_w
        figures["power_measured_of"] = done.covers
        figures["power_measured_with"] = done.source
        if left:
            figures["energy_mj_measured"] = 1e3 * done.joules / len(left)
    return figures


def energy_lines(
    power: BoardPower, recording: devices.Recording | None, profile: exits.ExitProfile, left: Sequence[int]
) -> list[str]:
    """Return the lines that a person reads of `energies`; each says measured or modelled."""
    figures, lines = energies(power, recording, profile, left), []
    if power.asked and power.model is not None:
        lines.append(
            f"watts measured before: \\[power] idle_w = {power.model.idle_w:.2f}, active_w = {power.model.active_w:.2f}, for the "
            "board's file"
        )
    if "energy_mj_modelled" in figures and power.model is not None:
        lines.append(
            f"energy modelled: {figures['energy_mj_modelled']:.4g} mJ a request, from {power.model.idle_w:g} W idle and "
            f"{power.model.active_w:g} W at work"
        )
    if "power_w_measured" in figures:
        of = "the whole board" if figures["power_measured_of"] == "board" else "some rails"
        energy = f", {figures['energy_mj_measured']:.4g} mJ a request" if "energy_mj_measured" in figures else ""
        lines.append(
            f"power measured: {figures['power_w_measured']:.2f} W of {of} on average ({figures['power_measured_with']}){energy}, idle "
            "time included"
        )
    elif recording is not None and recording.failure is not None:
        lines.append(f"[yellow]power not measured[/]: {recording.failure}")
    return lines
