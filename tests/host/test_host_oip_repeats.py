"""A repeat with the same idempotency key gets the first answer; another content under it is refused."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import virtual_time
from oip_worlds import NAME, served

from fluidnpu.host.errors import ConflictError, GaveUpError
from fluidnpu.host.oip.repeats import Repeats, content_of
from fluidnpu.host.oip.wire.calls import Call, ModelAnswer
from fluidnpu.scheduler.tenants import Tenancy, Tenant


def call(value: int = 0, id: str = "", **parameters: object) -> Call:
    return Call("m", id=id, inputs={"x": np.full((1, 2), value, np.uint8)}, parameters=parameters)


class Work:
    """Counts how often it is begun."""

    def __init__(self, seconds: float = 0.0, failures: int = 0) -> None:
        self.begun = self.cancelled = 0
        self._seconds, self._failures = seconds, failures

    async def __call__(self) -> ModelAnswer:
        self.begun += 1
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.begun <= self._failures:
            raise GaveUpError("the device")
        return ModelAnswer("m", "1", "", {"y": np.full(4, self.begun)}, {})


def test_a_repeat_is_worked_on_once_and_carries_its_own_id() -> None:
    async def main() -> None:
        repeats, work = Repeats(), Work(0.01)
        first, second = await asyncio.gather(*(repeats.once("k", call(id=one), work) for one in ("a", "b")))
        third = await repeats.once("k", call(id="c", slo_ms=1.0, timeout=5), work)  # less time is left to it
        assert [one.id for one in (first, second, third)] == ["a", "b", "c"]
        assert (work.begun, repeats.hits) == (1, 2)
        await repeats.once("other", call(), work)
        assert work.begun == 2

    virtual_time.run(main())


def test_a_key_belongs_to_one_content() -> None:
    async def main() -> None:
        repeats = Repeats()
        await repeats.once("k", call(), Work())
        for other in (call(1), call(criteria="confidence > 0.5"), Call("m", inputs={"x": np.zeros((2, 1), np.uint8)})):
            assert content_of(other) != content_of(call())
            with pytest.raises(ConflictError, match="must belong to one request, and 'k' came before"):
                await repeats.once("k", other, Work())

    virtual_time.run(main())


def test_errors_are_not_kept_and_work_that_nobody_wants_ends() -> None:
    async def main() -> None:
        repeats, work = Repeats(), Work(failures=1)
        with pytest.raises(GaveUpError):
            await repeats.once("k", call(), work)
        assert (await repeats.once("k", call(), work)).outputs["y"][0] == 2
        long = Work(5.0)
        waits = [asyncio.ensure_future(repeats.once("l", call(), long)) for _ in range(2)]
        await asyncio.sleep(0.01)
        waits[0].cancel()
        await asyncio.sleep(0.01)
        assert long.begun > long.cancelled, "one still waits"
        waits[1].cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert long.cancelled == 1

    virtual_time.run(main())


def test_the_oldest_answers_are_forgotten_by_number_and_by_size() -> None:
    async def main() -> None:
        for repeats in (Repeats(entries=3), Repeats(most_bytes=3 * 40)):
            work = Work()
            for key in "abcda":
                await repeats.once(key, call(), work)
            assert work.begun == 5, "the first had gone"
            await repeats.once("d", call(), work)
            assert work.begun == 5

    virtual_time.run(main())


def test_a_served_model_answers_a_repeat_from_its_cache(tmp_path: Path) -> None:
    with served(tmp_path) as s:
        image = s.w.images(2)
        path = f"/v2/models/{NAME}/infer"
        asked = [s.request(image[0], id=one, parameters={"idempotency_key": "k"}) for one in "ab"]
        (_, first), (_, second) = (s.call("POST", path, one) for one in asked)
        assert second == {**first, "id": "b"}
        status, said = s.call("POST", path, s.request(image[1], parameters={"idempotency_key": "k"}))
        assert (status, said["type"]) == (409, "ConflictError")
        status, said = s.call("POST", path, s.request(image[1], parameters={"idempotency_key": ""}))
        assert status == 400
        assert "idempotency_key" in said["error"]
        statistics = s.call("GET", f"/v2/models/{NAME}/stats")[1]["model_stats"][0]
        assert statistics["inference_stats"]["cache_hit"]["count"] == 1
        assert statistics["inference_count"] == 1
        assert json.dumps(statistics)


def test_a_key_is_its_tenants_and_ends_with_the_load_of_the_model(tmp_path: Path) -> None:
    tenancy = Tenancy(tenants=(Tenant(name="doors", share=0.5), Tenant(name="cameras", share=0.25)))
    with served(tmp_path, tenancy=tenancy) as s:
        path = f"/v2/models/{NAME}/infer"
        for tenant, image in zip(("doors", "cameras", "doors"), s.w.images(3)[[0, 1, 0]], strict=True):
            body = s.request(image, parameters={"idempotency_key": "order-1", "tenant": tenant})
            assert s.call("POST", path, body)[0] == 200
        s.model.load()  # perhaps with other thresholds or weights
        assert s.call("POST", path, body)[0] == 200
        statistics = s.call("GET", f"/v2/models/{NAME}/stats")[1]["model_stats"][0]
        assert statistics["inference_stats"]["cache_hit"]["count"] == 1
        assert statistics["inference_count"] == 3
