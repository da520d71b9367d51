import pytest

from rtl_tb import Model, run


@pytest.mark.parametrize(
    "b_max", [4, pytest.param(1, marks=pytest.mark.long), pytest.param(16, marks=pytest.mark.long)]
)
def test_engine(b_max: int) -> None:
    model = Model(top="fluid_batching_engine", parameters={"BMax": b_max, "Layers": 3})
    assert len(run(model, "engine", env={"B_MAX": str(b_max)})) == 2


@pytest.mark.long
def test_engine_without_stackable_but_split() -> None:
    model = Model(top="fluid_batching_engine", parameters={"BMax": 8, "Layers": 5, "Stackable": 0, "Split": 1})
    run(model, "engine", env={"B_MAX": "8", "LAYERS": "5", "STACKABLE": "0", "SPLIT": "1"})


def test_registers() -> None:
    assert len(run(Model(top="fluidnpu_regs"), "regs")) == 4
