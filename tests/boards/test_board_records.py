"""A board's record is what a design carries of it: read back strictly, and the same board again."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fluidnpu.boards import Board, BoardFileError, Dram, list_boards, load_board


def record(name: str = "zc706") -> dict[str, Any]:
    """Return a shipped board's record as a file has it."""
    plain: dict[str, Any] = json.loads(json.dumps(load_board(name).record()))
    return plain


@pytest.mark.parametrize("name", list_boards())
def test_a_record_is_the_board_again_with_its_sensors(name: str) -> None:
    board = Board.from_dict(record(name))
    assert board == load_board(name)
    assert board.digest == load_board(name).digest == record(name)["digest"]


def test_a_field_that_boards_get_later_leaves_the_digest_of_those_without_it() -> None:
    """Designs carry records and their digests: a record of today must be read by every later version."""
    sizes: dict[str, Any] = {
        "dsp": 8,
        "ramb36": 4,
        "uram288": 0,
        "lut": 100,
        "ff": 200,
        "axi_ports": 1,
        "axi_port_bits": 64,
    }
    names: dict[str, Any] = {"name": "n", "title": "t", "part": "p", "board_part": "b", "family": "zynq7000"}
    board = Board(**names, **sizes, clock_hz=10**8, dram=(Dram(name="ps", bytes_per_s=10**9),))
    assert board.digest == "b1b514da8896b77ae5660912e14843dc7df459f7d6d8fc71c63403b323822173"


def test_a_better_citation_leaves_the_digest() -> None:
    board = load_board("zc706")
    told = replace(board, title="another", sources={**board.sources, "dsp": "a better document"}, power=None)
    assert told.digest == board.digest
    assert replace(board, lut=board.lut + 1).digest != board.digest


def test_a_sensor_that_changes_leaves_the_digest() -> None:
    raw = record()
    raw["sensors"][0]["chip"] = "another"
    board = Board.from_dict(raw)
    assert board.sensors[0].chip == "another"
    assert board.digest == load_board("zc706").digest


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dsp": 1}, "its facts: its digest must be that of its other fields"),
        ({"digest": None}, "its facts: its digest must be that of its other fields"),
        ({"title": ""}, "its facts: title must be a text"),
        ({"schema": 7}, "its facts must have schema = 1, not 7"),
        ({"colour": "green"}, "its facts must have exactly the fields of a board; it has the unknown colour"),
        ({"dram": []}, "its facts: a board needs at least one dram"),
        ({"dram": {"ps": {}}}, "its facts: dram must be a list of objects with a name"),
        ({"sensors": [{"chip": "x"}]}, "its facts: sensors must be a list of objects with a name"),
    ],
)
def test_a_record_that_is_wrong_is_one_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BoardFileError) as caught:
        Board.from_dict(record() | change, "its facts")
    assert str(caught.value).startswith(says)


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(BoardFileError, match="must be an object with the fields of a board, not 3"):
        Board.from_dict(3)
