"""Shared memory: tensors in regions over both transports, who may, the bounds, and regions that change."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oip_worlds import NAME, Served, patient, served
from tritonclient import grpc as triton_grpc
from tritonclient import http as triton_http
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as triton_memory

from fluidnpu.host.errors import AccessError, ConflictError, ProtocolError, TooLargeError
from fluidnpu.host.oip.regions import MOST_REGIONS, OBJECTS, Regions
from fluidnpu.host.oip.wire.places import RegionPlace

MOST = 1 << 20
INFER = f"/v2/models/{NAME}/infer"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("regions"), limits=patient(shared_bytes=MOST)) as one:
        yield one


@contextmanager
def memory(size: int) -> Iterator[SharedMemory]:
    made = SharedMemory(create=True, size=size)
    try:
        yield made
    finally:
        made.close()
        if (OBJECTS / made.name.lstrip("/")).exists():
            made.unlink()


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_tritonclient_sends_and_takes_tensors_in_regions(s: Served, transport: str) -> None:
    module: Any = triton_http if transport == "http" else triton_grpc
    images = s.w.images(5)
    room = 1024
    into = triton_memory.create_shared_memory_region("into", f"/fluidnpu_into_{os.getpid()}", 64 + images.nbytes)
    out = triton_memory.create_shared_memory_region("out", f"/fluidnpu_out_{os.getpid()}", 2 * room)
    try:
        triton_memory.set_shared_memory_region(into, [images], offset=64)
        with module.InferenceServerClient(s.place if transport == "http" else s.grpc_place) as client:
            client.unregister_system_shared_memory()
            client.unregister_cuda_shared_memory()
            client.register_system_shared_memory("into", into._shm_key, 64 + images.nbytes)
            client.register_system_shared_memory("out", out._shm_key, 2 * room)
            status = client.get_system_shared_memory_status()
            known = {one["name"] for one in status} if transport == "http" else set(status.regions)
            assert known == {"into", "out"}
            sent = module.InferInput(s.input, images.shape, "UINT8")
            sent.set_shared_memory("into", images.nbytes, offset=64)
            wanted = [module.InferRequestedOutput(name) for name in ("label", "exit", "logits")]
            wanted[0].set_shared_memory("out", room)
            wanted[2].set_shared_memory("out", room, offset=room)
            result = client.infer(NAME, [sent], outputs=wanted)
            exits, classes = s.golden(images)
            assert result.as_numpy("exit").tolist() == exits
            assert triton_memory.get_contents_as_numpy(out, np.int32, (5,)).tolist() == classes
            where: Any = result.get_output("logits")
            shape = list(where["shape"] if transport == "http" else where.shape)
            logits = triton_memory.get_contents_as_numpy(out, np.float32, shape, offset=room)
            assert (logits.argmax(axis=1) == classes).all()
            parameters = where["parameters"] if transport == "http" else where.parameters
            size = parameters["shared_memory_byte_size"]
            assert (size if transport == "http" else size.int64_param) == logits.nbytes
            assert "system_shared_memory" in str(client.get_server_metadata())
            client.unregister_system_shared_memory("into")
            with pytest.raises(InferenceServerException, match="must be registered before it is named"):
                client.infer(NAME, [sent])
            client.unregister_system_shared_memory()
            with pytest.raises(InferenceServerException, match=r"must be one of the Open|Method not found"):
                client.register_cuda_shared_memory("gpu", b"aGFuZGxl", 0, 64)
    finally:
        triton_memory.destroy_shared_memory_region(into)
        triton_memory.destroy_shared_memory_region(out)


def request(s: Served, place: dict[str, Any], **output: Any) -> bytes:
    image = s.w.images(1)
    tensor = {"name": s.input, "datatype": "UINT8", "shape": list(image.shape), "parameters": place}
    outputs = [{"name": "label", "parameters": output}] if output else []
    return json.dumps({"inputs": [tensor], "outputs": outputs}).encode()


def test_a_region_that_changes_is_one_sentence(s: Served) -> None:
    size = s.w.images(1).nbytes
    with memory(4096) as one:
        (OBJECTS / one.name.lstrip("/")).write_bytes(s.w.images(1).tobytes() + bytes(4096 - size))
        path = "/v2/systemsharedmemory/region/changing"
        place = {"shared_memory_region": "changing", "shared_memory_byte_size": size}
        assert s.call("POST", f"{path}/register", json.dumps({"key": one.name, "byte_size": 4096}).encode())[0] == 200
        assert s.call("GET", f"{path}/status") == (
            200,
            [{"name": "changing", "key": one.name, "offset": 0, "byte_size": 4096}],
        )
        label = s.golden(s.w.images(1))[1]
        assert s.call("POST", INFER, request(s, place))[1]["outputs"][0]["data"] == label

        def refused(body: bytes, sentence: str) -> None:
            status, said = s.call("POST", INFER, body)
            kind = "UnknownRegionError" if status == 404 else "ProtocolError"
            assert (status in (400, 404), said["type"]) == (True, kind)
            assert sentence in said["error"]

        refused(request(s, {**place, "shared_memory_byte_size": size - 1}), f"must hold {size} bytes for UINT8")
        refused(request(s, {**place, "shared_memory_offset": 4096}), "must lie in the 4096 bytes of region 'changing'")
        refused(request(s, {"shared_memory_region": "changing"}), "shared_memory_byte_size from 1, not 0")
        refused(request(s, {"shared_memory_byte_size": 9}), "must name its shared_memory_region, not ''")
        refused(request(s, {**place, "binary_data_size": 0}), "must have its data once")
        refused(request(s, place, **place, classification=1), "must be of the output 'logits'")
        narrow = {**place, "shared_memory_byte_size": 3}
        refused(request(s, place, **narrow), "must have room for its 4 bytes in region 'changing', and has 3")
        os.truncate(OBJECTS / one.name.lstrip("/"), 100)
        refused(request(s, place), "must have 4096 bytes from 0, and its object has 100")
        os.truncate(OBJECTS / one.name.lstrip("/"), 4096)
        assert s.call("POST", INFER, request(s, place))[0] == 200  # it is zeros now
        (OBJECTS / one.name.lstrip("/")).unlink()
        refused(request(s, place), "its object has been removed")
        assert s.call("POST", f"{path}/unregister")[0] == 200
        refused(request(s, place), "'changing' is not")


def test_who_may_and_how_much() -> None:
    regions, local = Regions(8192), "127.0.0.1"
    with memory(4096) as one, memory(4096) as two:
        with pytest.raises(AccessError, match="must be used from this machine"):
            regions.register("ipv4:10.0.0.7", "a", one.name, 0, 64)
        regions.register(local, "a", one.name, 64, 4032)
        for call in (lambda: regions.status("10.0.0.7"), lambda: regions.unregister("10.0.0.7")):
            with pytest.raises(AccessError):
                call()
        with pytest.raises(AccessError):
            regions.read("10.0.0.7", RegionPlace("a", 0, 4), 4)
        with pytest.raises(AccessError):
            regions.write("10.0.0.7", "x", RegionPlace("a", 0, 4), b"four")
        with pytest.raises(ConflictError, match="'a' is"):
            regions.register(local, "a", two.name, 0, 64)
        with pytest.raises(TooLargeError, match="at most 8192 bytes, and with 'b' they have 8193"):
            regions.register(local, "b", two.name, 0, 4161)
        with pytest.raises(TooLargeError, match="at most 8 bytes, not 9"):
            regions.read(local, RegionPlace("a", 0, 9), 8)
        regions.write(local, "x", RegionPlace("a", 8, 4), b"four")
        assert (OBJECTS / one.name.lstrip("/")).read_bytes()[72:76] == b"four"
        assert regions.read(local, RegionPlace("a", 8, 4), 4) == b"four"
        for index in range(MOST_REGIONS - 1):
            regions.register("unix", f"r{index}", two.name, 0, 1)
        with pytest.raises(TooLargeError, match=f"at most {MOST_REGIONS} regions"):
            regions.register(local, "more", two.name, 0, 1)
        regions.close()
        assert regions.status(local) == []


@pytest.mark.parametrize(
    ("name", "key", "offset", "size", "sentence"),
    [
        ("", "k", 0, 1, "a name of 1 to"),
        ("a", "", 0, 1, "the name of an object, not ''"),
        ("a", "../etc/passwd", 0, 1, "the name of an object"),
        ("a", "//x", 0, 1, "the name of an object"),
        ("a", "..", 0, 1, "must be an object that can be opened"),
        ("a", 7, 0, 1, "the name of an object, not 7"),
        ("a", "x\0", 0, 1, "the name of an object"),
        ("a", "\ud800", 0, 1, "it is no name"),
        ("a", "k", -1, 1, "the offset of region 'a' must be a whole number from 0, not -1"),
        ("a", "k", 0, 0, "must be a whole number from 1, not 0"),
        ("a", "k", 0, True, "must be a whole number from 1, not True"),
        ("a", "k", 0, None, "must be a whole number from 1, not None"),
        ("a", "no_such_object_of_fluidnpu", 0, 1, "No such file"),
    ],
)
def test_what_cannot_be_a_region(name: str, key: Any, offset: Any, size: Any, sentence: str) -> None:
    regions = Regions(1 << 20)
    with pytest.raises(ProtocolError, match=sentence):
        regions.register("unix", name, key, offset, size)


def test_an_object_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that runs as root may open everything, so it looks whose it is."""
    regions = Regions(1 << 20)
    with memory(64) as one:
        path = OBJECTS / one.name.lstrip("/")
        path.chmod(0o600)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        monkeypatch.setattr(os, "getegid", lambda: 1 << 20)
        monkeypatch.setattr(os, "getgroups", list)
        with pytest.raises(ProtocolError, match="of the server's user, or one that all may write"):
            regions.register("unix", "a", one.name, 0, 64)
        path.chmod(0o666)
        regions.register("unix", "a", one.name, 0, 64)
        regions.close()
        link = OBJECTS / f"{path.name}_link"
        link.symlink_to(path)
        try:
            with pytest.raises(ProtocolError, match="that can be opened, and is not"):
                regions.register("unix", "a", link.name, 0, 64)
        finally:
            link.unlink()


def test_nobody_may_where_it_is_not_allowed(tmp_path: Path) -> None:
    with served(tmp_path, surfaces={"grpc": None}) as s:
        body = json.dumps({"key": "k", "byte_size": 1}).encode()
        status, said = s.call("POST", "/v2/systemsharedmemory/region/a/register", body)
        assert (status, said["type"]) == (501, "UnsupportedError")
        assert "--shared-memory" in said["error"]
        assert s.call("POST", "/v2/systemsharedmemory/unregister") == (200, {})
        assert s.call("GET", "/v2/systemsharedmemory/status") == (200, [])
        assert "system_shared_memory" not in s.call("GET", "/v2")[1]["extensions"]
        assert "/v2/systemsharedmemory/status" not in s.call("GET", "/openapi.json")[1]["paths"]


def test_a_page_of_another_origin_may_not(s: Served) -> None:
    path = "/v2/systemsharedmemory/unregister"
    status, said = s.call("POST", path, b"{}", Origin="http://elsewhere.example")
    assert (status, said["type"]) == (403, "AccessError")
