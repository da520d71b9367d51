"""Measured power from look-alikes of Linux' sensor folders: the right chip, the right rails, or one
sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from fluidnpu.boards import Board, Sensor, load_board
from fluidnpu.host import DeviceAccessError
from fluidnpu.host.devices import find_meter, measure_power, metered
from fluidnpu.host.devices.physical.places import Places


class Tree:
    """A folder that looks like /sys/class/hwmon; chips on I2C have a link to bus and address."""

    def __init__(self, root: Path) -> None:
        self.places, self._root, self._count = Places(classes=root / "class"), root, 0
        (root / "class" / "hwmon").mkdir(parents=True)

    def chip(self, name: str, files: Mapping[str, object], address: int | None = None) -> Path:
        folder = self._root / "class" / "hwmon" / f"hwmon{self._count}"
        device = self._root / "devices" / (f"{self._count}-{address:04x}" if address else name)
        self._count += 1
        folder.mkdir()
        device.mkdir(parents=True, exist_ok=True)
        (folder / "device").symlink_to(device)
        for file, text in {"name": name, **files}.items():
            (folder / file).write_text(f"{text}\n")
        return folder


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def board_with(*sensors: Sensor) -> Board:
    plain = load_board("zc706")
    sources = {name: text for name, text in plain.sources.items() if not name.startswith("sensors.")}
    return dataclasses.replace(plain, sensors=sensors, sources=sources)


def ina226(watts: float) -> dict[str, int]:
    """As the driver ina2xx shows it: the shunt's voltage, the bus voltage, and their products."""
    return {
        "in0_input": 5,
        "in1_input": 12_113,
        "curr1_input": round(1e3 * watts / 12.113),
        "power1_input": round(1e6 * watts),
    }


def ucd9248(*rails: tuple[int, int], power: bool) -> dict[str, object]:
    """As the driver ucd9200 shows it: the input first, then a label for each output."""
    files: dict[str, object] = {"in1_label": "vin", "in1_input": 12_000, "curr1_label": "iin", "curr1_input": 900}
    if power:
        files |= {"power1_label": "pin", "power1_input": 10_800_000}
    for page, (volts, amps) in enumerate(rails, 1):
        files |= {f"in{page + 1}_label": f"vout{page}", f"in{page + 1}_input": volts}
        files |= {f"curr{page + 1}_label": f"iout{page}", f"curr{page + 1}_input": amps}
        if power:
            files |= {f"power{page + 1}_label": f"pout{page}", f"power{page + 1}_input": volts * amps}
    return files


def test_the_supply_of_a_zcu104_is_the_ina226_at_its_address(tree: Tree) -> None:
    tree.chip("ina226", ina226(3.0), address=0x41)
    tree.chip("irps5401", {"power1_input": 99_000_000}, address=0x43)
    tree.chip("ina226", ina226(14.05), address=0x40)
    meter = find_meter(load_board("zcu104"), tree.places)
    assert (meter.watts(), meter.covers, meter.source) == (14.05, "board", "ina226 power1")


def test_the_bridge_from_iio_has_a_name_of_its_own_and_no_address(tree: Tree) -> None:
    tree.chip("ina226_u76", ina226(2.5))  # as a ZCU102 has eighteen
    board = board_with(Sensor(name="int", chip="ina226_u76", covers="rails"))
    assert find_meter(board, tree.places).watts() == 2.5
    assert find_meter(load_board("zcu104"), tree.places).watts() == 2.5  # `ina226_...` is an ina226


def test_rails_of_several_controllers_are_added_up(tree: Tree) -> None:
    """Outputs alone: what goes into a regulator comes out of it, less its losses."""
    tree.chip("ucd9248", ucd9248((1000, 2500), (1800, 400), power=True), address=0x34)
    tree.chip("ucd9248", ucd9248((1500, 1000), (3300, 100), power=False), address=0x35)
    board = board_with(
        Sensor(name="core", chip="ucd9248", covers="rails", address=0x34),
        Sensor(name="more", chip="ucd9248", covers="rails", address=0x35),
    )
    meter = find_meter(board, tree.places)
    assert meter.watts() == pytest.approx(2.5 + 0.72 + 1.5 + 0.33)
    assert meter.source == "ucd9248 pout1, pout2; ucd9248 vout1, vout2"
    whole = dataclasses.replace(
        board,
        sensors=(*board.sensors, Sensor(name="in", chip="ucd9248", covers="board", address=0x34, rails=(("pin",),))),
    )
    assert (find_meter(whole, tree.places).watts(), find_meter(whole, tree.places).covers) == (10.8, "board")


