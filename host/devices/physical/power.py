r"""Measured power of the board that this program runs on, from the sensors that its file names.

Linux shows each sensor as a folder of /sys/class/hwmon: microwatts, or millivolts and milliamperes, with
labels. Nothing here is modelled. A board whose sensors say too little has no meter, and one sentence says
why.

>>> import tempfile
>>> from fluidnpu.boards import load_board
>>> places = Places(classes=Path(tempfile.mkdtemp()))
>>> chip = places.classes / "hwmon" / "hwmon0"
>>> chip.mkdir(parents=True)
>>> _ = (chip / "name").write_text("ina226\n"), (chip / "power1_input").write_text("14050000\n")
>>> meter = find_meter(load_board("zcu104"), places)
>>> meter.watts(), meter.covers, meter.source
(14.05, 'board', 'ina226 power1')
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from fluidnpu.boards import Board, Sensor
from fluidnpu.scheduler.exits import PowerModel

from ...errors import DeviceAccessError
from .places import BOARD, Places

PERIOD_S = 0.05  # between two readings; an INA226 in the kernel's default averages over some 35 ms
CALIBRATED_S = 3.0  # of each, idle and at work
MICRO = 10**6  # of a watt: microwatts, and millivolts times milliamperes
_INPUT = re.compile(r"(power|in|curr)([0-9]+)_input")
_I2C = re.compile(r"[0-9]+-([0-9a-f]{4})")  # a device's folder: bus and address


class PowerMeter(Protocol):
    """Measures watts; `covers` says of what ("board" or "rails"), `source` with which sensor."""

    @property
    def covers(self) -> str:
        """The measured part: "board" for the whole supply, "rails" for some rails."""

    @property
    def source(self) -> str:
        """The sensor and its rails, for people."""

    def watts(self) -> float:
        """Return the watts of the moment. Raises DeviceAccessError."""


@dataclass(frozen=True, kw_only=True)
class Rail:
    """One rail: the file of its microwatts, or those of its millivolts and its milliamperes."""

    label: str
    files: tuple[Path, ...]

    def watts(self) -> float:
        """Return the watts of the moment. Raises DeviceAccessError."""
        product = 1
        for file in self.files:
            try:
                product *= int(file.read_text(encoding="ascii"))
            except (OSError, ValueError) as error:
                raise DeviceAccessError(f"the power sensor '{file}' must tell a whole number: {error}") from None
        return product / MICRO


@dataclass(frozen=True, kw_only=True)
class RailMeter:
    """A meter that adds up rails."""

    covers: str
    source: str
    rails: tuple[Rail, ...]

    def watts(self) -> float:
        """Return the sum over all rails. Raises DeviceAccessError."""
        return sum(rail.watts() for rail in self.rails)


def find_meter(board: Board, places: Places = BOARD) -> RailMeter:
    """Return the meter of this machine's board: its whole supply where that is measured, else its rails.

    Raises DeviceAccessError where the board's file names no sensor, where Linux does not show it, and where
    it tells no power.
    """
    if not board.sensors:
        raise DeviceAccessError(f"the file of board '{board.name}' must name a power sensor, and it names none")
    covers = "board" if any(sensor.covers == "board" for sensor in board.sensors) else "rails"
    rails, names = [], []
    for sensor in board.sensors:
        if sensor.covers == covers:
            own_rails = _rails(sensor, _folder(sensor, places))
            rails += own_rails
            names.append(f"{sensor.chip} {', '.join(rail.label for rail in own_rails)}")
    return RailMeter(covers=covers, source="; ".join(names), rails=tuple(rails))


def _folder(sensor: Sensor, places: Places) -> Path:
    """Return the folder of a sensor. Raises DeviceAccessError."""
    hwmon, seen = places.classes / "hwmon", []
    for folder in sorted(hwmon.glob("hwmon*"), key=lambda path: (len(path.name), path.name)):
        try:
            name = (folder / "name").read_text(encoding="utf-8").strip()
        except OSError:
            continue
        seen.append(name)
        # the bridge from the kernel's iio drivers has the name of its node, `ina226_u76`, and no address
        if name != sensor.chip and not name.startswith(f"{sensor.chip}_"):
            continue
        at = _I2C.fullmatch((folder / "device").resolve().name)
        if at is None or sensor.address is None or int(at[1], 16) == sensor.address:
            return folder
    where = "" if sensor.address is None else f" at {sensor.address:#04x}"
    raise DeviceAccessError(
        f"Linux must show the power sensor '{sensor.chip}'{where} in '{hwmon}', and it shows "
        f"{', '.join(seen) or 'none'}: see that the kernel has its driver and the device tree its node"
    )


def _rails(sensor: Sensor, folder: Path) -> list[Rail]:
    """Return the rails of a sensor that the board's file wants, or all. Raises DeviceAccessError."""
    inputs: dict[str, dict[str, Path]] = {"power": {}, "in": {}, "curr": {}}
    for file in sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name)):
        if (match := _INPUT.fullmatch(file.name)) is not None:
            inputs[match[1]][_label(folder, match[1] + match[2])] = file
    if sensor.rails:
        return [_find_rail(sensor, rail, inputs) for rail in sensor.rails]
    watts = {label: file for label, file in inputs["power"].items() if label != "pin"}  # not what goes in and out
    if watts:
        return [Rail(label=label, files=(file,)) for label, file in watts.items()]
    pairs = {label: (file, inputs["curr"].get(label.replace("vout", "iout"))) for label, file in inputs["in"].items()}
    rails = [Rail(label=label, files=(v, a)) for label, (v, a) in pairs.items() if "vout" in label and a is not None]
    if not rails:
        labels = ", ".join([*inputs["in"], *inputs["curr"]]) or "nothing"
        raise DeviceAccessError(
            f"the power sensor '{sensor.chip}' must tell watts, or volts and amps of the same rail, and it tells {labels}: "
            "pair them in the board's file, such as rails = [['vout1', 'iout9']]"
        )
    return rails


