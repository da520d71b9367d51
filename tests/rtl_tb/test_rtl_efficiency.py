import pytest

from rtl_tb.efficiency import GOAL, measure, resnet50_layers, use_of_port, why

RESULT = {"port_beats": 100, "port_words": 8, "delivered_words": 720, "read_again": 0, "outside": 0}


def test_the_reason_names_what_was_wasted() -> None:
    assert use_of_port(RESULT) == 0.9 < GOAL
    assert why(RESULT) == "every word read is used"
    assert why(RESULT | {"outside": 7}) == "whole lines are read at the ends of rows (7 of 100 port words)"
    assert "read again (3 of 100 port words)" in why(RESULT | {"read_again": 3})


@pytest.mark.long
def test_small_layers_use_their_port() -> None:
    """The whole table is `python -m rtl_tb.efficiency`; here the layers of the last stage, at 100 cycles of latency."""
    layers = [layer for layer in resnet50_layers() if layer["shape"]["out"] == (7, 7)][:3]
    for result in measure(layers):
        assert use_of_port(result) >= GOAL, f"{result['name']}: {why(result)}"
