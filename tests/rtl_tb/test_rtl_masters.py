import pytest
from needs import needs_libpython

from fluidnpu.rtl_tb.simulation.model import RtlModel, run


@needs_libpython
@pytest.mark.parametrize(("data_bytes", "burst"), [(8, 16), pytest.param(16, 256, marks=pytest.mark.long)])
def test_masters(data_bytes: int, burst: int) -> None:
    parameters = {"DataBytes": data_bytes, "MaxBurst": burst, "QueueBeats": 2 * burst}
    assert len(run(RtlModel(top="axi_masters_top", parameters=parameters))) == 4
