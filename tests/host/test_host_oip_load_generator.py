"""perf_analyzer's calls in their order, replayed: what it asks first, its windows, and what it subtracts.

The tool has no wheel here. Its calls are those of its sources (triton_client_backend, inference_profiler and
infer_data_manager): metadata and configuration, then shared memory, then statistics before and after each
window of requests.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from host_worlds import world
from oip_worlds import NAME, Served, patient, served
from tritonclient import grpc as triton_grpc
from tritonclient import http as triton_http
from tritonclient.utils import shared_memory as triton_memory
from tritonclient.utils import triton_to_np_dtype

MODULES: dict[str, Any] = {"http": triton_http, "grpc": triton_grpc}
OUTPUT_BYTES = 1024  # its --output-shared-memory-size, for outputs whose size it does not know
WINDOW = 24  # requests
WORKERS = 4
TIMES = ("success", "queue", "compute_input", "compute_infer", "compute_output")
COUNTED = (*TIMES, "fail", "cache_hit", "cache_miss")


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    w = world(3, loaded=False, millis=True)  # so that the NPU's time is more than a microsecond
    with served(tmp_path_factory.mktemp("load"), w, limits=patient(shared_bytes=1 << 20)) as one:
        yield one


class Tool:
    """One run of the tool against one model, over one transport."""

    def __init__(self, s: Served, transport: str) -> None:
        self.module, self.transport = MODULES[transport], transport
        place = s.place if transport == "http" else s.grpc_place
        more = {"concurrency": WORKERS} if transport == "http" else {}
        self.client = self.module.InferenceServerClient(place, **more)
        self.regions: list[Any] = []

    def asked(self, what: str, *words: Any) -> dict[str, Any]:
        """An answer as JSON, as each transport of the tool reads it."""
        if self.transport == "http":
            found: dict[str, Any] = getattr(self.client, what)(*words)
        else:
            message = getattr(self.client, what)(*words)
            found = json_format.MessageToDict(message, preserving_proto_field_name=True)
        return found

    def model(self) -> tuple[dict[str, Any], list[str], int]:
        """The input, the outputs and the largest batch, of metadata and configuration together."""
        metadata, config = self.asked("get_model_metadata", NAME, ""), self.asked("get_model_config", NAME, "")
        config = config.get("config", config)
        (tensor,), (known,) = metadata["inputs"], config["input"]
        assert config["max_batch_size"] > 0
        shape = [int(size) for size in tensor["shape"]]
        assert shape == [-1, *(int(size) for size in known["dims"])]  # a batch goes before what the configuration has
        assert known["data_type"] == f"TYPE_{tensor['datatype']}"
        assert not {"sequence_batching", "ensemble_scheduling", "model_transaction_policy"} & set(config)
        assert [one["name"] for one in metadata["outputs"]] == [one["name"] for one in config["output"]]
        return {**tensor, "shape": shape[1:]}, [one["name"] for one in metadata["outputs"]], config["max_batch_size"]

    def statistics(self) -> dict[str, int]:
        """Every number of the model's entry that it reads, which must be a whole number from 0."""
        entries = self.asked("get_inference_statistics", NAME, "")["model_stats"]
        entry = max(entries, key=lambda one: int(one["version"]))  # of several versions it takes the newest
        assert entry["name"] == NAME
        found = {name: int(entry.get(name, 0)) for name in ("inference_count", "execution_count")}
        for name in COUNTED:
            row = entry["inference_stats"][name]
            found |= {f"{name}.{key}": int(row.get(key, 0)) for key in ("count", "ns")}
        assert min(found.values()) >= 0
        return found

    def region(self, name: str, size: int) -> Any:
        made = triton_memory.create_shared_memory_region(name, f"/{name}_{os.getpid()}", size)
        self.regions.append(made)
        self.client.register_system_shared_memory(name, made._shm_key, size)
        return made

    def forget(self) -> None:
        self.client.unregister_system_shared_memory()
        self.client.unregister_cuda_shared_memory()


@contextmanager
def tool(s: Served, transport: str) -> Iterator[Tool]:
    one = Tool(s, transport)
    try:
        yield one
        one.forget()
    finally:
        for region in one.regions:
            triton_memory.destroy_shared_memory_region(region)
        one.client.close()


