"""Masters striped over narrow ports: the masters' own benches on them, and what only stripes can do wrong."""

import pytest

from rtl_tb import Model, run

HARNESS = ("axi_striped_masters_top.sv",)
# cocotbext-axi wants identifiers and one port, so that memory is not met here.
MASTERS = "reads_and_writes_are_right|errors_are_told|a_flush_reaches_idle"


def model_of(ports: int, data_bytes: int, burst: int = 16) -> Model:
    parameters = {"DataBytes": data_bytes, "MaxBurst": burst, "Ports": ports}
    return Model(top="axi_striped_masters_top", harness=HARNESS, parameters=parameters)


@pytest.mark.parametrize(("ports", "data_bytes"), [(4, 16), pytest.param(2, 8, marks=pytest.mark.long)])
def test_striped_masters(ports: int, data_bytes: int) -> None:
    env = {"DATA_BYTES": str(data_bytes), "PORTS": str(ports)}
    model = model_of(ports, data_bytes)
    assert len(run(model, "stripes", env=env)) == 5
    assert len(run(model, "masters", tests=MASTERS, env=env)) == 3


@pytest.mark.long
def test_bursts_of_one_word_stream_too() -> None:
    env = {"DATA_BYTES": "16", "PORTS": "4", "BURST": "1"}
    assert run(model_of(4, 16, burst=1), "stripes", tests="reads_stream", env=env)
