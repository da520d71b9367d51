"""Boards that are found by files in a folder or by the addresses of a name, and come and go."""

import socket
from pathlib import Path
from typing import Any

import pytest
from fleet_worlds import FLEET, NAME, boards, slow_world
from host_worlds import HOUR_NS, PATIENCE_S, eventually
from oip_worlds import bundle_of

import fluidnpu
from fluidnpu.host import DriverUsageError
from fluidnpu.host.fleet import DiscoveringFront, Discovery, DispatchOptions, FleetFile, FleetOptions, Roster
from fluidnpu.host.fleet.fronts import discovery
from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.models import golden
from fluidnpu.scheduler.errors import FleetError

FILES = '[[devices]]\ntype = "board"\nfiles = "boards.d"\n'
DNS = '[[devices]]\ntype = "board"\nname = "npu"\ndns = "npu.lab:8001"\nadmin_port = 8003\n'


def _file(folder: Path, devices: str) -> FleetFile:
    bundle_of(slow_world(), folder / "bundle")
    (folder / "boards.d").mkdir(exist_ok=True)
    (folder / "fleet.toml").write_text(FLEET + devices)
    return FleetFile.read(folder / "fleet.toml")


def _places(found: Roster) -> dict[str, tuple[str, str]]:
    return {seat.name: (seat.address, seat.admin) for seat in found.seats}


def test_each_file_of_a_folder_is_a_board(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, folder = Discovery(_file(tmp_path, FILES)), tmp_path / "boards.d"
    with pytest.raises(DriverUsageError, match="must find at least one board to begin with, and there is none at"):
        found.roster()
    (folder / "a.toml").write_text('address = "10.0.0.1:8001"\nadmin = "10.0.0.1:8003"\n')
    (folder / "b.toml").write_text('address = "10.0.0.2:8001"\n')
    both = {"a": ("10.0.0.1:8001", "10.0.0.1:8003"), "b": ("10.0.0.2:8001", "")}
    assert _places(found.roster()) == both
    for half in ("address = ", 'address = "nowhere"', 'address = "10.0.0.2:8001"\nport = 1', "\xff"):
        (folder / "b.toml").write_text(half, encoding="latin-1")
        caplog.clear()
        assert _places(found.roster()) == both, "what cannot be read is as it was"
        found.roster()
        assert len(caplog.records) == 1, "and said once"
    (folder / "b.toml").unlink()
    assert list(_places(found.roster())) == ["a"]
    folder.rename(tmp_path / "elsewhere")
    assert list(_places(found.roster())) == ["a"], "nobody knows where they are"
    assert "cannot be read" in caplog.text


def test_each_address_of_a_name_is_a_board(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hosts: list[str] = ["10.0.0.2", "10.0.0.1", "fe80::1"]

    def resolve(name: str, port: int, **given: Any) -> list[Any]:
        assert (name, port) == ("npu.lab", 8001)
        if not hosts:
            raise socket.gaierror("nobody knows")
        return [(0, 0, 0, "", (host, port)) for host in (*hosts, *hosts)]

    found = Discovery(_file(tmp_path, DNS), resolve)
    assert _places(found.roster()) == {
        "npu-10.0.0.1": ("10.0.0.1:8001", "10.0.0.1:8003"),
        "npu-10.0.0.2": ("10.0.0.2:8001", "10.0.0.2:8003"),
        "npu-fe80--1": ("[fe80::1]:8001", "[fe80::1]:8003"),
    }
    del hosts[0], hosts[1]
    assert list(_places(found.roster())) == ["npu-10.0.0.1"]
    hosts.clear()
    assert list(_places(found.roster())) == ["npu-10.0.0.1"]
    assert "the name 'npu.lab' cannot be resolved" in caplog.text


def test_boards_join_and_leave_while_they_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOOK_S", 0.05)
    w = slow_world()
    images = w.images(6)
    _, classes, _ = golden.early_exit(w.qnet, images)
    file, folder = _file(tmp_path, FILES), tmp_path / "boards.d"
    fronts: list[DiscoveringFront] = []

    def opened(limits: Any, version: str) -> DiscoveringFront:
        dispatch = DispatchOptions(slo_ns=HOUR_NS, allowance_s=PATIENCE_S, hold_s=PATIENCE_S, audit_every=2)
        fronts.append(DiscoveringFront(Discovery(file), FleetOptions(dispatch=dispatch), limits, version))
        return fronts[-1]

    def names() -> list[str]:
        return [leaf.name for leaf in fronts[0].dispatcher.leaves if leaf.ready]

    with boards(tmp_path / "bundle", tmp_path / "bundle") as (one, two):
        (folder / "one.toml").write_text(f'address = "{one}"\n')
        with (
            in_background(opened, ServeOptions(http=0, grpc=None)) as server,
            fluidnpu.connect(server.url(), NAME) as npu,
        ):

            def asked() -> set[str]:
                answers = [npu.infer(image) for image in images]
                assert [answer.prediction for answer in answers] == classes.tolist()
                return {str(answer.parameters["board"]) for answer in answers}

            assert asked() == {"one"}
            (folder / "two.toml").write_text(f'address = "{two}"\n')
            eventually(lambda: names() == ["one", "two"])
            eventually(lambda: asked() == {"one", "two"})
            (folder / "one.toml").unlink()
            eventually(lambda: asked() == {"two"})
            eventually(lambda: names() == ["two"])
            (folder / "two.toml").unlink()
            (folder / "again.toml").write_text(f'address = "{one}"\n')
            eventually(lambda: asked() == {"again"})
            (folder / "again.toml").unlink()  # the last stays: to have none is a slip
            assert asked() == {"again"}
            assert npu.ready()


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        ('type = "board"\nfiles = "x"\ncount = 2', "must say in one way where its devices are"),
        ('type = "board"\nfiles = "x"\nadmin_port = 5', "must say in one way where its devices are"),
        ('type = "board"\ndns = "x"', "dns must be NAME:PORT"),
        ('type = "board"\naddresses = ["a:1"]\nadmin = ["a:2", "a:3"]', "admin must be 1, one an address, not 2"),
        ('type = "boat"\nfiles = "x"', "must have one of the types board, not 'boat'"),
    ],
)
def test_sources_that_make_no_sense(tmp_path: Path, devices: str, says: str) -> None:
    with pytest.raises(FleetError, match=says):
        _file(tmp_path, f"[[devices]]\n{devices}\n")


def test_plans_are_for_boards_that_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        DriverUsageError, match="is for boards that the fleet file names, and those of 'board' are found"
    ):
        _file(tmp_path, FILES).roster()
