import pytest

from fluidnpu.rtl_tb.npu.efficiency import GOAL, by_model, measure, on_rtl
from fluidnpu.rtl_tb.npu.job import differences


def test_the_input_port_carries_what_is_used() -> None:
    """By the exact model, which the tests hold to the RTL cycle for cycle."""
    results = measure(model_only=True)
    assert len(results) == 17
    for use in results:
        assert use.words_used >= GOAL, use.name
    assert {use.layer.window.kernel for use in results if use.layer.window} == {(1, 1), (3, 3)}


def test_a_slower_memory_makes_the_core_wait() -> None:
    near, far = (measure(model_only=True, latency=latency) for latency in (10, 1000))
    assert all(a.beats_per_cycle > b.beats_per_cycle for a, b in zip(near, far, strict=True))
    assert [use.words_used for use in near] == [use.words_used for use in far]


@pytest.mark.matrix
def test_the_rtl_says_the_same() -> None:
    runs = on_rtl()
    for run, cycles in zip(runs, by_model(first_cycle=runs[0].start_cycle), strict=True):
        assert not differences(run, cycles)
