"""Classes by their names over the network: in answers, in the metadata, and as Triton's classification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
from host_worlds import PATIENCE_S, world
from oip_worlds import NAME, Served, served
from tritonclient import http

import fluidnpu
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.tensors import from_bytes

INFER = f"/v2/models/{NAME}/infer"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A network whose classes have names, of which two are alike and one is not ASCII."""
    w = world(3, loaded=False)
    names = ("crane", "süß", *(f"class {number}" for number in range(2, w.program.task.classes - 1)), "crane")
    w.program = replace(w.program, class_names=names)
    with served(tmp_path_factory.mktemp("classes"), w) as world_served:
        yield world_served


def test_answers_and_metadata_have_names(s: Served) -> None:
    images, names = s.w.images(6), s.w.program.class_names
    wanted = [names[label] for label in s.golden(images)[1]]
    with fluidnpu.connect(s.url, NAME) as npu:
        assert npu.metadata()["class_names"] == list(names)
        assert {"name": "class_name", "datatype": "BYTES", "shape": [-1]} in npu.metadata()["outputs"]
        answer = npu.infer(images)
        assert answer.outputs["class_name"].tolist() == wanted
        assert npu.infer(images[0]).class_name == wanted[0]
    status, body = s.call("POST", INFER, s.request(images[0], outputs=[{"name": "class_name"}]))
    assert status == 200
    assert body["outputs"] == [{"name": "class_name", "datatype": "BYTES", "shape": [1], "data": wanted[:1]}]


def test_tritonclient_reads_names_and_the_best_classes(s: Served) -> None:
    images, names = s.w.images(3), s.w.program.class_names
    with http.InferenceServerClient(s.place) as client:
        asked = http.InferInput(s.input, list(images.shape), "UINT8")
        asked.set_data_from_numpy(images)
        plain = client.infer(NAME, [asked])
        assert [text.decode() for text in plain.as_numpy("class_name")] == [
            names[label] for label in plain.as_numpy("label")
        ]
        for binary in (True, False):
            best = http.InferRequestedOutput("logits", binary_data=binary, class_count=2)
            best_classes = client.infer(NAME, [asked], outputs=[best]).as_numpy("logits")
            assert best_classes.shape == (3, 2)
            _check(best_classes, plain.as_numpy("logits"), names)


def _check(found: Any, logits: Any, names: tuple[str, ...]) -> None:
    """Each text is "logit:number:name", the largest logits first."""
    for texts, row in zip(found, logits, strict=True):
        order = np.argsort(-row, kind="stable")
        for text, number in zip(texts, order, strict=False):
            value, which, name = (text.decode() if isinstance(text, bytes) else text).split(":", 2)
            assert (int(which), name) == (number, names[number])
            assert float(value) == pytest.approx(float(row[number]), abs=1e-6)


def test_grpc_gives_the_best_classes_and_its_metadata_stays_as_it_is(s: Served) -> None:
    images = s.w.images(2)
    with grpc.insecure_channel(s.grpc_place.removeprefix("http://")) as channel:

        def call(method: str, asked: Any, answer: str) -> Any:
            raw = channel.unary_unary(f"/{SERVICE}/{method}")(asked.SerializeToString(), timeout=PATIENCE_S)
            return message(answer).FromString(raw)

        asked = message("ModelInferRequest")(model_name=NAME)
        asked.inputs.add(name=s.input, datatype="UINT8", shape=images.shape)
        asked.raw_input_contents.append(images.tobytes())
        plain = call("ModelInfer", asked, "ModelInferResponse")
        rows = {
            output.name: from_bytes(output.name, output.datatype, tuple(output.shape), raw)
            for output, raw in zip(plain.outputs, plain.raw_output_contents, strict=True)
        }
        assert rows["class_name"].tolist() == [s.w.program.class_names[label] for label in rows["label"]]
        asked.outputs.add(name="logits").parameters["classification"].int64_param = 3
        best = call("ModelInfer", asked, "ModelInferResponse")
        assert (best.outputs[0].datatype, list(best.outputs[0].shape)) == ("BYTES", [2, 3])
        best_classes = from_bytes("logits", "BYTES", [2, 3], best.raw_output_contents[0])
        _check(best_classes, rows["logits"], s.w.program.class_names)
        metadata = call("ModelMetadata", message("ModelMetadataRequest")(name=NAME), "ModelMetadataResponse")
        assert "class_name" in [output.name for output in metadata.outputs]


def test_more_classes_than_there_are_and_repeats(s: Served) -> None:
    """A repeat with a key gives the first answer, as its own request wants it."""
    image, many = s.w.images(1)[0], [{"name": "logits", "parameters": {"classification": 999}}]
    keyed = {"parameters": {"idempotency_key": "again"}}
    first = s.call("POST", INFER, s.request(image, outputs=[{"name": "logits"}], **keyed))[1]["outputs"][0]
    again = s.call("POST", INFER, s.request(image, outputs=many, **keyed))[1]["outputs"][0]
    assert (first["datatype"], again["datatype"]) == ("FP32", "BYTES")
    assert again["shape"] == first["shape"]


def test_without_names_there_are_numbers_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("plain")) as s:
        status, metadata = s.call("GET", f"/v2/models/{NAME}")
        assert "class_names" not in metadata
        assert "class_name" not in json.dumps(metadata)
        best = [{"name": "logits", "parameters": {"classification": 1}}]
        status, answer = s.call("POST", INFER, s.request(s.w.images(1)[0], outputs=best))
        assert status == 200
        assert answer["outputs"][0]["data"][0].count(":") == 1
        with fluidnpu.connect(s.url, NAME) as npu:
            assert npu.infer(s.w.images(1)[0]).class_name == ""