def window(one: Tool, requests: Sequence[Mapping[str, Any]]) -> tuple[list[Any], dict[str, int]]:
    """Answers of requests that are under way side by side, and what the statistics grew by."""
    before = one.statistics()
    if one.transport == "http":
        under_way = [one.client.async_infer(NAME, **words) for words in requests]
        answers = [each.get_result() for each in under_way]
    else:
        with ThreadPoolExecutor(WORKERS) as pool:
            answers = list(pool.map(lambda words: one.client.infer(NAME, **words), requests))
    after = one.statistics()
    grown = {name: after[name] - before[name] for name in after}
    assert grown["success.count"] == len(requests)
    assert grown["fail.count"] == 0
    assert all(grown[f"{name}.count"] == len(requests) for name in TIMES)
    assert grown["success.ns"] > grown["compute_infer.ns"] > 0
    assert grown["execution_count"] > 0
    return answers, grown


@pytest.mark.parametrize("transport", MODULES)
@pytest.mark.parametrize("memory", ["none", "system"])
def test_a_run_of_one_concurrency(s: Served, transport: str, memory: str) -> None:
    batch = 2
    with tool(s, transport) as one:
        extensions = one.asked("get_server_metadata")["extensions"]
        assert {"statistics", "model_configuration"} <= set(extensions)
        tensor, outputs, most = one.model()
        assert batch <= most
        shape = (batch, *tensor["shape"])
        images = np.random.default_rng(0).integers(0, 256, shape).astype(triton_to_np_dtype(tensor["datatype"]))
        one.forget()
        requests: list[Mapping[str, Any]] = []
        sent = one.module.InferInput(tensor["name"], shape, tensor["datatype"])
        if memory == "none":
            sent.set_data_from_numpy(images)
            requests = [{"inputs": [sent]} for _ in range(WINDOW)]
        else:
            assert "system_shared_memory" in extensions
            triton_memory.set_shared_memory_region(one.region("image_0_0", images.nbytes), [images])
            sent.set_shared_memory("image_0_0", images.nbytes)
            for worker in range(WORKERS):
                wanted = []
                for name in outputs:
                    one.region(f"{name}_{worker}", OUTPUT_BYTES)
                    wanted.append(one.module.InferRequestedOutput(name))
                    wanted[-1].set_shared_memory(f"{name}_{worker}", OUTPUT_BYTES)
                requests.append({"inputs": [sent], "outputs": wanted})
            requests *= WINDOW // WORKERS
        for _ in range(2):  # it measures windows until they agree
            answers, grown = window(one, requests)
            assert grown["inference_count"] == batch * WINDOW
        _, classes = s.golden(images)
        if memory == "none":
            assert all(answer.as_numpy("label").tolist() == classes for answer in answers)
        else:
            for region in one.regions:
                if region._triton_shm_name.startswith("label_"):
                    assert triton_memory.get_contents_as_numpy(region, np.int32, (batch,)).tolist() == classes


@pytest.mark.parametrize("transport", MODULES)
def test_sequences(s: Served, transport: str) -> None:
    """The parameters of a sequence go with each request, also where the model keeps no state."""
    length, image = 6, s.w.images(1)
    with tool(s, transport) as one:
        sent = one.module.InferInput(s.input, image.shape, "UINT8")
        sent.set_data_from_numpy(image)
        requests = [
            {
                "inputs": [sent],
                "sequence_id": sequence,
                "sequence_start": step == 0,
                "sequence_end": step == length - 1,
                "request_id": f"{sequence}_{step}",
            }
            for sequence, step in itertools.product((1 << 40, 7), range(length))
        ]
        answers, grown = window(one, requests)
        assert grown["inference_count"] == len(requests)
        assert all(answer.as_numpy("label").tolist() == s.golden(image)[1] for answer in answers)


def test_a_run_over_a_stream(s: Served, tmp_path: Path) -> None:
    image, done = s.w.images(1), list[Any]()
    with tool(s, "grpc") as one:
        before = one.statistics()
        sent = one.module.InferInput(s.input, image.shape, "UINT8")
        sent.set_data_from_numpy(image)
        one.client.start_stream(lambda result, error: done.append((result, error)))
        for number in range(WINDOW):
            one.client.async_stream_infer(NAME, [sent], request_id=str(number), sequence_id=number + 1)
        one.client.stop_stream()  # after the answers
        assert [error for _, error in done] == [None] * WINDOW
        ids = sorted(int(result.get_response().id) for result, _ in done)
        assert ids == list(range(WINDOW))
        assert one.statistics()["success.count"] - before["success.count"] == WINDOW
