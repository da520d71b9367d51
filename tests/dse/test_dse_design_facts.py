"""A design carries its board: in the file, under the digest, through parts, and from files of before."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fluidnpu.boards import Board, Dram, Sensor, load_board
from fluidnpu.dse import Design, DesignError, DramModel, Point, build_design, explore
from fluidnpu.dse.exploration.memory import fitting
from fluidnpu.dse.question import Question
from fluidnpu.dse.testing import tiny_design
from fluidnpu.models import LayerShape, Window, Workload

ZC706 = load_board("zc706")
OURS = replace(ZC706, name="ours", dram=(Dram(name="here", bytes_per_s=10**9),), sources={})
WORK = Workload(name="one", layers=(LayerShape(name="conv", r=16, p=9, c=8),))
SMALL = Point(t_r=64, t_p=4, t_c=8)
OLD = Path(__file__).parent.parent / "reference" / "bundle_0.1" / "design.json"


def ours(**more: Any) -> Design:
    return build_design(WORK, replace(OURS, **more), SMALL, core="rtl", b_max=2)


def test_every_way_to_a_design_gives_it_its_board() -> None:
    assert ours().facts == OURS
    assert explore(WORK, OURS, b_max=1, model="paper", core="rtl").design.facts == OURS
    other = replace(WORK, name="other")
    mix = Question.of_mix([(WORK, 1.0), (other, 1.0)], OURS, b_max=1, model="paper", core="rtl")
    assert mix.facts == OURS
    whole = Design.joined([ours(), replace(ours(), network="other")])
    assert [whole.facts, whole.part(1).facts, whole.with_room(()).facts] == [OURS, OURS, OURS]
    assert fitting(mix) == ["here"]


def test_a_search_at_the_predicted_clock_leaves_the_board_as_it_came() -> None:
    """Else `build` with the same file would find another board."""
    window = Window(kernel=(3, 3), out=(4, 4), channels=1)
    work = replace(WORK, layers=(replace(WORK.layers[0], window=window),))
    fast = replace(ZC706, clock_hz=900_000_000)
    question = Question(workload=work, board=fast, b_max=1, model="exact")
    assert question.board.clock_hz < question.facts.clock_hz
    assert question.facts == fast


def test_a_file_has_the_whole_board_and_nothing_is_asked_by_name() -> None:
    design = ours(sensors=(Sensor(name="supply", chip="ina226", covers="board", address=0x40),))
    read = Design.loads(design.dumps())
    assert read == design
    assert read.known_facts.sensors[0].address == 0x40
    assert json.loads(design.dumps())["facts"]["dram"][0]["name"] == "here"
    assert read.dram == DramModel.of(OURS, "here", clock_hz=design.clock_hz) != DramModel.IDEAL


def test_the_digest_covers_the_facts_but_not_the_sensors() -> None:
    sensor = Sensor(name="supply", chip="ina226", covers="board")
    assert ours(lut=200_000).digest != ours().digest
    assert ours(sensors=(sensor,)).digest == ours().digest
    raw = json.loads(ours().dumps())
    raw["facts"]["sensors"] = [{"name": "supply", "chip": "ina226", "covers": "board"}]
    assert Design.loads(json.dumps(raw)).known_facts.sensors == (sensor,)
    raw["facts"]["lut"] += 1
    with pytest.raises(DesignError, match=r"mine\.json: facts: its digest must be that of its other fields"):
        Design.loads(json.dumps(raw), "mine.json")
    raw["facts"] = replace(OURS, lut=OURS.lut + 1).record()
    with pytest.raises(DesignError, match=r"mine\.json was changed by hand"):
        Design.loads(json.dumps(raw), "mine.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"board": "another"}, "facts must be those of board 'another', not of 'ours'"),
        ({"memory": "there"}, "memory of board 'ours' must be one of here, not 'there'"),
        ({"model": "measured"}, "a measured design must have no facts of a board, and it has those of 'ours'"),
        ({"schema": 2}, "schema must be 4, or 3 for an older file, not 2"),
    ],
)
def test_facts_belong_to_their_design(change: dict[str, Any], says: str) -> None:
    with pytest.raises(DesignError, match=says):
        replace(ours(), **change)


def test_networks_side_by_side_share_a_board_but_for_its_sensors() -> None:
    sensor = Sensor(name="supply", chip="ina226", covers="board")
    other = replace(ours(sensors=(sensor,)), network="other")
    assert len(Design.joined([ours(), other]).parts) == 2
    with pytest.raises(DesignError, match="differ in facts"):
        Design.joined([ours(), replace(ours(lut=200_000), network="other")])


def test_a_file_of_before_keeps_its_digest_and_gets_a_shipped_board_by_name() -> None:
    """Programs and bitstreams know the digest that the file has."""
    text = OLD.read_text(encoding="utf-8")
    design = Design.loads(text)
    assert (design.schema, design.facts) == (3, ZC706)
    assert design.digest == json.loads(text)["digest"]
    assert design.dumps() == text
    assert design.on(ZC706).digest != design.digest
    assert Design.loads(design.on(ZC706).dumps()) == design.on(ZC706)


@pytest.mark.parametrize("name", ["ours", "kv260"])
def test_a_file_of_before_with_a_board_of_ones_own_says_what_it_lacks(name: str) -> None:
    """The KV260 was a board of one's own then: what is shipped now need not be what was searched for."""
    old = replace(tiny_design(), board=name, schema=3)
    design = Design.loads(old.dumps())
    assert (design.facts, design.digest) == (None, old.digest)
    with pytest.raises(DesignError, match=f"carry the facts of its board '{name}'.* give --board FILE.toml"):
        _ = design.dram
    board = replace(OURS, name=name, dram=(Dram(name="ps", bytes_per_s=10**9),))
    assert design.on(board).dram.total_words > 0


def test_a_file_of_before_has_no_facts_of_a_memory_that_the_board_lacks() -> None:
    old = replace(tiny_design(), board="zc706", memory="gone", schema=3)
    assert Design.loads(old.dumps()).facts is None


def test_a_file_of_before_with_facts_is_refused() -> None:
    raw = json.loads(OLD.read_text(encoding="utf-8")) | {"facts": ZC706.record()}
    with pytest.raises(DesignError, match="exactly the fields of a design; missing or unknown: facts"):
        Design.loads(json.dumps(raw))


def test_facts_are_a_board() -> None:
    raw = json.loads(ours().dumps()) | {"facts": 3}
    with pytest.raises(DesignError, match=r"mine\.json: facts must be an object with the fields of a board, not 3"):
        Design.loads(json.dumps(raw), "mine.json")
    assert isinstance(ours().facts, Board)
