"""Exit checks: what each makes of logits, in the file, in float and golden model, and in a compiled
program.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.hls import Program, compile_program
from fluidnpu.models import golden, quantise, read_onnx
from fluidnpu.models.errors import ModelFileError
from fluidnpu.models.exits import sureness, sureness_of_exits, with_check, with_thresholds
from fluidnpu.models.exits.rule import confidence
from fluidnpu.models.graph import ExitCheck
from fluidnpu.models.images import ImageSet
from fluidnpu.models.numeric import record_exits, run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import random_network


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12))
def test_checks_lie_in_0_to_1_and_say_what_they_should(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 5, (20, classes))
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    ordered = np.sort(shares, axis=-1)
    for check in ExitCheck:
        found = sureness(logits, check, rng.integers(0, classes, 20))
        assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_array_equal(sureness(logits, ExitCheck.TOP), confidence(logits))
    np.testing.assert_allclose(sureness(logits, ExitCheck.MARGIN), ordered[:, -1] - ordered[:, -2], atol=1e-12)
    entropy = -(shares * np.log(shares)).sum(axis=-1) / np.log(classes)
    np.testing.assert_allclose(sureness(logits, ExitCheck.CERTAINTY), 1 - entropy, atol=1e-9)
    top = logits.argmax(-1)
    np.testing.assert_array_equal(sureness(logits, ExitCheck.AGREEMENT, top), confidence(logits))
    assert not sureness(logits, ExitCheck.AGREEMENT, (top + 1) % classes).any()
    assert not sureness(logits, ExitCheck.AGREEMENT).any()  # at the first exit there is none before


def test_extreme_logits_and_networks_without_classes() -> None:
    wide = np.array([[1e4, -1e4], [0.0, 0.0]])
    assert sureness(wide, ExitCheck.CERTAINTY).tolist() == [1.0, 0.0]
    assert sureness(wide, ExitCheck.MARGIN).tolist() == [1.0, 0.0]
    for check in ExitCheck:
        assert sureness(np.zeros((3, 0)), check).tolist() == [1.0] * 3
    assert sureness(np.zeros((2, 1)), ExitCheck.MARGIN).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("check", list(ExitCheck))
def test_one_check_in_file_float_golden_and_program(check: ExitCheck, tmp_path: Path) -> None:
    network = with_thresholds(with_check(random_network(5, exits=3), check), [0.3, 0.4])
    write_onnx(network, tmp_path / "net.onnx")
    read = read_onnx(tmp_path / "net.onnx")
    assert read.check is check
    images = read.intake.random(24, 0)
    qnet = quantise(read)
    stored = [qnet.logits(index, one) for index, one in enumerate(golden.run(qnet, images))]
    table = np.stack(sureness_of_exits(stored, check), axis=1)
    expected = [next((e for e in (0, 1) if row[e] > read.thresholds[e]), 2) for row in table]
    assert golden.early_exit(qnet, images)[0].tolist() == expected
    sure, _ = record_exits(qnet, ImageSet(images=images))
    np.testing.assert_array_equal(sure, table)
    floating = sureness_of_exits(run_float(read, images), check)
    assert np.abs(np.stack(floating, axis=1) - table)[:, 0].max() < 0.2
    program = compile_program(
        qnet, explore(read.workload, load_board("zc706"), b_max=2, model="paper", core="rtl").design
    )
    program.save(tmp_path)
    assert Program.load(tmp_path).check is check
    assert ("check" in (tmp_path / "program.json").read_text()) == (check is not ExitCheck.TOP)


def test_a_check_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    import onnx

    write_onnx(random_network(5, exits=2), tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    kept = {one.key: one.value for one in model.metadata_props}
    onnx.helper.set_model_props(model, kept | {"fluidnpu.check": "luck"})
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelFileError, match=r"must be one of top, certainty, margin, agreement, .*, not 'luck'"):
        read_onnx(tmp_path / "net.onnx")
