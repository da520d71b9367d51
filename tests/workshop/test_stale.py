"""A changed constant makes stale what depends on it, and nothing else; making it again mends that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from checkouts import ROOT, copied, small

import workshop.stale
from workshop.output import Artefact
from workshop.outputs import outputs
from workshop.refresh import refresh
from workshop.sources import Tree
from workshop.stale import digests, stale, write_digests

CYCLES = Path("dse") / "exact" / "twin" / "sequencer.py"


def names(root: Path) -> dict[str, list[str]]:
    """Stale rows with the rooms that changed."""
    return {row.name: changed for row, changed in stale(Tree(root))}


def fresh(root: Path) -> Path:
    """Take all of a checkout as made just now."""
    tree = Tree(root)
    write_digests(root, {row.name: digests(tree, row) for row in outputs(tree)})
    return root


@pytest.mark.cpu(10, "every source of the tree is read twice")
def test_a_constant_of_the_cycle_model_makes_stale_all_that_counts_cycles(tmp_path: Path) -> None:
    root = fresh(copied(tmp_path))
    (root / CYCLES).write_text((root / CYCLES).read_text() + "\nONE_CYCLE_MORE = 1\n")
    found = names(root)
    assert {"README.md", "docs/tutorial/first.md", "docs/notebooks/exploration.ipynb"} <= set(found)
    assert {"cycles-of-networks", "whole-networks", "price-of-chains", "picture-of-the-demo"} <= set(found)
    assert {"every-layer", "full-size-networks"} <= set(found)  # named, and left to who has hours
    assert all(changed == ["dse"] for changed in found.values())
    assert not {"protobuf-inference", "tables-of-operators", "docs/how-to/shell-completion.md"} & set(found)


@pytest.mark.long
def test_a_row_that_is_made_again_is_fresh_and_the_others_stay_stale(tmp_path: Path) -> None:
    root = fresh(copied(tmp_path))
    assert names(root) == {}
    module = next((root / "rtl_tb" / "common" / "rtl").glob("*.sv"))
    module.write_text(module.read_text().replace("/// ", "/// Seen from afar: ", 1))
    assert names(root)["index-of-rtl"] == ["rtl_tb"]
    assert refresh(root, ["index-of-rtl"], say=lambda line: None) == {}
    assert "Seen from afar: " in (root / "rtl_tb" / "README.md").read_text()
    left = names(root)
    assert "index-of-rtl" not in left
    assert left["reference-projects"] == ["rtl_tb"]
    done = subprocess.run([sys.executable, "-m", "workshop.stale"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 1
    assert "stale: reference-projects (rtl_tb)\n" in done.stdout
    assert "stale and long: clocks (rtl_tb); half an hour\n" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("`make refresh` makes them again")


# -- the rules, on a small tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of two rows and one that takes hours; the second reads what the first makes."""
    root = small(tmp_path)
    (root / "workshop").mkdir()
    (root / "benchmarks" / "table.py").write_text("from fluidnpu.dse import cost\nprint('{\"rows\": 2}')\n")
    (root / "benchmarks" / "page.py").write_text(
        "from pathlib import Path\nfrom fluidnpu.dse import price\nprint('of', Path('dse/data.json').read_text())\n"
    )
    (root / "page.md").write_text("# Page\n\n<!-- computed -->\n\nold\n\n<!-- end -->\n\nby hand\n")
    (root / "long.md").write_text("long\n")
    for room in ("dse", "host"):
        (root / "fluidnpu" / room).symlink_to(Path("..") / room)
    (root / "dse" / "__init__.py").write_text("cost = price = 1\n")
    rows = [
        Artefact(name="table", files=("dse/data.json",), command="python benchmarks/table.py", roots=("benchmarks/table.py",), prints=True),
        Artefact(
            name="page", files=("page.md",), command="python benchmarks/page.py", roots=("benchmarks/page.py",), prints=True,
            part=r"<!-- computed -->\n\n(.*?)\n<!-- end -->",
        ),
        Artefact(name="long", files=("long.md",), command="python benchmarks/table.py", roots=("benchmarks/table.py",), prints=True, hours="a day"),
    ]  # fmt: skip
    monkeypatch.setattr(workshop.stale, "outputs", lambda tree: rows)
    return root


def test_rows_are_made_in_order_and_hours_only_by_name(tree: Path) -> None:
    assert list(names(tree)) == ["table", "page", "long"]
    assert refresh(tree, say=lambda line: None) == {}
    assert (
        tree / "page.md"
    ).read_text() == '# Page\n\n<!-- computed -->\n\nof {"rows": 2}\n\n\n<!-- end -->\n\nby hand\n'
    assert list(names(tree)) == ["long"]
    assert refresh(tree, ["lo*"], say=lambda line: None) == {}
    assert (tree / "long.md").read_text().startswith('{"rows": 2}\n\nFigures of the tree of ')
    assert names(tree) == {}


def test_what_is_edited_by_hand_is_stale_and_the_rest_of_a_page_is_not(tree: Path) -> None:
    refresh(tree, say=lambda line: None)
    page = tree / "page.md"
    page.write_text(page.read_text().replace("by hand", "by another hand"))
    assert list(names(tree)) == ["long"]
    page.write_text(page.read_text().replace('"rows": 2', '"rows": 3'))
    assert names(tree)["page"] == ["itself"]
    (tree / "dse" / "other.py").write_text("price = 3\n")
    assert names(tree)["page"] == ["dse", "itself"]


def test_a_page_whose_blocks_were_refreshed_is_fresh(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = "from pathlib import Path\nfrom fluidnpu.dse import price\nPath('page.md').write_text(f'prints {price}')\n"
    (tree / "benchmarks" / "page.py").write_text(writes)

    def rows(tree: Tree) -> list[Artefact]:
        shown = (tree.root / "page.md").read_text()
        command = "python benchmarks/page.py"
        return [Artefact(name="page", files=("page.md",), command=command, roots=("benchmarks/page.py",), text=shown)]

    monkeypatch.setattr(workshop.stale, "outputs", rows)
    assert refresh(tree, say=lambda line: None) == {}
    assert (tree / "page.md").read_text() == "prints 1"
    assert names(tree) == {}


def test_a_row_that_fails_leaves_its_file_and_the_others_go_on(tree: Path) -> None:
    (tree / "benchmarks" / "table.py").write_text("from fluidnpu.dse import cost\nraise SystemExit('no board')\n")
    before = (tree / "dse" / "data.json").read_text()
    lines: list[str] = []
    assert refresh(tree, say=lines.append) == {"table": "no board"}
    assert (tree / "dse" / "data.json").read_text() == before
    assert list(names(tree)) == ["table", "long"]
    assert any("FAILED table" in line for line in lines)


def test_a_source_that_changes_while_a_row_is_made_leaves_it_stale(tree: Path) -> None:
    edits = (
        "from pathlib import Path\nfrom fluidnpu.dse import cost\nPath('dse/late.py').write_text('why = 2')\nprint(1)\n"
    )
    (tree / "benchmarks" / "table.py").write_text(edits)
    refresh(tree, ["table"], say=lambda line: None)
    assert names(tree)["table"] == ["dse"]


@pytest.mark.parametrize("module", ["stale", "refresh"])
def test_a_name_that_fits_no_row_is_refused_in_one_sentence(module: str) -> None:
    words = [sys.executable, "-m", f"workshop.{module}", "study-nobody"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("NAME must fit a row of workshop/outputs.py, not 'study-nobody'\n")


def test_stale_needs_nothing_but_python() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import workshop.stale"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