def test_volts_and_amps_of_different_inputs_are_paired_by_the_boards_file_alone(tree: Tree) -> None:
    """A UCD90120 tells one or the other of an input, so nothing but the board says which belong together."""
    files = {"in1_label": "vout1", "in1_input": 1000, "in2_label": "vout2", "in2_input": 1800}
    files |= {"curr9_label": "iout9", "curr9_input": 2000, "curr10_label": "iout10", "curr10_input": 500}
    tree.chip("ucd90120", files, address=0x65)
    with pytest.raises(DeviceAccessError, match="same rail, and it tells vout1, vout2, iout9, iout10: pair them"):
        find_meter(load_board("zc706"), tree.places)
    paired = Sensor(
        name="rails", chip="ucd90120", covers="rails", address=0x65, rails=(("vout1", "iout9"), ("vout2", "iout10"))
    )
    meter = find_meter(board_with(paired), tree.places)
    assert (meter.watts(), meter.covers) == (2.9, "rails")
    wrong = dataclasses.replace(paired, rails=(("vout1", "iout3"),))
    with pytest.raises(DeviceAccessError, match="'ucd90120' must have 'iout3', and it has iout9, iout10"):
        find_meter(board_with(wrong), tree.places)


def test_what_is_not_there_or_not_readable_is_one_sentence(tree: Tree) -> None:
    board = load_board("zcu104")
    with pytest.raises(DeviceAccessError, match=r"'ina226' at 0x40 in .* and it shows none"):
        find_meter(board, tree.places)
    folder = tree.chip("ina226", ina226(9.0), address=0x40)
    meter = find_meter(board, tree.places)
    (folder / "power1_input").write_text("-\n")
    with pytest.raises(DeviceAccessError, match="power1_input' must tell a whole number"):
        meter.watts()
    (folder / "power1_input").unlink()
    with pytest.raises(DeviceAccessError, match="power1_input' must tell a whole number"):
        meter.watts()
    with pytest.raises(DeviceAccessError, match="tell watts, or volts and amps of the same rail"):
        find_meter(board, tree.places)
    with pytest.raises(DeviceAccessError, match="must name a power sensor, and it names none"):
        find_meter(board_with(), tree.places)


class Script:
    """A meter that tells what it is told."""

    covers, source = "board", "a script"

    def __init__(self) -> None:
        self.now: float | None = 5.0
        self.asked = 0

    def watts(self) -> float:
        self.asked += 1
        if self.now is None:
            raise DeviceAccessError("the script ends")
        return self.now


def test_readings_of_a_block_have_a_mean_and_a_failure_does_not_end_the_block() -> None:
    meter, passed = Script(), False
    with metered(meter, period_s=0.001) as recording:
        while meter.asked < 5:
            pass
    assert recording.done is not None
    assert (recording.done.mean_w, recording.done.covers) == (5.0, "board")
    assert recording.done.readings == meter.asked >= 5
    assert recording.done.joules == pytest.approx(5.0 * recording.done.seconds)
    meter.now = None
    with metered(meter) as recording:
        passed = True
    assert passed
    assert recording.done is None
    assert str(recording.failure) == "the script ends"


def test_idle_and_active_watts_are_those_before_and_during_work() -> None:
    meter = Script()

    def work() -> None:
        meter.now = 8.0

    power = measure_power(meter, work, seconds=0.0)  # work is done once at least
    assert power.idle_w == 5.0
    assert 5.0 < power.active_w <= 8.0
    assert power.source == "measured with a script"

    def faint() -> None:
        meter.now = 1.0

    with pytest.raises(DeviceAccessError, match="more watts while its NPU works than before"):
        measure_power(meter, faint, seconds=0.0)
    meter.now = None
    with pytest.raises(DeviceAccessError, match="the script ends"):
        measure_power(meter, work, seconds=0.01)
