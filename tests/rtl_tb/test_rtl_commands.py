"""The commands of the room refuse nonsense in one sentence, and its README names every module and proof."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fluidnpu.rtl_tb.common.sources import SUBJECTS

ROOT = Path(__file__).resolve().parent.parent.parent
ROOM = ROOT / "rtl_tb"
COMMANDS = sorted(path for path in ROOM.rglob("*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8"))


def test_the_index_names_every_module_and_proof() -> None:
    text = (ROOM / "README.md").read_text(encoding="utf-8")
    named = {ROOM / target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    assert [path for path in named if not path.exists()] == []
    files = [
        path for subject in SUBJECTS for kind in ("rtl/*.sv", "proofs/*.toml") for path in (ROOM / subject).glob(kind)
    ]
    assert [path for path in files if path not in named] == []


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_refuses_nonsense_in_one_sentence(path: Path) -> None:
    module = ".".join(("fluidnpu", *path.relative_to(ROOT).with_suffix("").parts))
    told = subprocess.run([sys.executable, "-m", module, "--no-such-option"], capture_output=True, text=True, cwd=ROOT)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    assert told.stderr.splitlines()[-1].startswith(f"python -m {module}: error: ")
