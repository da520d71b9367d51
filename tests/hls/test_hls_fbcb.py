"""FBCB words: encoding and decoding agree with the design, and with the refusals of the hardware."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.dse import BatchPlan, Mode
from fluidnpu.hls import FbcbError
from fluidnpu.hls.program import decode_fbcb
from fluidnpu.hls.program.fbcb import encode_fbcb


@given(batch=st.integers(1, 16), data=st.data())
def test_fbcb_words_say_what_the_design_says(batch: int, data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from([Mode.NORMAL, Mode.WIDE, Mode.SPLIT, Mode.LANES]))
    row_lanes = mode is Mode.LANES and (batch == 1 or data.draw(st.booleans()))
    low = -(-batch // 2) if mode is Mode.LANES else 1
    b_r = data.draw(st.integers(low, max(low, batch - (mode is Mode.LANES and not row_lanes))))
    deepest = 32 if mode is Mode.SPLIT else 64
    plan = BatchPlan(b_r=b_r, row_lanes=row_lanes, block=data.draw(st.integers(0, deepest)))
    run = decode_fbcb(encode_fbcb(mode, plan, batch), kind=0, batch=batch, t_r=64, stackable=True, split=True)
    assert run.block == (plan.block or deepest)
    assert (run.mode, run.batch, run.row_lanes) == (mode, batch, row_lanes)
    assert run.b_r == (b_r if mode is Mode.LANES and not row_lanes else batch)


def test_fbcb_words_that_no_hardware_obeys_are_refused() -> None:
    with pytest.raises(FbcbError, match=r"b_r must lie in 3\.\.5"):
        decode_fbcb(1 << 2, kind=0, batch=5, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match=r"b_r must lie in 1\.\.2"):
        decode_fbcb(4 << 2, kind=0, batch=2, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match="needs stackable PEs"):
        decode_fbcb(1, kind=0, batch=1, t_r=64, stackable=False)
    with pytest.raises(FbcbError, match="needs stackable PEs"):
        decode_fbcb(0, kind=0, batch=2, t_r=64, stackable=False)
    with pytest.raises(FbcbError, match="needs split trees"):
        decode_fbcb(2, kind=0, batch=1, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match="at most 64 beats, which is what an accumulator bank holds, not 65"):
        decode_fbcb(65 << 7, kind=0, batch=1, t_r=64, stackable=True)
    with pytest.raises(FbcbError, match="at most 32 beats"):
        decode_fbcb(2 | 33 << 7, kind=0, batch=1, t_r=64, stackable=True, split=True)
