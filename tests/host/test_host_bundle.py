"""A bundle is read back as it was written, and refused when its files do not belong together."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from host_worlds import HostWorld, world

from fluidnpu.host import Bundle, BundleError
from fluidnpu.host.bundle import bitstream


@pytest.fixture
def w() -> HostWorld:
    return world()


def test_round_trip(w: HostWorld, tmp_path: Path) -> None:
    bundle = Bundle(design=w.design, program=w.program)
    bundle.write(tmp_path / "new")
    assert Bundle.read(tmp_path / "new") == bundle
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["design.json", "program.bin", "program.json"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def other_design(path: Path) -> None:
    (path / "design.json").write_text(world(t_c=16).design.dumps())


def edited(path: Path) -> None:
    raw = json.loads((path / "design.json").read_text())
    raw["t_r"] += 2
    (path / "design.json").write_text(json.dumps(raw))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no design": (lambda p: (p / "design.json").unlink(), "readable design.json"),
    "no program": (lambda p: (p / "program.bin").unlink(), "program.bin"),
    "binary design": (lambda p: (p / "design.json").write_bytes(b"\xff\x00"), "readable design.json"),
    "truncated design": (lambda p: (p / "design.json").write_text("{"), "must be JSON"),
    "edited design": (edited, "changed by hand"),
    "flipped weight": (lambda p: flip(p / "program.bin"), "digest"),
    "design of another bundle": (other_design, "compiled for its design"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_bundles_are_refused(w: HostWorld, tmp_path: Path, damage: str) -> None:
    Bundle(design=w.design, program=w.program).write(tmp_path)
    act, message = DAMAGES[damage]
    act(tmp_path)
    with pytest.raises(BundleError, match=message) as caught:
        Bundle.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_program_with_other_exits_is_refused(w: HostWorld) -> None:
    exits = tuple(replace(one, name=one.name + "x") for one in w.program.exits)
    with pytest.raises(BundleError, match="exits"):
        Bundle(design=w.design, program=replace(w.program, exits=exits))


def test_bitstream(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="exactly one"):
        bitstream(tmp_path)
    (tmp_path / "a.bit").touch()
    with pytest.raises(BundleError, match="hwh"):
        bitstream(tmp_path)
    (tmp_path / "a.hwh").touch()
    assert bitstream(tmp_path) == tmp_path / "a.bit"
    (tmp_path / "b.bit").touch()
    with pytest.raises(BundleError, match="holds 2"):
        bitstream(tmp_path)
