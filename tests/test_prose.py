"""Docstrings begin with one plain sentence, and lines of documentation fit a narrow window."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies", "fluidnpu")
MOST_WORDS = 25
MOST_COLUMNS = 110
RIDDLES = re.compile(r"^(What|Who|Whoever|How|Whether|Where|When|Which|That|Why)\b|\b(whoever|whatever|so many)\b")


def documented(tree: ast.Module) -> list[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The module and its public classes and functions, methods included."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [tree, *(n for n in ast.walk(tree) if isinstance(n, kinds) and not n.name.startswith("_"))]


def first_sentence(text: str) -> str:
    """Up to the first full stop, or the end of the first paragraph."""
    return re.split(r"(?<=[.!?])\s|\n\s*\n", text.strip())[0]


@pytest.mark.parametrize("room", ROOMS)
def test_a_first_sentence_is_short_and_no_riddle(room: str) -> None:
    wrong = []
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in documented(ast.parse(path.read_text(encoding="utf-8"))):
            sentence = first_sentence(ast.get_docstring(node) or "")
            if len(sentence.split()) > MOST_WORDS or RIDDLES.search(sentence):
                where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                wrong.append(f"{where}: {' '.join(sentence.split())}")
    assert not wrong, "\n".join(wrong)


PAGES = sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_prose_of_a_page_fits(page: Path) -> None:
    """Tables, code and links that cannot be broken are as wide as they are."""
    code, wrong = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        code ^= line.startswith("```")
        breakable = not code and not line.lstrip().startswith(("|", "#", "![", "[", "```", "<"))
        if breakable and len(line) > MOST_COLUMNS:
            wrong.append(f"{page.relative_to(ROOT)}:{number}: {len(line)} columns")
    assert not wrong, "\n".join(wrong)
