"""Board files: every fact has a source, and every way of getting one wrong ends in one sentence."""

import sys
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest

from fluidnpu.boards import Board, BoardFileError, Dram, Sensor, list_boards, load_board
from fluidnpu.boards.board import parse_board
from fluidnpu.boards.fields import DRAM_FIELDS, FIELDS, SENSOR_FIELDS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def text_of(name: str) -> str:
    return resources.files("fluidnpu.boards").joinpath(f"{name}.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list_boards())
def test_every_fact_has_a_source_and_every_fit_says_so(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    given = set(tomllib.loads(text_of(name)))
    assert set(board.sources) == {fact for fact in board.facts if fact.split(".")[0] in given}
    assert not board.unsourced
    for fact in {"paper_words_per_cycle", "paper_memory_bits"} & given:
        assert "fit" in board.sources[fact]


def published() -> list[Board]:
    """The boards of the paper, which state what its model counts."""
    return [board for board in map(load_board, list_boards()) if "paper_memory_bits" in board.sources]


def test_the_memory_that_the_paper_counts_is_the_rounded_capacity() -> None:
    assert load_board("zc706").paper_memory_bits == int(19.2 * 2**20)
    assert load_board("zcu104").paper_memory_bits == int(38.0 * 2**20)
    assert [board.name for board in published()] == ["zc706", "zcu104"]
    for board in published():
        real = board.ramb36 * 36 * 1024 + board.uram288 * 288 * 1024
        assert (
            0.997 < real / board.paper_memory_bits < 1.0
        )  # the paper's figure is rounded up: no design point may rely on it


def test_two_ports_carry_the_fitted_words() -> None:
    for board in published():
        assert 2 * board.axi_port_bits // 16 == board.paper_words_per_cycle


def test_a_users_file_loads_like_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text_of("zc706").replace('name = "zc706"', 'name = "mine"'))
    board = load_board(path)
    assert (board.name, board.dsp) == ("mine", 900)
    assert board.digest != load_board("zc706").digest
    assert load_board(str(path)) == board
    path.write_text(path.read_text(), encoding="utf-8-sig")  # with a byte-order mark, as editors on Windows write
    assert load_board(path) == board


def test_sources_are_optional_for_a_user_but_must_name_facts() -> None:
    text = text_of("zcu104")
    assert parse_board(text[: text.index("\n[sources]")]).sources == {}
    with pytest.raises(BoardFileError, match="name facts"):
        parse_board(text + '\ncolour = "green"\n')


def test_what_the_paper_model_counts_is_optional() -> None:
    text = "\n".join(line for line in text_of("zcu104").splitlines() if not line.startswith("paper_"))
    board, shipped = parse_board(text), load_board("zcu104")
    assert board.paper_words_per_cycle == shipped.paper_words_per_cycle
    assert board.paper_memory_bits == 312 * 36 * 1024 + 96 * 288 * 1024
    assert board.unsourced == shipped.unsourced == ()
    bare = parse_board(text[: text.index("\n[sources]")])
    assert bare.unsourced[:3] == ("part", "board_part", "family")
    assert {"dsp", "dram.ps", "dram.ps.sustained_pct"} < set(bare.unsourced) < set(bare.facts)


def test_every_field_has_its_meaning() -> None:
    assert [f.name for f in fields(Board)] == [name for name in FIELDS if name != "schema"]
    assert [f.name for f in fields(Dram) if f.name != "name"] == list(DRAM_FIELDS)
    assert {f.name for f in fields(Sensor) if f.name != "name"} == set(SENSOR_FIELDS)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("dsp = 900", "", "lacks dsp .DSP slices of the device"),
        ("dsp = 900", "dsp = 900\ndps = 1", "unknown dps"),
        ("dsp = 900", "dsp = -900", "dsp must be a whole number in 1.."),
        ("dsp = 900", "dsp = 9e2", "dsp must be a whole number"),
        ("dsp = 900", "dsp = true", "dsp must be a whole number"),
        ("dsp = 900", "dsp = 900_000_000", "dsp must be a whole number"),
        ("dsp = 900", "dsp = ", "must be TOML"),
        ("schema = 1", "schema = 7", "schema = 1, not 7"),
        ("schema = 1\n", "", "must begin with the line 'schema = 1'"),
        ("stripes = 4", "stripe = 4", "may have bytes_per_s, side, port_bits, stripes, sustained_pct, not stripe"),
        ("paper_words_per_cycle = 8", "paper_words_per_cycle = -8", "paper_words_per_cycle must be a whole number"),
        ('family = "zynq7000"', 'family = "virtex"', "family must be one of"),
        ('part = "xc7z045ffg900-2"', "part = 7", "part must be a text"),
        ('name = "zc706"', 'name = "../x"', "name must be lower-case"),
        ("axi_port_bits = 64", "axi_port_bits = 96", "power of two"),
        ("bytes_per_s = 4_264_000_000", "bytes_per_s = -1", "bytes_per_s must be a whole number"),
        ('side = "ps"', 'side = "north"', "side must be 'ps' or 'pl'"),
        ('side = "ps"', "", "dram 'ps_striped' lacks side .'ps' where a controller of the processing system"),
        ('dsp = "DS190', 'dsp = 3 #"DS190', "source of dsp must be a text"),
        ('chip = "ucd90120"', "", "sensor 'rails' lacks chip .the sensor as Linux names it"),
        ('chip = "ucd90120"', "chip = 7", "sensor 'rails': chip must be a text, not 7"),
        ("address = 0x65", "address = 0x99", "sensor 'rails': address must be a whole number in 8..119, not 153"),
        ("address = 0x65", "at = 0x65", "may have chip, address, covers, rails, not at"),
        ('covers = "rails"', 'covers = "all"', "covers must be 'board' or 'rails', not 'all'"),
        ('covers = "rails"', 'covers = "rails"\nrails = "vout1"', "rails must be a list of lists of labels"),
        ('covers = "rails"', 'covers = "rails"\nrails = [["a", "b", "c"]]', "a rail must be the label of its watts"),
        ("[sensors.rails]", "[[sensors]]", "sensors must be tables, such as .sensors.supply."),
    ],
)
def test_a_wrong_field_is_named_in_one_sentence(old: str, new: str, says: str) -> None:
    text = text_of("zc706")
    assert old in text
    with pytest.raises(BoardFileError, match=says) as caught:
        parse_board(text.replace(old, new, 1), source="mine.toml")
    message = str(caught.value)
    assert "mine.toml" in message
    assert "\n" not in message


def test_unknown_boards_and_missing_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(BoardFileError, match="kv260, pynqz2, ultra96v2, zc706, zcu102, zcu104 or the path"):
        load_board("zc760")
    with pytest.raises(BoardFileError, match="there is none"):
        load_board("nowhere/board.toml")
    with pytest.raises(BoardFileError):
        load_board(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BoardFileError, match="UTF-8"):
        load_board(tmp_path / "binary.toml")


def test_sensors_change_no_design() -> None:
    """The digest of a board is in its designs' files, and a sensor does not make them others."""
    text = text_of("zc706")
    start, end = text.index("\n[sensors.rails]"), text.index("\n[sources]")
    lines = (text[:start] + text[end:]).splitlines()
    bare = parse_board("\n".join(line for line in lines if not line.startswith('"sensors.')))
    assert bare.digest == load_board("zc706").digest
    assert (bare.sensors, len(load_board("zc706").sensors)) == ((), 1)
    assert "sensors.rails" in load_board("zc706").facts


def test_a_board_is_frozen() -> None:
    board = load_board("zc706")
    with pytest.raises(AttributeError):
        board.dsp = 1  # type: ignore[misc]
    assert isinstance(board, Board)
    assert board.ramb18 == 1090
