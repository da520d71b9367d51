"""Loads in steps: what is tried answers nobody, what is kept everybody, and back is what was before."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import virtual_time
from host_worlds import PATIENCE_S, HostWorld, world
from oip_worlds import NAME, bundle_of, served

import fluidnpu
from fluidnpu.host.errors import ModelUnavailableError
from fluidnpu.host.oip import trials
from fluidnpu.host.oip.trials import Trials
from fluidnpu.host.oip.wire.calls import Call
from fluidnpu.host.oip.wire.messages import SERVICE, message

LOAD = f"/v2/repository/models/{NAME}/load"


def eager(w: HostWorld) -> HostWorld:
    """The same network, whose samples all leave at the first exit."""
    exits = tuple(replace(one, threshold=None if one.threshold is None else 0.0) for one in w.program.exits)
    return replace(w, program=replace(w.program, exits=exits))


def _step(step: Any) -> bytes:
    return json.dumps({"parameters": {"step": step}}).encode()


def test_a_load_in_steps(tmp_path: Path) -> None:
    w = world(3, loaded=False)
    images = w.images(12)
    with served(tmp_path, w, surfaces={"admin": 0, "admin_grpc": 0}) as s:

        def admin(step: Any) -> tuple[int, Any]:
            status, content, _ = s.exchange("POST", LOAD, _step(step), "admin")
            return status, json.loads(content)

        right, _ = s.golden(images)
        assert max(right) > 0
        with fluidnpu.connect(s.url) as npu:
            assert [admin(step)[0] for step in ("keep", "again", 7)] == [409, 400, 400]
            assert admin("back") == (
                400,
                {
                    "error": f"model '{NAME}' must have been loaded twice to go back, and was not",
                    "type": "ProtocolError",
                },
            )
            bundle_of(eager(w), s.model.folder)
            for last in ("back", "keep"):
                assert admin("try") == (200, {})
                assert admin("try")[0] == 409, "it is on trial already"
                assert not npu.ready()
                with pytest.raises(ModelUnavailableError, match="must pass its trial first"):
                    npu.infer(images[0])
                body = json.loads(s.request(images[0])) | {"parameters": {"trial": True}}
                tried = s.call("POST", f"/v2/models/{NAME}/infer", json.dumps(body).encode())
                assert (tried[0], tried[1]["parameters"]["exit"]) == (200, 0)
                if last == "back":
                    _over_grpc(s.server.url("admin_grpc"), "back")
                    assert npu.infer(images).outputs["exit"].tolist() == right
                else:
                    assert admin("keep") == (200, {})
                    assert npu.infer(images).outputs["exit"].tolist() == [0] * 12
            (s.model.folder / "program.bin").write_bytes(b"?")
            assert admin("try")[0] == 400
            assert npu.infer(images).outputs["exit"].tolist() == [0] * 12, "what is broken changes nothing"


def _over_grpc(place: str, step: str) -> None:
    asked = message("RepositoryModelLoadRequest")(model_name=NAME)
    asked.parameters["step"].string_param = step
    with grpc.insecure_channel(place) as channel:
        call = channel.unary_unary(f"/{SERVICE}/RepositoryModelLoad")
        call(asked.SerializeToString(), timeout=PATIENCE_S)


def test_a_trial_that_nobody_ends_goes_back() -> None:
    loads = list[bool]()

    class Loaded:
        name = "m"

        def load(self, *, back: bool = False) -> None:
            loads.append(back)

    async def apart(work: Any) -> None:
        work()

    async def main() -> None:
        import asyncio

        some = Trials(apart)
        await some.load(Loaded(), "try")  # type: ignore[arg-type]
        some.check(Call("m", parameters={"trial": True}))
        with pytest.raises(ModelUnavailableError):
            some.check(Call("m"))
        await asyncio.sleep(trials.LONGEST_S + 1)
        assert loads == [False, True]
        some.check(Call("m"))

    virtual_time.run(main())
