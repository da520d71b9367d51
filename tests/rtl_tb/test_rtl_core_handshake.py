import json
from typing import Any

import pytest

from fluidnpu.dse.testing import tiny_design
from fluidnpu.rtl_tb.core.edges import BYTES
from fluidnpu.rtl_tb.core.model import core_parameters
from fluidnpu.rtl_tb.simulation.model import RtlModel, run

FIELDS: dict[str, Any] = {"t_r": 13, "t_p": 4, "t_c": 5, "split": True, "weight_slots": 3, "out_words": 4}


@pytest.mark.long
@pytest.mark.parametrize("fields", [FIELDS, BYTES], ids=["words", "bytes"])
def test_handshake_and_reset(fields: dict[str, Any]) -> None:
    model = RtlModel(top="fluidnpu_core", parameters=core_parameters(tiny_design().changed(**fields)))
    assert len(run(model, env={"DESIGN": json.dumps(fields)})) == 2
