"""The published OpenAPI document describes the server: schemathesis asks what it allows, and more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_worlds import HOUR_NS, PATIENCE_S, world
from hypothesis import HealthCheck, given, settings
from oip_worlds import NAME, Served, bundle_of, patient, served

from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.host.oip.wire.parameters import PARAMETERS
from fluidnpu.host.serving import ModelOptions, Models

SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = patient(shared_bytes=1 << 20)
    with served(tmp_path_factory.mktemp("openapi"), limits=limits, surfaces={"grpc": None, "admin": 0}) as one:
        yield one


def ask(url: str, examples: int, only: str = "") -> set[tuple[str, str]]:
    """Every operation on a path with a word, each with this many cases; the operations that were asked."""
    import schemathesis  # which takes longer to load than any test of this file

    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    asked: set[tuple[str, str]] = set()
    for found in schema.get_all_operations():
        described: Any = found  # a result of the library's own; `ok` raises for a bad document
        operation = described.ok()
        if only not in operation.path:
            continue

        @settings(max_examples=examples, **SETTINGS)  # type: ignore[arg-type]
        @given(case=operation.as_strategy())
        def one(case: Any) -> None:
            answer = case.call_and_validate(
                base_url=url, timeout=PATIENCE_S, excluded_checks=[schemathesis.checks.not_a_server_error]
            )
            assert answer.status_code not in (500, 501)  # 503 and 504 are answers: shed, or its own timeout passed

        one()
        asked.add((operation.method.upper(), operation.path))
    return asked


def test_the_document_holds(s: Served) -> None:
    asked = ask(s.url, 3)
    assert ("POST", "/v2/models/{name}/infer") in asked
    assert len(asked) >= 21


def test_the_document_of_the_admin_surface_holds(s: Served) -> None:
    admin = s.server.url("admin")
    paths = {path for word in ("/exits", "/tenants", "/feedback") for _, path in ask(admin, 10, word)}
    assert paths == {f"/v2/models/{{name}}/{word}" for word in ("exits", "tenants", "feedback")}
    status, _, headers = s.exchange("DELETE", f"/v2/models/{NAME}/tenants", b"", "admin")
    assert (status, {*headers["allow"].split(", ")}) == (405, {"GET", "HEAD", "POST"})
    assert s.exchange("HEAD", f"/v2/models/{NAME}/tenants", b"", "admin")[0] == 200
    body = s.exchange("GET", "/openapi.json", b"", "admin")[1]
    assert json.loads(body)["components"]["schemas"]["TenantsChange"]["properties"]["tenants"]["properties"] == {}


@pytest.mark.long
def test_the_document_holds_for_many_cases(s: Served) -> None:
    ask(s.url, 200)


def test_the_document_of_versions_holds(tmp_path: Path) -> None:
    w = world(3, loaded=False)
    for version in ("1", "2"):
        bundle_of(w, tmp_path / NAME / version)
    models = Models({NAME: tmp_path / NAME}, ModelOptions(slo_ns=HOUR_NS))
    with in_background(models, ServeOptions(http=0, grpc=None, admin=0)) as server:
        asked = ask(server.url("admin"), 10, "/shares")
    assert asked == {(verb, "/v2/models/{name}/shares") for verb in ("GET", "POST")}


def test_the_document_has_the_table_of_parameters(s: Served) -> None:
    document = s.call("GET", "/openapi.json")[1]
    said = document["components"]["schemas"]["InferRequest"]["properties"]["parameters"]["properties"]
    assert list(said) == list(PARAMETERS)
    own = ("tenant", "criteria")  # which follow from what is served, and from what a pattern can say
    assert {name: said[name] for name in said if name not in own} == {
        name: one.schema for name, one in PARAMETERS.items() if name not in own
    }


@pytest.mark.parametrize("key", ["order-1", " ~", "", "k" * 257, "é", "\n", "a\x7f"])
def test_a_key_is_good_where_its_schema_says_so(key: str) -> None:
    known = PARAMETERS["idempotency_key"]
    assert known.good(key) == (re.fullmatch(known.schema["pattern"][1:-1], key) is not None and len(key) <= 256)


def test_the_example_is_served(s: Served) -> None:
    document = s.call("GET", "/openapi.json")[1]
    example = document["components"]["schemas"]["InferRequest"]["examples"][0]
    status, said = s.call("POST", "/v2/models/small/infer", json.dumps(example).encode())
    assert status == 200
    assert said["outputs"][0]["name"] == "label"
