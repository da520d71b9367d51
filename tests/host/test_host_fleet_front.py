"""A fleet of two processes behind one front: bits of the golden model, both transports, pages, drains."""

import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fleet_worlds import NAME, fleet, fleet_file, slow_world
from host_worlds import PATIENCE_S

import fluidnpu
from fluidnpu.host.errors import AccessError, ProtocolError, TooLargeError, UnknownModelError
from fluidnpu.host.fleet import BoardOptions, shared_by
from fluidnpu.host.fleet.boards.leaf import BoardState
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.tensors import from_bytes
from fluidnpu.models import golden
from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.comparison import replay_live

TENANTS = """
[tenant.doors]
share = 0.5
criteria = "exit_number == 1"
[tenant.cameras]
share = 0.25
rate = 100
"""
DEVICES = '[[devices]]\ntype = "board"\ncount = 2\n'


def test_a_fleet_is_one_server(tmp_path: Path) -> None:
    """One start of two processes for all of it: each costs seconds."""
    w = slow_world()
    names = tuple(f"class {number}" for number in range(w.program.task.classes))
    w.program = replace(w.program, class_names=names)
    images = w.images(12)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    stored = golden.run(w.qnet, images)
    right = [np.float32(w.qnet.logits(exit, stored[exit])[row]).tobytes() for row, exit in enumerate(exits)]
    (tmp_path / "tenants.toml").write_text(TENANTS)
    boards = BoardOptions(slo_ns=10**9, tenants=tmp_path / "tenants.toml", boards=2, decisions=tmp_path / "log")
    with fleet(fleet_file(tmp_path, DEVICES, w), boards=boards) as (server, front):
        with fluidnpu.connect(server.url(), NAME) as npu:
            answer = npu.infer(images)
            assert answer.outputs["label"].tolist() == classes.tolist()
            assert answer.outputs["exit"].tolist() == exits.tolist()
            assert [row.tobytes() for row in answer.outputs["logits"]] == right
            assert answer.outputs["class_name"].tolist() == [names[label] for label in classes]
            assert npu.metadata()["class_names"] == list(names)
            assert answer.parameters["board"] in ("board-0, board-1", "board-1, board-0")
            alone = [npu.infer(image) for image in images[:4]]
            assert [one.logits.tobytes() for one in alone] == right[:4]
            assert npu.ready()
            assert npu.metadata()["inputs"][0]["shape"][1:] == list(images.shape[1:])
            assert npu.statistics()["inference_count"] == 16
            _refused(server.url(), npu, images)
        _over_grpc(server.url("grpc"), w.program.input, images, classes)
        _pages(server.url(), front)
        _tenants(server.url(), images, exits)
        front.dispatcher.drain("board-0")
        with fluidnpu.connect(server.url(), NAME) as npu:
            assert {npu.infer(image).parameters["board"] for image in images[:3]} == {"board-1"}
        assert front.index()[0] == {
            "name": NAME,
            "version": "1",
            "state": "READY",
            "reason": "board-0 was taken out",
        }
        pids = [one.pid for one in front.processes.values()]
    assert not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()], "boards end with their front"
    logs = [tmp_path / "log" / one / f"{NAME}.jsonl" for one in front.processes]
    replayed = [replay_live(one.read_text().splitlines()) for one in logs]
    assert all(one.decisions and one.requests for one in replayed), "each board logs its own"


def _refused(url: str, npu: Any, images: Any) -> None:
    with pytest.raises(ProtocolError, match="shape"):
        npu.infer(np.zeros((1, 2, 2, 1), np.uint8))
    with pytest.raises(ProtocolError, match="slo_ms"):
        npu.infer(images[0], slo_ms=-1)
    with pytest.raises(TooLargeError, match="at most"):
        npu.infer(np.repeat(images, 6, axis=0))
    with pytest.raises(ProtocolError, match="at least one sample"):
        npu.infer(images[:0])
    with fluidnpu.connect(url, "other") as other, pytest.raises(UnknownModelError, match="one of small, not 'other'"):
        other.metadata()
    with pytest.raises(AccessError):
        npu.load()


