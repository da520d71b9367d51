"""Every field of descriptor, layer and tile at its ends, every RAM beyond a power of two: on the RTL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluidnpu.dse.hardware import InputRows
from fluidnpu.rtl_tb import SimulationError
from fluidnpu.rtl_tb.npu import extremes
from fluidnpu.rtl_tb.npu.extremes import EXTREMES, FIXED, FORMATS, NEARER, Extreme, every_layer_counts, met, wanted
from fluidnpu.rtl_tb.npu.layers import exact_cycles
from fluidnpu.rtl_tb.npu.world import LAYERS, LEAST, model_of

FIELDS = {(form, bits.name) for form, whole in FORMATS.items() for bits in whole.fields}


def test_every_field_is_met_at_its_ends() -> None:
    """A new field has no ends in any job until one is added, or a reason."""
    ends = met()
    assert set(ends) == FIELDS - set(FIXED)
    assert {key: ends[key] for key in ends} == {key: wanted(*key) for key in ends}


def test_nearer_ends_are_of_fields_and_have_reasons() -> None:
    assert set(NEARER) | set(FIXED) <= FIELDS
    assert all(reason for _, _, reason in NEARER.values())
    for (form, name), (least, most, _) in NEARER.items():
        low, high = FORMATS[form].field(name).limits
        assert (low, high) != (least, most), f"{name} of {form} is met at its ends: no reason is needed"
        assert low <= least <= most <= high


@pytest.mark.cpu(10, "33 jobs of up to 400,000 cycles")
def test_every_extreme_is_right() -> None:
    for extreme in EXTREMES:
        if not extreme.long:
            assert extreme.check() > 200


@pytest.mark.long
@pytest.mark.parametrize("extreme", [extreme for extreme in EXTREMES if extreme.long], ids=lambda extreme: extreme.name)
def test_a_long_extreme_is_right(extreme: Extreme) -> None:
    assert extreme.check() > 200


def test_layers_count_beyond_eight_bits() -> None:
    every_layer_counts()


def test_every_ram_is_filled_beyond_eight_bits() -> None:
    """The last entry of each RAM is used by some job, and more entries than a power of two."""
    model, layers = model_of(LEAST), [extreme.near.descriptor for extreme in EXTREMES if not extreme.long]
    parameters = model.parameters
    pooled = {(layer.pool_pitch, layer.pool_pitch * layer.pooled_hw[1]) for layer in layers if layer.pool_kernel}
    assert (parameters["PoolWindows"], parameters["PoolRows"]) in pooled
    assert parameters["PoolRows"] > 1 << 10
    ring = 4 * parameters["Sets"] * parameters["LineWords"]  # bytes
    rows = [InputRows.of(layer, LEAST.port_bytes) for layer in layers]
    assert max(row.sample_pitch for row in rows) > ring, "it goes round"
    assert parameters["Layers"] == LAYERS > 1 << 8
    assert max(value for (form, name), (_, value) in met().items() if (form, name) == ("tile", "beats")) == LEAST.t_r


def test_a_wrong_word_and_a_wrong_cycle_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extreme is able to fail."""
    extreme = next(extreme for extreme in EXTREMES if extreme.apart)
    monkeypatch.setattr(extremes, "scatter_output", lambda *_: 0)
    with pytest.raises(SimulationError, match="rows 2 GiB apart: memory must be the model's"):
        extreme.check()
    monkeypatch.undo()
    monkeypatch.setattr(extremes, "exact_cycles", lambda *given: replace(exact_cycles(*given), cycles=1))
    with pytest.raises(SimulationError, match="cycles must be the model's"):
        extreme.check()