def _find_rail(sensor: Sensor, rail: Sequence[str], inputs: dict[str, dict[str, Path]]) -> Rail:
    kinds = ("power",) if len(rail) == 1 else ("in", "curr")
    files = []
    for kind, label in zip(kinds, rail, strict=True):
        if label not in inputs[kind]:
            labels = ", ".join(inputs[kind]) or "none"
            raise DeviceAccessError(f"the power sensor '{sensor.chip}' must have '{label}', and it has {labels}")
        files.append(inputs[kind][label])
    return Rail(label=rail[0], files=tuple(files))


def _label(folder: Path, attribute: str) -> str:
    """Return what a chip calls an input; without a label it is its number, `power1`."""
    try:
        return (folder / f"{attribute}_label").read_text(encoding="utf-8").strip() or attribute
    except OSError:
        return attribute


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Readings of a meter over a time: their mean, and the energy of the whole time."""

    mean_w: float
    seconds: float
    readings: int
    covers: str
    source: str

    @property
    def joules(self) -> float:
        """The energy of the whole time."""
        return self.mean_w * self.seconds


class Recording:
    """Readings while a `metered` block runs; `done` is there after it."""

    def __init__(self, meter: PowerMeter) -> None:
        self.meter = meter
        self.done: Measured | None = None
        self.failure: DeviceAccessError | None = None


@contextmanager
def metered(meter: PowerMeter, period_s: float = PERIOD_S) -> Iterator[Recording]:
    """Read a meter in a thread for the length of a `with` block, at its beginning and end at least.

    A sensor that fails ends the recording, not the block. The mean weighs each reading with the time that it
    stands for.
    """
    recording, ended = Recording(meter), threading.Event()
    began = time.monotonic()
    readings: list[tuple[float, float]] = []

    def read() -> None:
        try:
            while True:
                last = ended.is_set()
                readings.append((time.monotonic(), meter.watts()))
                if last:
                    return
                ended.wait(period_s)
        except DeviceAccessError as error:
            recording.failure = error

    thread = threading.Thread(target=read, name="power-meter", daemon=True)
    thread.start()
    try:
        yield recording
    finally:
        ended.set()
        thread.join()
        if recording.failure is None:
            seconds = time.monotonic() - began
            mean = _mean(readings)
            recording.done = Measured(
                mean_w=mean, seconds=seconds, readings=len(readings), covers=meter.covers, source=meter.source
            )


def measure_power(meter: PowerMeter, work: Callable[[], object], seconds: float = CALIBRATED_S) -> PowerModel:
    """Measure the watts of an idle board, then those while `work`, a full batch on its NPU, is done again
    and again.

    Nothing else may use the NPU. Energies made of the result are modelled still, from a measured pair. Raises
    DeviceAccessError for a sensor that fails, and where work needs no more than idling.
    """
    with metered(meter) as idle:
        time.sleep(seconds)
    with metered(meter) as active:
        until = time.monotonic() + seconds
        work()  # once at least, however long a busy machine keeps the processor away
        while time.monotonic() < until:
            work()
    if idle.done is None or active.done is None:
        raise idle.failure or active.failure or DeviceAccessError("the power sensor must tell a number, and told none")
    if active.done.mean_w < idle.done.mean_w:
        raise DeviceAccessError(
            f"a board must take more watts while its NPU works than before, and {meter.source} told "
            f"{active.done.mean_w:.2f} W after {idle.done.mean_w:.2f} W: see that nothing else runs, and measure again"
        )
    return PowerModel(idle_w=idle.done.mean_w, active_w=active.done.mean_w, source=f"measured with {meter.source}")


def _mean(readings: Sequence[tuple[float, float]]) -> float:
    """Return the mean over time of readings, straight lines between them.

    >>> _mean([(0.0, 10.0), (1.0, 20.0), (3.0, 20.0)])
    18.333333333333332
    """
    whole = readings[-1][0] - readings[0][0]
    if whole <= 0:
        return sum(watts for _, watts in readings) / len(readings)
    steps = pairwise(readings)
    return sum((end - start) * (a + b) / 2 for (start, a), (end, b) in steps) / whole
