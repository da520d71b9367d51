"""Pixels of every datatype that the network surface takes, and the refusal of all others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from host_worlds import PATIENCE_S
from oip_worlds import NAME, Served, served

from fluidnpu.host.errors import ProtocolError
from fluidnpu.host.oip.wire.calls import read_wishes
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.tensors import DTYPES, KNOWN, OF_PIXELS, Array, from_bytes, to_bytes

INFER = f"/v2/models/{NAME}/infer"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("datatypes")) as world_served:
        yield world_served


def bfloat16(values: Array) -> bytes:
    """The upper halves of floats, rounded to nearest even, as frameworks make them."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def sent(pixels: Array, datatype: str) -> bytes:
    """Pixels as a client has them in a datatype: floats in 0..1, integers as they are."""
    if datatype == "BF16":
        return bfloat16(pixels / 255)
    floats = datatype.startswith("FP")
    return (pixels / 255 if floats else pixels).astype(DTYPES[datatype]).tobytes()


def over_http(s: Served, images: Array, datatype: str, raw: bytes) -> tuple[int, Any]:
    tensor: dict[str, Any] = {"name": s.input, "datatype": datatype, "shape": list(images.shape)}
    tensor["parameters"] = {"binary_data_size": len(raw)}
    head = json.dumps({"inputs": [tensor], "outputs": [{"name": "logits"}]}).encode()
    return s.call("POST", INFER, head + raw, Inference_Header_Content_Length=str(len(head)))


def over_grpc(s: Served, images: Array, datatype: str, raw: bytes) -> Any:
    asked = message("ModelInferRequest")(model_name=NAME)
    asked.inputs.add(name=s.input, datatype=datatype, shape=images.shape)
    asked.raw_input_contents.append(raw)
    with grpc.insecure_channel(f"127.0.0.1:{s.server.ports['grpc']}") as channel:
        call = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        return message("ModelInferResponse").FromString(call(asked.SerializeToString(), timeout=PATIENCE_S))


def logits(s: Served, images: Array, datatype: str, raw: bytes) -> Array:
    status, answer = over_http(s, images, datatype, raw)
    assert status == 200, answer
    return np.array(answer["outputs"][0]["data"], np.float32).reshape(answer["outputs"][0]["shape"])


@pytest.mark.parametrize("datatype", OF_PIXELS)
def test_pixels_mean_the_same_in_every_datatype_and_over_both_transports(s: Served, datatype: str) -> None:
    images = s.w.images(3)
    raw = sent(images, datatype)
    logits_of = logits(s, images, datatype, raw)
    kept = from_bytes("x", datatype, images.shape, raw)  # rounded to the datatype
    if datatype != "UINT8":
        np.testing.assert_array_equal(logits_of, logits(s, images, "FP64", kept.astype(np.float64).tobytes()))
    whole = logits(s, images, "UINT8", images.tobytes())
    np.testing.assert_allclose(logits_of, whole, atol={"BF16": 0.1, "FP16": 0.02}.get(datatype, 1e-3) * np.ptp(whole))
    answer = over_grpc(s, images, datatype, raw)
    place = [output.name for output in answer.outputs].index("logits")
    np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[place], np.float32), logits_of.ravel())


@pytest.mark.parametrize("datatype", sorted({*KNOWN, "bf16", "COMPLEX64"} - set(OF_PIXELS)))
def test_all_other_datatypes_are_refused_over_both_transports(s: Served, datatype: str) -> None:
    """Above all INT16: as pixels it would be another image than as the NPU's stored numbers."""
    images = s.w.images(1)
    raw = images.astype(DTYPES.get(datatype, np.dtype(np.int16))).tobytes()
    sentence = f"tensor '{s.input}' must have a datatype of UINT8, FP16, BF16, FP32 or FP64, not '{datatype}'"
    assert over_http(s, images, datatype, raw) == (400, {"error": sentence, "type": "ProtocolError"})
    with pytest.raises(grpc.RpcError) as refused:
        over_grpc(s, images, datatype, raw)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, sentence)


def test_bfloat16_is_the_upper_half_of_a_float() -> None:
    values = np.array([0, 1, -2.5, 3.0e38, np.inf], np.float32)
    halves = bfloat16(values)
    floats = from_bytes("x", "BF16", [5], halves)
    assert floats.dtype == np.float32
    np.testing.assert_allclose(floats, values, rtol=2**-8)
    assert np.isnan(from_bytes("x", "BF16", [1], b"\xc0\x7f")[0])
    with pytest.raises(ProtocolError, match="must hold 10 bytes for BF16"):
        from_bytes("x", "BF16", [5], halves[:-1])


def test_texts_are_bytes_with_their_lengths() -> None:
    texts = np.array([["cat", ""], ["chien à poil", "9"]], np.object_)
    raw = to_bytes(texts)
    assert from_bytes("x", "BYTES", [2, 2], raw).tolist() == texts.tolist()
    assert to_bytes(texts.astype(str)) == raw
    for wrong in (raw[:-1], raw[:-5], raw + b"\0", b"\xff\xff\xff\xff", b""):
        with pytest.raises(ProtocolError, match="must hold 4 texts in its"):
            from_bytes("x", "BYTES", [2, 2], wrong)


def test_a_timeout_of_zero_is_none(s: Served) -> None:
    """Triton's clients send it where nobody asked for one."""
    assert read_wishes({"timeout": 0}).timeout_ns is None
    image = s.w.images(1)[0]
    assert s.call("POST", INFER, s.request(image, parameters={"timeout": 0}))[0] == 200
    assert "in 0..1000000000000" in s.call("POST", INFER, s.request(image, parameters={"timeout": -1}))[1]["error"]
