"""Calls beside inference: bodies are what schemas say; a front refuses by type what it cannot do."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.host.errors import ProtocolError, UnsupportedError
from fluidnpu.host.fleet import FleetFront
from fluidnpu.host.oip.front import BoardAdmin, ModelAdmin, ModelRepository
from fluidnpu.host.oip.inference import InferenceService
from fluidnpu.host.oip.operations import OPERATIONS, Operation, operations_of
from fluidnpu.host.oip.wire.bodies import (
    FLEET,
    LONGEST_WHY,
    SERVER,
    Body,
    ExitsChange,
    Feedback,
    IndexQuery,
    LoadOrder,
    SharesChange,
    TenantsChange,
    parse_body,
    schema_of,
)

BODIES: tuple[type[Body], ...] = (IndexQuery, LoadOrder, ExitsChange, TenantsChange, SharesChange, Feedback)
NAMES = ("ready", "step", "guard_ms", "thresholds", "why", "board", "criteria", "tenants", "shares", "back", "truths")
NUMBERS = st.one_of(st.integers(-2, 3), st.sampled_from([600_000, 600_001, 0.5, 1.0, 1.5, -1.0]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(["", "try", "keep", "x" * (LONGEST_WHY + 1)]))
TRUTHS = st.fixed_dictionaries({"request": NUMBERS, "label": NUMBERS}, optional={"more": NUMBERS})
VALUES: st.SearchStrategy[Any] = st.one_of(
    SCALARS,
    st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(SCALARS, st.just({})), max_size=2),
    st.lists(st.one_of(TRUTHS, SCALARS), max_size=2),
)


def answering(*protocols: type) -> Any:
    """An object with the methods of protocols, each of which returns its name and what it was given."""

    def method(name: str) -> Any:
        async def call(self: Any, *given: Any) -> tuple[Any, ...]:
            return name, *given

        return call

    names = [name for protocol in protocols for name in vars(protocol) if not name.startswith("_")]
    return type("Answering", (), {name: method(name) for name in names})()


SERVER_FRONT, FLEET_FRONT = answering(ModelRepository, ModelAdmin), answering(ModelRepository, BoardAdmin)


def perform(operation: Operation, front: Any, **asked: Any) -> Any:
    return asyncio.run(operation.perform(front, "m", asked, "10.0.0.7"))


def row(method: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.method == method)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(BODIES),
    place=st.sampled_from([SERVER, FLEET]),
    asked=st.dictionaries(st.sampled_from([*NAMES, "x"]), VALUES, max_size=2),
    own=VALUES,
    which=st.integers(0, 2),
)
def test_a_body_is_parsed_exactly_where_its_schema_allows_it(
    kind: type[Body], place: str, asked: dict[str, Any], own: Any, which: int
) -> None:
    names = [name for name in NAMES if name in kind.__annotations__]
    for body in (asked, {names[which % len(names)]: own}):
        try:
            parsed = parse_body(kind, body, place)
        except ProtocolError as error:
            assert not jsonschema_rs.is_valid(schema_of(kind, place), body), str(error)  # noqa: PT017
        else:
            assert jsonschema_rs.is_valid(schema_of(kind, place), body)
            assert all(getattr(parsed, name) == body[name] for name in names if name in body)


@pytest.mark.parametrize(
    ("kind", "place", "body", "sentence"),
    [
        (ExitsChange, SERVER, {"thresholds": {"a": "much"}}, "thresholds of 'a' must be a number in 0..1, or null"),
        (ExitsChange, SERVER, {"why": "so"}, "a change of exits must have thresholds, an object with a number"),
        (ExitsChange, SERVER, {"thresholds": {"a": 1}, "board": "b"}, "may have thresholds and why, not board"),
        (LoadOrder, SERVER, {"step": 7}, "step must be one of try, keep, back, not 7"),
        (LoadOrder, FLEET, {"guard_ms": -1}, "guard_ms must be a whole number in 0..600000, not -1"),
        (LoadOrder, FLEET, {"step": "try"}, "the parameters of a load may have guard_ms, not step"),
        (SharesChange, SERVER, {}, "a change of shares must have either shares or back"),
        (Feedback, SERVER, {"truths": [{"request": 1, "label": 2}, 3]}, r"truths\[1\] must be an object with request"),
    ],
)
def test_a_wrong_body_is_one_sentence(kind: type[Body], place: str, body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        parse_body(kind, body, place)


def test_every_operation_is_a_method_of_its_protocol() -> None:
    for operation in OPERATIONS:
        assert hasattr(operation.needs or ModelRepository, operation.method), operation.method
        assert (operation.needs is None) == (not operation.elsewhere), operation.method
    methods = {operation.method for operation in OPERATIONS}
    for protocol in (ModelAdmin, BoardAdmin):
        assert {name for name in vars(protocol) if not name.startswith("_")} <= methods


def test_a_server_has_models_and_a_fleet_has_boards() -> None:
    for kind, has, lacks in ((InferenceService, ModelAdmin, BoardAdmin), (FleetFront, BoardAdmin, ModelAdmin)):
        assert issubclass(kind, has)
        assert not issubclass(kind, lacks)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.method)
def test_what_a_front_cannot_do_is_refused_in_its_own_words(operation: Operation) -> None:
    for front in (SERVER_FRONT, FLEET_FRONT):
        if not operation.is_of(front):
            with pytest.raises(UnsupportedError, match=operation.elsewhere):
                perform(operation, front)


def test_a_surface_offers_what_its_front_can_do() -> None:
    def methods(front: Any, *, admin: bool) -> set[str]:
        return {operation.method for operation in operations_of(front, admin=admin)}

    assert methods(SERVER_FRONT, admin=False) == {"feedback"}
    assert methods(FLEET_FRONT, admin=False) == set()
    assert methods(FLEET_FRONT, admin=True) == {"load", "exits", "change_exits", "act"}
    assert methods(SERVER_FRONT, admin=True) == {operation.method for operation in OPERATIONS} - {"act"}


def test_an_operation_gets_its_parsed_body_and_leaves_one_line(caplog: pytest.LogCaptureFixture) -> None:
    kept, guarded = {"parameters": {"step": "keep"}}, {"parameters": {"guard_ms": 2.0}}
    with caplog.at_level(logging.WARNING):
        assert perform(row("load"), SERVER_FRONT, **kept) == ("load", "m", LoadOrder(step="keep"))
        assert perform(row("load"), FLEET_FRONT, **guarded) == ("load", "m", LoadOrder(guard_ms=2))
        assert perform(row("act"), FLEET_FRONT, act="drain") == ("act", "m", "drain")
        assert perform(row("tenants"), SERVER_FRONT) == ("tenants", "m")
        with pytest.raises(ProtocolError, match="parameters must be an object, not a list of 1"):
            perform(row("load"), SERVER_FRONT, parameters=[1])
        with pytest.raises(UnsupportedError, match="may have step, not config"):
            perform(row("load"), SERVER_FRONT, parameters={"config": "{}"})
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:3] == [
        "load of model 'm' by 10.0.0.7",
        "load of model 'm' by 10.0.0.7",
        "drain of board 'm' by 10.0.0.7",
    ]
    assert [line.partition(" failed")[0] for line in lines[3:]] == ["load of model 'm' by 10.0.0.7"] * 2


def test_the_page_names_every_call() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "calls.md").read_text(encoding="utf-8")
    assert [one.path for one in OPERATIONS if f"`{one.verb} {one.path}`" not in page] == []
