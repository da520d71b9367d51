"""Versions of a model: shares by file and by hand, statistics of each, roll back, and versions that fail."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from host_worlds import HOUR_NS, PATIENCE_S, HostWorld, world
from hypothesis import given
from hypothesis import strategies as st
from oip_worlds import NAME, Served, bundle_of
from tritonclient import grpc as triton_grpc

import fluidnpu
from fluidnpu.host import Bundle, BundleError, DeviceError, DriverUsageError, SimulatedNpu, WallClock
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.errors import ConflictError
from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.host.serving import AccessError, ModelOptions, Models, ProtocolError, UnknownModelError
from fluidnpu.host.serving.versions import VersionShares

THRESHOLDS = {"1": 0.0, "2": 1.0}  # the first leaves every image at the first exit, the second none


def version_of(w: HostWorld, folder: Path, version: str, threshold: float | None = None) -> Path:
    exits = tuple(replace(one, threshold=THRESHOLDS.get(version, threshold)) for one in w.program.exits)
    Bundle(design=w.design, program=replace(w.program, exits=exits)).write(folder / version)
    return folder / version


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    w = world(3, loaded=False)
    for version in THRESHOLDS:
        version_of(w, tmp_path / NAME, version)
    return tmp_path / NAME


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Served]:
    models = Models({NAME: folder}, ModelOptions(**{"slo_ns": HOUR_NS, **options}))
    with in_background(models, ServeOptions(http=0, grpc=0, admin=0, admin_grpc=0)) as server:
        yield Served(world(3, loaded=False), server)


def asked(s: Served, count: int, version: str = "") -> Counter[int]:
    """The exits at which single images leave, which tell the version."""
    image = s.w.images(1)[0]
    with fluidnpu.connect(s.url, NAME, version=version) as npu:
        return Counter(npu.infer(image).exit for _ in range(count))


# -- shares --------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_shares_are_exact_over_their_sum_and_close_before(parts: list[int]) -> None:
    shares = VersionShares({str(version): float(part) for version, part in enumerate(parts)})
    whole, names = sum(parts), [str(version) for version in range(len(parts))]
    given = Counter[str]()
    for turn in range(1, 2 * whole + 1):
        given[shares.turn(names)] += 1
        for version, part in enumerate(parts):
            assert abs(given[str(version)] - turn * part / whole) < len(parts)
    assert given == {str(version): 2 * part for version, part in enumerate(parts)}


def test_a_file_shares_requests_and_each_version_counts_its_own(folder: Path) -> None:
    (folder / "shares.toml").write_text("1 = 90\n2 = 10\n")
    with serving(folder) as s:
        assert asked(s, 20) == {0: 18, 1: 2}
        assert asked(s, 3, "2") == {1: 3}  # who names one gets it
        assert asked(s, 2, "1") == {0: 2}
        with pytest.raises(UnknownModelError, match="a version of 1, 2, not '3'"):
            asked(s, 1, "3")
        stats = s.call("GET", f"/v2/models/{NAME}/stats")[1]["model_stats"]
        counted = {one["version"]: one["inference_stats"]["success"]["count"] for one in stats}
        assert counted == {"1": 20, "2": 5}
        (second,) = s.call("GET", f"/v2/models/{NAME}/versions/2/stats")[1]["model_stats"]
        assert (second["version"], second["inference_count"]) == ("2", 5)
        assert s.call("GET", f"/v2/models/{NAME}")[1]["versions"] == ["1", "2"]
        index = s.call("POST", "/v2/repository/index")[1]
        assert [(one["version"], one["state"]) for one in index] == [("1", "READY"), ("2", "READY")]
        scraped = s.exchange("GET", "/metrics")[1].decode()
        for label, count in (("small/1", 20), ("small/2", 5)):
            assert f'fluidnpu_requests_total{{model="{label}",outcome="exit"}} {count}.0' in scraped
        with triton_grpc.InferenceServerClient(s.grpc_place) as client:
            image = triton_grpc.InferInput(s.input, (1, *s.w.images(1)[0].shape), "UINT8")
            image.set_data_from_numpy(s.w.images(1))
            answer = client.infer(NAME, [image], model_version="2")
            assert (answer.get_response().model_version, answer.as_numpy("exit").tolist()) == ("2", [1])
            assert [one.version for one in client.get_inference_statistics(NAME).model_stats] == ["1", "2"]


def test_a_canary_grows_and_goes_back_at_once(folder: Path) -> None:
    with serving(folder) as s, fluidnpu.connect(s.server.url("admin"), NAME) as admin:
        assert asked(s, 4) == {1: 4}  # without a file the newest has all
        with pytest.raises(ConflictError, match="must have been changed to go back"):
            admin.change_shares(None)
        said = admin.change_shares({"1": 3, "2": 1})
        assert said == {
            "shares": {"1": 0.75, "2": 0.25},
            "before": {"2": 1.0},
            "versions": {"1": "READY", "2": "READY"},
        }
        assert asked(s, 8) == {0: 6, 1: 2}
        assert admin.change_shares(None)["shares"] == {"2": 1.0}
        assert asked(s, 4) == {1: 4}
        with pytest.raises(AccessError, match="admin surface"), fluidnpu.connect(s.url, NAME) as other:
            other.shares()
        for body, sentence in [
            ({"shares": {"3": 1}}, "shares must be of versions 1, 2, not '3'"),
            ({"shares": {"1": -1}}, "the share of version 1 in shares must be a number from 0"),
            ({"shares": {"1": True}}, "the share of version 1 in shares must be a number from 0"),
            ({"shares": {"1": 0, "2": 0}}, "must give a version more than nothing"),
            ({"shares": {}}, "must give a version more than nothing"),
            ({"shares": [1]}, "shares must be an object with a number for each version, not a list of 1"),
            ({"back": False}, "back must be true, not False"),
            ({}, "must have either shares or back"),
            ({"shares": {"1": 1}, "back": True}, "must have either shares or back"),
        ]:
            status, content, _ = s.exchange("POST", f"/v2/models/{NAME}/shares", json.dumps(body).encode(), "admin")
            assert status == 400
            assert sentence in json.loads(content)["error"]
        with grpc.insecure_channel(s.server.url("admin_grpc")) as channel:

            def call(name: str, **more: Any) -> Any:
                body = json.dumps({"model": NAME, **more}).encode()
                return json.loads(channel.unary_unary(f"/fluidnpu.Versions/{name}")(body, timeout=PATIENCE_S))

            assert call("ChangeShares", shares={"1": 1})["shares"] == {"1": 1.0}
            assert call("Shares")["before"] == {"2": 1.0}
        assert asked(s, 2) == {0: 2}


def test_a_repeat_gets_the_answer_of_the_version_that_answered(folder: Path) -> None:
    (folder / "shares.toml").write_text("1 = 1\n2 = 1\n")
    with serving(folder) as s:
        image = s.w.images(1)[0]
        said = [
            s.call("POST", f"/v2/models/{NAME}/infer", s.request(image, parameters={"idempotency_key": f"k{i // 4}"}))[
                1
            ]
            for i in range(8)
        ]
        versions = [one["model_version"] for one in said]
        assert versions[:4] == [versions[0]] * 4
        assert versions[4:] == [versions[4]] * 4


# -- versions that come, change and go -----------------------------------------------------------------------


def test_a_load_takes_new_versions_and_leaves_the_others_alone(folder: Path) -> None:
    with serving(folder) as s, fluidnpu.connect(s.server.url("admin"), NAME) as admin:
        first, second = (model.npu for model in s.server.models.of(NAME))
        version_of(s.w, folder, "3", 0.0)
        (folder / "shares.toml").write_text("2 = 1\n3 = 1\n")
        shutil.rmtree(folder / "1")
        admin.load()
        assert admin.shares()["shares"] == {"2": 0.5, "3": 0.5}
        assert asked(s, 4) == {0: 2, 1: 2}
        assert s.call("GET", f"/v2/models/{NAME}")[1]["versions"] == ["2", "3"]
        assert (first.loads, first.reason, second.loads) == (1, "unloaded", 1)
        version_of(s.w, folder, "2", 0.0)
        (folder / "2" / "program.bin").write_bytes(b"?")
        with pytest.raises(ProtocolError, match="digest"):
            admin.load()
        assert asked(s, 4) == {0: 2, 1: 2}  # the second is served as it was
        admin.unload()
        assert s.call("GET", "/v2/health/ready")[0] == 200
        assert s.call("POST", f"/v2/models/{NAME}/infer", s.request(s.w.images(1)[0]))[0] == 503


def test_a_version_that_fails_its_warm_up_never_gets_a_request(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "shares.toml").write_text("1 = 1\n2 = 9\n")

    def opened(bundle: Bundle) -> SimulatedNpu:
        broken = bundle.program.exits[0].threshold == THRESHOLDS["2"]
        faults = [JobFault(job=job) for job in range(100)] if broken else []
        return SimulatedNpu(bundle.design, clock=WallClock(), faults=faults)

    with serving(folder, opened=opened) as s, fluidnpu.connect(s.server.url("admin"), NAME) as admin:
        assert "version 2 of model 'small' is not loaded: the NPU reports" in caplog.text
        assert s.call("GET", "/v2/health/ready")[0] == 200
        assert s.call("GET", f"/v2/models/{NAME}")[1]["versions"] == ["1"]
        assert asked(s, 10) == {0: 10}
        assert s.call("GET", f"/v2/models/{NAME}/versions/2/ready")[0] == 503
        assert s.call("POST", f"/v2/models/{NAME}/versions/2/infer", s.request(s.w.images(1)[0]))[0] == 503
        with pytest.raises(ConflictError, match="version 2 of model 'small' must take requests to get a share"):
            admin.change_shares({"2": 1})
        with pytest.raises(DeviceError, match="WATCHDOG"):
            admin.load()
        assert asked(s, 3) == {0: 3}


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3 = 1\n", "must be of versions 1, 2, not '3'"),
        ("1 = 'all'\n", "must be a number"),
        ("1 = ", "readable shares"),
    ],
)
def test_a_file_of_shares_that_cannot_be(folder: Path, text: str, sentence: str) -> None:
    (folder / "shares.toml").write_text(text)
    with pytest.raises(BundleError, match=sentence):
        Models({NAME: folder}, ModelOptions())


def test_versions_need_an_npu_each(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DriverUsageError, match="there is one behind 'pynq'"):
        Models({NAME: folder}, ModelOptions(device="pynq"))
    bundle = bundle_of(world(3, loaded=False), tmp_path / "one")
    with (
        in_background(
            Models({NAME: bundle}, ModelOptions(slo_ns=HOUR_NS)), ServeOptions(http=0, admin=0, grpc=None)
        ) as s,
        fluidnpu.connect(s.url("admin"), NAME) as admin,
        pytest.raises(ConflictError, match="must be a folder of numbered bundles"),
    ):
        admin.shares()
