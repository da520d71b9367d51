"""The index of modules in rtl_tb/README.md says what the files say.

To rewrite the index after a change: FLUIDNPU_REWRITE_REFERENCE=1 python -m pytest
tests/rtl_tb/test_rtl_readme.py
"""

import os
import re
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import PROOFS, sources
from fluidnpu.rtl_tb.common.sources import SUBJECTS

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "rtl_tb" / "README.md"
MODULES = sorted(path for subject in SUBJECTS for path in (ROOT / "rtl_tb" / subject / "rtl").glob("*.sv"))
PROOF_FILES = sorted((ROOT / "rtl_tb").glob("*/proofs/*.toml"))
TWINS = sorted((ROOT / "dse" / "exact" / "twin").glob("*.py"))
BEGIN, END = "<!-- index -->\n", "<!-- end of index -->\n"


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


def test_the_index_is_what_the_files_say() -> None:
    text = README.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    fresh = before + index() + after
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        README.write_text(fresh)
    assert README.read_text() == fresh, "read the diff, then rewrite the index as the head of this file says"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_contract_is_one_short_sentence(path: Path) -> None:
    assert path.name in sources()
    assert len(contract(path).split()) <= 25, contract(path)
