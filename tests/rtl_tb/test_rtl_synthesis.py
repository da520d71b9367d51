import pytest

from fluidnpu.dse.resources.logic import POOL, POOL_BIT, STRIPE_BIT, unit_logic
from fluidnpu.dse.resources.memories import block_rams
from fluidnpu.rtl_tb.synthesis.data_plane import CONTROL_UNIT_CLAIM_PCT, ENGINE, FAMILIES
from fluidnpu.rtl_tb.synthesis.yosys import synthesise


@pytest.mark.long
@pytest.mark.parametrize("family", ["xc7", pytest.param("xcup", marks=pytest.mark.matrix)])
def test_the_engine_is_as_small_as_the_paper_says(family: str) -> None:
    _, luts, _ = FAMILIES[family]
    cells = synthesise(ENGINE, {"BMax": 8, "Layers": 54}, family)
    assert 0 < 100 * cells.lut / luts < CONTROL_UNIT_CLAIM_PCT
    assert cells.ramb18 == 1
    assert cells.dsp == 0


@pytest.mark.long
def test_a_bit_of_a_striped_master_costs_what_the_estimate_says() -> None:
    """Three masters read, one writes; 512 bits over four ports."""
    parts = [synthesise(top, {}, "xcup") for top in 3 * ["axi_read_stripe"] + ["axi_write_stripe"]]
    assert sum(cells.lut + cells.lutram for cells in parts) / 512 == pytest.approx(STRIPE_BIT["lut"], rel=0.01)
    assert sum(cells.ff for cells in parts) / 512 == pytest.approx(STRIPE_BIT["ff"], rel=0.02)
    assert all(cells.ramb18 == cells.dsp == 0 for cells in parts)


@pytest.mark.long
@pytest.mark.parametrize("out_words", [8, 16, 32])
def test_a_pool_costs_what_the_estimate_says(out_words: int) -> None:
    """The constants come from 8 and 32 words; 16 were not looked at."""
    parameters = {"BMax": 8, "OutWords": out_words, "Windows": 64 // out_words, "Rows": 3584 // out_words}
    cells = synthesise("fluidnpu_output_pool", parameters, "xc7")
    assert cells.lut == pytest.approx(POOL["lut"] + 16 * out_words * POOL_BIT["lut"], rel=0.05)
    assert cells.ff == pytest.approx(POOL["ff"] + 16 * out_words * POOL_BIT["ff"], rel=0.05)
    assert cells.ramb18 == block_rams(parameters["Rows"], 16 * out_words)


@pytest.mark.long
@pytest.mark.parametrize(
    "out_words", [8, pytest.param(16, marks=pytest.mark.matrix), pytest.param(32, marks=pytest.mark.matrix)]
)
@pytest.mark.parametrize("dsp", [0, 1])
def test_an_activation_unit_costs_what_the_estimate_says(out_words: int, dsp: int) -> None:
    unit = synthesise("fluidnpu_activation", {"OutWords": out_words, "Dsp": dsp}, "xc7")
    wide = {"OutWords": out_words, "PortWords": out_words}
    loader = synthesise("fluidnpu_piece_loader", wide, "xc7")
    with_spread, without = (synthesise("fluidnpu_residual_reader", wide | {"Spreads": on}, "xc7") for on in (1, 0))
    lut, ff = (float(unit_logic(kind, out_words, dsp * out_words)) for kind in ("lut", "ff"))
    every = (unit, loader, with_spread)
    assert sum(one.lut + one.lutram for one in every) - without.lut - without.lutram == pytest.approx(lut, rel=0.05)
    assert sum(one.ff for one in every) - without.ff == pytest.approx(ff, rel=0.05)
    assert (unit.dsp, unit.ramb18) == (dsp * out_words, out_words)
