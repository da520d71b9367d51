"""Cuts of a workload into stages, as if it had exits whose heads cost nothing."""

from __future__ import annotations

import pytest

from fluidnpu.models import LayerShape, NetworkError, Workload
from fluidnpu.models.exits import equidistant_exits, exits_after


def test_equidistant_exits_cut_where_the_work_is() -> None:
    layers = tuple(LayerShape(name=f"l{i}", r=1, p=1, c=c) for i, c in enumerate((1, 1, 1, 97, 50, 50)))
    cut = equidistant_exits(Workload(name="w", layers=layers), 2, exit_rates=(0.25, 0.75))
    assert [layer.stage for layer in cut.layers] == [0, 0, 0, 0, 1, 1]
    assert cut.exit_rates == (0.25, 0.75)
    every = equidistant_exits(cut, 6)
    assert [layer.stage for layer in every.layers] == [0, 1, 2, 3, 4, 5]
    for wrong in (0, 7):
        with pytest.raises(NetworkError, match=r"1\.\.6"):
            equidistant_exits(cut, wrong)


def test_exits_after_named_layers_in_any_order() -> None:
    work = Workload(name="w", layers=tuple(LayerShape(name=n, r=1, p=1, c=1) for n in ("aa", "ab", "ac", "b")))
    cut = exits_after(work, ["ac", "aa"], exit_rates=(0.2, 0.3, 0.5))
    assert [layer.stage for layer in cut.layers] == [0, 1, 1, 2]
    assert cut.exits == ("exit1", "exit2", "exit3")
    assert cut.exit_rates == (0.2, 0.3, 0.5)
    with pytest.raises(NetworkError, match="no layer 'az' in 'w'; close to it: a"):
        exits_after(work, ["az"])
    for wrong in (["b"], ["aa", "aa"]):
        with pytest.raises(NetworkError, match=f"'{wrong[0]}'"):
            exits_after(work, wrong)
