"""UNIX sockets: both transports, the mode, and what lies in their place."""

import json
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oip_worlds import NAME, served
from tritonclient import grpc as triton_grpc

import fluidnpu
from fluidnpu.host import DriverUsageError
from fluidnpu.host.serving import RemoteError

NO_PORTS: dict[str, Any] = {"http": None, "grpc": None}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as short:  # pytest's own are longer than a socket's path may be
        yield Path(short)


def test_both_transports_answer_at_sockets_alone(tmp_path: Path, folder: Path) -> None:
    with served(tmp_path, surfaces={**NO_PORTS, "unix": folder, "unix_mode": 0o600}) as s:
        assert s.server.ports == {}
        assert s.server.urls == {"unix_http": f"unix:{folder}/http.sock", "unix_grpc": f"unix:{folder}/grpc.sock"}
        images = s.w.images(3)
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with fluidnpu.connect(s.server.url("unix_http")) as npu:
            assert npu.infer(images).outputs["label"].tolist() == s.golden(images)[1]
        asked = triton_grpc.InferInput(s.input, images.shape, "UINT8")
        asked.set_data_from_numpy(images)
        with triton_grpc.InferenceServerClient(s.server.url("unix_grpc")) as client:
            assert client.infer(NAME, [asked]).as_numpy("label").tolist() == s.golden(images)[1]
        words = ["curl", "-s", "--unix-socket", str(folder / "http.sock"), "http://localhost/v2/health/ready"]
        assert json.loads(subprocess.run(words, check=True, capture_output=True).stdout) == {"ready": True}
    assert list(folder.iterdir()) == []
    with pytest.raises(RemoteError, match=r"no answer came from .*/http\.sock"):
        fluidnpu.connect(f"unix:{folder}/http.sock", NAME).metadata()


def left_over(path: Path) -> None:
    """A socket as a killed server leaves it."""
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def test_what_a_killed_server_left_is_taken_over(tmp_path: Path, folder: Path) -> None:
    for name in ("http.sock", "grpc.sock"):
        left_over(folder / name)
    with served(tmp_path, surfaces={**NO_PORTS, "unix": folder}) as s, fluidnpu.connect(s.server.url("unix_http")) as n:
        assert n.ready()
        with (
            pytest.raises(DriverUsageError, match="another one listens in"),
            served(tmp_path / "second", surfaces={**NO_PORTS, "unix": folder}),
        ):
            pass
        assert n.ready()  # and the first has its sockets still
        assert sorted(path.name for path in folder.iterdir()) == ["grpc.sock", "http.sock"]


def test_somebody_elses_place_is_left_alone(tmp_path: Path, folder: Path) -> None:
    surfaces = {**NO_PORTS, "unix": folder}
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "grpc.sock"))
        other.listen()
        with pytest.raises(DriverUsageError, match="somebody listens at"), served(tmp_path, surfaces=surfaces):
            pass
    assert (folder / "grpc.sock").exists()
    (folder / "grpc.sock").unlink()
    (folder / "http.sock").write_text("mine")
    with pytest.raises(DriverUsageError, match="another kind of file"), served(tmp_path, surfaces=surfaces):
        pass
    assert (folder / "http.sock").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("missing", "a folder that exists, and '.*/missing' cannot be used"), ("n" * 120, "at most 107 bytes, not")],
)
def test_a_folder_that_cannot_be(tmp_path: Path, folder: Path, name: str, sentence: str) -> None:
    with (
        pytest.raises(DriverUsageError, match=sentence),
        served(tmp_path, surfaces={**NO_PORTS, "unix": folder / name}),
    ):
        pass
