import pytest

from fluidnpu.rtl_tb import sources
from fluidnpu.rtl_tb.proving.mutation import BATCHING, Mutant, campaign, explain, judge, mutants

FIRST = "fluidnpu_batching_engine.sv"


def test_mutants_are_one_change_each() -> None:
    for file in BATCHING:
        text = sources()[file]
        every = list(mutants(text))
        assert len(every) > 10
        for mutant in every:
            changed = mutant.apply(text)
            assert changed != text
            differ = [
                i for i, (a, b) in enumerate(zip(text.splitlines(), changed.splitlines(), strict=True), 1) if a != b
            ]
            assert differ == [mutant.line]


@pytest.mark.long
def test_a_harmless_change_survives_and_is_not_explained() -> None:
    text = sources()["fluidnpu_batching_engine.sv"]
    assert judge("fluidnpu_batching_engine.sv", text + "// more\n") == "survived"
    assert explain("fluidnpu_batching_engine.sv", text, Mutant(text.index("always_comb"), 1, "a", "b")) == ""


@pytest.mark.long
@pytest.mark.parametrize(
    "file", [file if file == FIRST else pytest.param(file, marks=pytest.mark.matrix) for file in BATCHING]
)
def test_a_sample_of_mutants_is_killed(file: str) -> None:
    """The whole campaign is `python -m fluidnpu.rtl_tb.proving.mutation`."""
    tally = campaign(file, sample=3, seed=2)
    text = sources()[file]
    gaps = [mutant for mutant in tally.survivors if not explain(file, text, mutant)]
    assert not gaps, gaps
