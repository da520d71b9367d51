"""What a fleet refuses to certify, in one sentence, before a board is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from fleet_worlds import fleet_file, slow_world

from fluidnpu.cli import main

STARTED = '[[devices]]\ntype = "board"\ncount = 2\n'
REACHED = '[[devices]]\ntype = "board"\nname = "far"\naddresses = ["10.0.0.7:8001"]\n'


@pytest.mark.parametrize(
    ("devices", "words", "said"),
    [
        (STARTED, ("--certify", "0.9"), "must be asked for as eta=0.99"),
        (STARTED, ("--certify", "eta=2"), "eta must lie above 0 and below 1"),
        (STARTED, ("--certify", "eta=0.9", "--criteria", "confidence > 0.9"), "no --criteria fits it"),
        (STARTED, ("--certify", "eta=0.9", "--replan", "--slo", "1s"), "so it goes without --certify"),
        (REACHED, ("--certify", "eta=0.9"), "must be certified where it is served"),
    ],
)
def test_a_fleet_says_why_it_does_not_certify(tmp_path: Path, devices: str, words: tuple[str, ...], said: str) -> None:
    path = fleet_file(tmp_path, devices, slow_world())
    done = CliRunner().invoke(main, ("fleet", str(path), "--http", "0", *words))
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
