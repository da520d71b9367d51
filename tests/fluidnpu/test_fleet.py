"""The command line of a fleet: bad input is one sentence and exit code 2, a silent board 1."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.commands.fleet import FORECASTS
from fluidnpu.scheduler import placement

FLEET = """
schema = 1
name = "nobody"
[networks.demo]
[links.loopback]
bytes_per_s = 1_000_000
[types.board]
memory_bytes = 1_000_000
networks.demo.bundle = "missing"
[[devices]]
type = "board"
addresses = ["127.0.0.1:1"]
"""


def said(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["fleet", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--http", "0"), "Missing argument 'FILE.toml'"),
        (("F",), "must have --http, --grpc or --unix"),
        (("F", "bundle", "--http", "0"), "unexpected extra argument (bundle)"),
        (
            ("F", "--http", "0", "--device", "pynq"),
            "fleet has no --device: write `fluidnpu serve [NAME=]BUNDLE... --device ...`",
        ),
        (
            ("F", "--http", "0", "--requests", "5"),
            "fleet has no --requests: write `fluidnpu stream BUNDLE --requests ...`",
        ),
        (("F", "--http", "0", "--admin-grpc", "0"), "fleet has no --admin-grpc: write `fluidnpu serve"),
        (("--fleet", "F", "--http", "0"), "fleet has no --fleet: write `fluidnpu fleet FILE.toml`"),
        (("F", "--http", "0"), "must be a bundle with a readable design.json"),
        (("nowhere.toml", "--http", "0"), "nowhere.toml"),
        (("F", "--http", "0", "--power", "2,6"), "fleet has no --power: write `fluidnpu serve"),
        (("F", "--http", "0", "--ray-address", "x:1"), "--ray-address is for --engine ray"),
        (("F", "--http", "0", "--engine", "ray", "--shard", "0"), "--shard"),
        (("F", "--http", "0", "--replan"), "--replan must have an objective that plans keep (--slo)"),
        (("F", "--http", "0", "--replan", "--slo", "1s", "--engine", "ray"), "--replan is for --engine local"),
        (("F", "--http", "0", "--replan", "--slo", "1s", "--policy", "serial"), "it goes without --policy"),
        (("F", "--http", "0", "--replan", "--slo", "1s", "--window", "1ms"), "must last 0.1 to 1e6 s"),
        (("F", "--http", "0", "--replan", "--slo", "1s", "--forecast", "oracle"), "'oracle' is not one of"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    code, printed = said(*(str(path) if word == "F" else word for word in words))
    assert code == 2
    assert sentence in printed
    assert "Traceback" not in printed


def test_the_forecasts_are_those_of_the_scheduler() -> None:
    assert FORECASTS == placement.FORECASTS
