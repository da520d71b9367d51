"""`fluidnpu check BOARD.toml`: what the file says, and which facts name no document."""

import json
from importlib import resources
from pathlib import Path

from click.testing import CliRunner

from fluidnpu.cli import main


def shipped() -> str:
    return resources.files("fluidnpu.boards").joinpath("zc706.toml").read_text(encoding="utf-8")


def test_facts_without_a_document_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(line for line in shipped().splitlines() if not line.startswith(('lut = "', '"dram.pl"'))))
    done = CliRunner().invoke(main, ["check", str(path)])
    assert done.exit_code == 0, done.output
    assert "no document is named for lut, dram.pl" in " ".join(done.output.split())
    told = json.loads(CliRunner().invoke(main, ["check", str(path), "--json"]).output)
    assert told["unsourced"] == ["lut", "dram.pl"]
    assert told["dsp"] == 900


def test_a_board_with_all_its_documents_needs_no_remark(tmp_path: Path) -> None:
    (tmp_path / "full.toml").write_text(shipped())
    done = CliRunner().invoke(main, ["check", str(tmp_path / "full.toml")])
    assert done.exit_code == 0
    assert "document" not in done.output
    assert "12.80" in done.output


def test_a_wrong_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("dsp = 3\n")
    done = CliRunner().invoke(main, ["check", str(tmp_path / "wrong.toml")])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert "must begin with the line 'schema = 1'" in done.output
