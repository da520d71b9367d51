"""The tables of commands and modules in rtl_tb/README.md say what the files say.

To rewrite the index after a change: FLUIDNPU_REWRITE_REFERENCE=1 python -m pytest
tests/rtl_tb/test_rtl_readme.py
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import sources
from fluidnpu.rtl_tb.common.sources import SUBJECTS
from fluidnpu.rtl_tb.proving.catalogue import PROOFS

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "rtl_tb" / "README.md"
MODULES = sorted(path for subject in SUBJECTS for path in (ROOT / "rtl_tb" / subject / "rtl").glob("*.sv"))
PROOF_FILES = sorted((ROOT / "rtl_tb").glob("*/proofs/*.toml"))
TWINS = sorted((ROOT / "dse" / "exact" / "twin").rglob("*.py"))
BEGIN, END = "<!-- index -->\n", "<!-- end of index -->\n"
COMMANDS_BEGIN, COMMANDS_END = "<!-- commands -->\n", "<!-- end of commands -->\n"
COMMANDS = sorted(
    path for path in (ROOT / "rtl_tb").rglob("*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
)


def contract(path: Path) -> str:
    """First sentence of the `///` head of a file."""
    head = re.match(r"(?:///.*\n)+", path.read_text())
    assert head, f"{path.name} must begin with its contract"
    text = " ".join(line.removeprefix("///").strip() for line in head[0].splitlines())
    return re.split(r"(?<=[.])\s", text)[0].removesuffix(".")


def links(paths: list[Path]) -> str:
    return ", ".join(f"[{path.stem}]({os.path.relpath(path, README.parent)})" for path in paths)


def row(path: Path) -> str:
    """Module, contract, bench, proofs that read it, file of the exact model that names it."""
    folder, module = path.parent.parent, path.stem
    bench = [place for place in [folder / "benches" / f"{module}.py"] if place.is_file()]
    proofs = [place for place in PROOF_FILES if path.name in PROOFS[place.stem].reads]
    if module.endswith("_pkg"):
        proofs = []  # most proofs read the packages; none is about them
    twins = [twin for twin in TWINS if twin.is_file() and re.search(rf"\b{module}\b", twin.read_text())]
    name = f"[`{module}`]({path.relative_to(README.parent)})"
    own = f"[bench]({bench[0].relative_to(README.parent)})" if bench else ""
    return f"| {name} | {contract(path)} | {own} | {links(proofs)} | {links(twins)} |"


def index() -> str:
    """A table for each subject."""
    parts = []
    for subject in SUBJECTS:
        rows = [row(path) for path in MODULES if path.parent.parent.name == subject]
        if rows:
            head = "| module | contract | bench | proofs | twin |\n|---|---|---|---|---|\n"
            parts.append(f"### {subject}\n\n{head}" + "\n".join(rows) + "\n")
    return BEGIN + "\n" + "\n".join(parts) + "\n" + END


def command_row(path: Path) -> str:
    """Command as its docstring shows it, and its first sentence."""
    doc = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    shown = re.search(r"^    (python -m fluidnpu\.rtl_tb\..*)$", path.read_text(), re.M)
    assert shown, f"{path.name} must show its command"
    sentence = re.split(r"(?<=[.])\s", doc)[0].removesuffix(".")
    return f"| `{shown[1].replace('|', 'or')}` | {sentence} |"


def commands() -> str:
    rows = "\n".join(command_row(path) for path in COMMANDS)
    return f"{COMMANDS_BEGIN}\n| command | what it does |\n|---|---|\n{rows}\n\n{COMMANDS_END}"


def between(text: str, begin: str, end: str, fresh: str) -> str:
    return text.partition(begin)[0] + fresh + text.partition(end)[2]


def test_the_tables_are_what_the_files_say() -> None:
    text = README.read_text()
    fresh = between(between(text, BEGIN, END, index()), COMMANDS_BEGIN, COMMANDS_END, commands())
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        README.write_text(fresh)
    assert README.read_text() == fresh, "read the diff, then rewrite the index as the head of this file says"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_contract_is_one_short_sentence(path: Path) -> None:
    assert path.name in sources()
    assert len(contract(path).split()) <= 25, contract(path)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_explains_itself_and_refuses_nonsense_in_one_sentence(path: Path) -> None:
    module = ".".join(("fluidnpu", *path.relative_to(ROOT).with_suffix("").parts))
    told = subprocess.run([sys.executable, "-m", module, "--no-such-option"], capture_output=True, text=True, cwd=ROOT)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    assert told.stderr.splitlines()[-1].startswith(f"python -m {module}: error: ")