def _tenants(url: str, images: Any, exits: Any) -> None:
    """Each board shares its NPU between them; the front passes their names on."""
    with fluidnpu.connect(url, NAME) as npu:
        for image in images[:3]:
            assert npu.infer(image, tenant="doors").left_because == "exit_number == 1"
        assert npu.infer(images[:4], tenant="cameras").outputs["exit"].tolist() == exits[:4].tolist()
        with pytest.raises(ProtocolError, match="a tenant must be one of doors, cameras, not 'attic'"):
            npu.infer(images[0], tenant="attic")
    with urllib.request.urlopen(url + "/openapi.json") as answer:
        schema = json.loads(answer.read())["components"]["schemas"]["InferRequest"]
    assert '"doors"' in json.dumps(schema)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tenant.a]\nshare = 1\nnetwork = 'small'", "tenants of a fleet share every model, so none may name"),
        ("confidences = 'x.npz'\n[tenant.a]\nshare = 1", "what needs recorded confidences is for a board"),
        ("[tenant.a]\nshare = 1\nmode = 'pareto'", "what needs recorded confidences is for a board"),
        ("[tenant.a]\nshare = 2", "share must be a number in 0..1, not 2"),
    ],
)
def test_tenants_that_a_fleet_cannot_hold_are_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "tenants.toml"
    file.write_text(text)
    with pytest.raises(SchedulerError, match=says) as caught:
        shared_by(file)
    assert "tenants.toml" in str(caught.value)


def test_each_board_expects_its_part_of_the_rates(tmp_path: Path) -> None:
    file = tmp_path / "tenants.toml"
    file.write_text(TENANTS)
    assert [one.rate_per_s for one in shared_by(file, 4).tenants] == [None, 25.0]


def _over_grpc(place: str, input: str, images: Any, classes: Any) -> None:
    asked = message("ModelInferRequest")(model_name=NAME, id="7")
    asked.inputs.add(name=input, datatype="UINT8", shape=images.shape)
    asked.outputs.add(name="label")
    asked.raw_input_contents.append(images.tobytes())
    with grpc.insecure_channel(place) as channel:
        said = channel.unary_unary(f"/{SERVICE}/ModelInfer")(asked.SerializeToString(), timeout=PATIENCE_S)
        asked.parameters["idempotency_key"].string_param = "mine"
        both = [
            channel.unary_unary(f"/{SERVICE}/ModelInfer")(asked.SerializeToString(), timeout=PATIENCE_S)
            for _ in range(2)
        ]
    assert both[0] == both[1]
    answer = message("ModelInferResponse").FromString(said)
    assert (answer.id, [one.name for one in answer.outputs]) == ("7", ["label"])
    assert np.frombuffer(answer.raw_output_contents[0], np.int32).tolist() == classes.tolist()
    asked.outputs[0].name = "logits"
    asked.outputs[0].parameters["classification"].int64_param = 1
    asked.parameters.clear()
    with grpc.insecure_channel(place) as channel:
        said = channel.unary_unary(f"/{SERVICE}/ModelInfer")(asked.SerializeToString(), timeout=PATIENCE_S)
    raw = message("ModelInferResponse").FromString(said).raw_output_contents[0]
    best = from_bytes("logits", "BYTES", [len(classes), 1], raw)
    assert [int(text.split(":")[1]) for text in best.ravel()] == classes.tolist()


def _pages(url: str, front: Any) -> None:
    def got(path: str) -> str:
        with urllib.request.urlopen(url + path) as answer:
            return str(answer.read().decode())

    found = json.loads(got("/live.json"))
    assert [one["state"] for one in found["boards"]] == ["READY", "READY"]
    assert found["models"][0]["answered"] == 52, (
        "16 alone and in one, three times 12 over gRPC, a repeat of them not at all"
    )
    page = got("/")
    assert all(f"one.{key}" in page or f'"{key}"' in page for key in ("answers", "overdue", "late", "wrong", "lag_us"))
    metrics = got("/metrics")
    assert 'fluidnpu_fleet_answered_total{model="small"} 52.0' in metrics
    assert 'fluidnpu_board_state{board="board-0",state="ready"} 1.0' in metrics
    sent = sum(leaf.counts["sent"] for leaf in front.dispatcher.leaves)
    assert sum(int(float(line.split()[-1])) for line in metrics.splitlines() if "board_sent_total{" in line) == sent
    assert json.loads(got("/openapi.json"))["info"]["version"] == front.version
    assert got("/v2/health/ready") == '{"ready":true}'
    assert all(leaf.state is BoardState.READY for leaf in front.dispatcher.leaves)
