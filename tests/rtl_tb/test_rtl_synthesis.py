import pytest

from rtl_tb.data_plane_synthesis import CONTROL_UNIT_CLAIM_PCT, ENGINE, FAMILIES, synthesise


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_the_engine_is_as_small_as_the_paper_says(family: str) -> None:
    _, luts, _ = FAMILIES[family]
    cells = synthesise(ENGINE, {"BMax": 8, "Layers": 54}, family)
    assert 0 < 100 * cells.lut / luts < CONTROL_UNIT_CLAIM_PCT
    assert cells.ramb18 == 1
    assert cells.dsp == 0
