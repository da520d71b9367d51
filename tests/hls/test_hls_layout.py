"""Weights in every layout come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import Mode
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import LayoutError
from fluidnpu.hls.program import pack_weights, part_words, unpack_weights
from fluidnpu.models import LayerShape, Workload

WORKLOAD = Workload(name="any", layers=(LayerShape(name="one", r=4, p=4, c=4),))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_unpack_is_the_inverse_of_pack(data: st.DataObject) -> None:
    draw = data.draw
    mode = draw(st.sampled_from([Mode.NORMAL, Mode.WIDE, Mode.LANES, Mode.SPLIT]))
    t_p = 2 * draw(st.integers(2, 6)) if mode is Mode.SPLIT else draw(st.integers(3, 13))
    design = design_for(
        WORKLOAD, t_p=t_p, t_c=draw(st.integers(2, 11)), split=mode is Mode.SPLIT, weight_slots=draw(st.integers(1, 5))
    )
    p, columns = draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weights = rng.integers(-32768, 32768, (p, columns)).astype(np.int16)
    bias = rng.integers(-(1 << 47), 1 << 47, columns)
    words = pack_weights(weights, bias, mode, design)
    assert words.shape == (part_words(p=p, columns=columns, groups=1, mode=mode, design=design),)
    back = unpack_weights(words, p=p, columns=columns, mode=mode, design=design)
    np.testing.assert_array_equal(back[0], weights)
    np.testing.assert_array_equal(back[1], bias)


def test_layouts_refuse_what_they_cannot_hold() -> None:
    design = design_for(WORKLOAD)
    weights = np.zeros((4, 3), np.int16)
    with pytest.raises(LayoutError, match="as many biases"):
        pack_weights(weights, np.zeros(2, np.int64), Mode.NORMAL, design)
    with pytest.raises(LayoutError, match="must fit 48 bits"):
        pack_weights(weights, np.full(3, 1 << 47), Mode.NORMAL, design)
    with pytest.raises(LayoutError, match="only GEMM modes"):
        pack_weights(weights, np.zeros(3, np.int64), Mode.MAX_POOL, design)
    with pytest.raises(LayoutError, match="take 24 words"):
        unpack_weights(np.zeros(25, np.int16), p=4, columns=3, mode=Mode.NORMAL, design=design)
