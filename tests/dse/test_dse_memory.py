"""Which memory a question is answered with: the one that was named, or the first that an array fits with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluidnpu.boards import list_boards, load_board
from fluidnpu.dse import CORES, FitError, explore
from fluidnpu.dse.resources import Cut, lay
from fluidnpu.models import LayerShape, Window, Workload

WORK = Workload(
    name="one",
    layers=(
        LayerShape(name="conv", r=64, p=64, c=64, window=Window(kernel=(1, 1), out=(8, 8), channels=64)),
    ),
)  # fmt: skip
SMALL = load_board("ultra96v2")
WIDE_FIRST = replace(SMALL, dram=(SMALL.dram[1], SMALL.dram[0]))  # ports of 512 bits take more LUTs than it has


@pytest.mark.parametrize("model", ["exact", "paper"])
@pytest.mark.parametrize("core", CORES)
def test_where_none_is_named_the_first_that_fits_is_taken_and_a_note_says_so(model: str, core: str) -> None:
    assert [memory.name for memory in WIDE_FIRST.dram] == ["ps_striped", "ps"]
    exploration = explore(WORK, WIDE_FIRST, b_max=1, model=model, core=core)
    assert (exploration.design.memory, exploration.design.port_bits, exploration.design.stripes) == ("ps", 128, 1)
    assert exploration.notes[0].startswith(
        "memory 'ps' was chosen; with 'ps_striped', the first of board 'ultra96v2', no array"
    )
    assert exploration.cautions == exploration.notes[:1]
    assert exploration.faster_memories == []  # none that would be refused
    assert exploration.design.facts == exploration.question.facts == WIDE_FIRST
    named = explore(WORK, WIDE_FIRST, b_max=1, model=model, core=core, memory="ps")
    assert named.design == exploration.design
    assert named.notes == exploration.notes[1:]


@pytest.mark.parametrize("model", ["exact", "paper"])
def test_one_that_was_named_is_refused_with_what_costs_most_and_what_fits(model: str) -> None:
    with pytest.raises(FitError, match=r"\d+ LUTs \(an estimate of \d+, data plane: \d+\), and it has 70560") as caught:
        explore(WORK, WIDE_FIRST, b_max=1, model=model, memory="ps_striped")
    assert str(caught.value).endswith(
        "; memory 'ps_striped' gives a master 512 bits, and with 'ps', which gives 128, arrays fit"
    )
    assert caught.value.resource == "lut"
    assert "\n" not in str(caught.value)


def test_where_no_memory_serves_the_refusal_is_that_of_the_first() -> None:
    tiny = replace(WIDE_FIRST, ramb36=8)
    with pytest.raises(FitError, match=r"they need \d+ RAMB18 \([a-z ]+: \d+\) beside .* and it has 16$"):
        explore(WORK, tiny, b_max=1)


def test_a_first_memory_that_fits_needs_no_note() -> None:
    exploration = explore(WORK, SMALL, b_max=1)
    assert exploration.design.memory == SMALL.dram[0].name
    assert not any("was chosen" in note for note in exploration.notes)


def test_chains_that_no_columns_were_asked_for_are_told() -> None:
    unknown = replace(SMALL, dsp_columns=(), sources={})
    sentence = "so the chains of the reference core were not checked against them"
    exploration = explore(WORK, unknown, b_max=1, core="rtl")
    assert exploration.cautions == exploration.notes[:1]
    assert exploration.cautions[0].endswith(sentence)
    for board, core in ((unknown, "hls"), (SMALL, "rtl")):
        assert not any(sentence in note for note in explore(WORK, board, b_max=1, core=core).notes)


@pytest.mark.parametrize("name", list_boards())
def test_every_shipped_board_has_an_answer_whose_chains_lie_in_its_columns(name: str) -> None:
    board = load_board(name)
    exploration = explore(WORK, board, b_max=1, core="rtl")
    array = exploration.design.array
    cut = Cut(array.piece, array.broken)
    assert len(lay(board.dsp_columns, array.t_p, array.t_c, cut)) >= array.t_c
    assert exploration.design.memory == board.dram[0].name
