"""Docstrings begin with one plain sentence, and lines of documentation fit a narrow window."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies", "fluidnpu")
MOST_WORDS = 25
MOST_COLUMNS = 110
ABBREVIATED = re.compile(r"\b(Eqs?|Figs?|Secs?|Tabs?|Algs?|Refs?|Nos?|vs|cf|al|approx|e\.g|i\.e)\.$")
RIDDLES = re.compile(r"^(What|Who|Whoever|How|Whether|Where|When|Which|That|Why)\b|\b(whoever|whatever|so many)\b")


def documented(tree: ast.Module) -> list[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The module and its public classes and functions, methods included."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [tree, *(n for n in ast.walk(tree) if isinstance(n, kinds) and not n.name.startswith("_"))]


def paragraphs(text: str) -> list[str]:
    return re.split(r"\n\s*\n", text.strip())


def first_sentence(text: str) -> str:
    """Up to the first full stop that belongs to no abbreviation, or the end of the first paragraph."""
    first = paragraphs(text)[0]
    ends = (first[: stop.end()] for stop in re.finditer(r"[.!?](?=\s|$)", first))
    return next((sentence for sentence in ends if not ABBREVIATED.search(sentence)), first)


def test_a_sentence_does_not_end_at_an_abbreviation() -> None:
    assert first_sentence("Return T of Eq. 4 in ns.") == "Return T of Eq. 4 in ns."
    assert first_sentence("Return T of Eq.\n4 in ns. Raises no error.") == "Return T of Eq.\n4 in ns."
    assert first_sentence("Price two forms, e.g. serial vs. fluid! Slow.") == "Price two forms, e.g. serial vs. fluid!"
    assert first_sentence("Return T.\n\nOf Eq. 4.") == "Return T."
    assert ABBREVIATED.search(first_sentence("Return T of Eq.\n\n4 in ns."))


def test_a_first_sentence_is_short_and_no_riddle() -> None:
    wrong = []
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        for node in documented(ast.parse(path.read_text(encoding="utf-8"))):
            sentence = first_sentence(ast.get_docstring(node) or "")
            if len(sentence.split()) > MOST_WORDS or RIDDLES.search(sentence):
                where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                wrong.append(f"{where}: {' '.join(sentence.split())}")
    assert not wrong, "\n".join(wrong)


def test_no_paragraph_of_a_docstring_is_cut_at_an_abbreviation() -> None:
    wrong = []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in (path for folder in (*ROOMS, "benchmarks", "tests") for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kinds):
                cut = [text for text in paragraphs(ast.get_docstring(node) or "") if ABBREVIATED.search(text)]
                wrong += [f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text}" for text in cut]
    assert not wrong, "\n".join(wrong)


def test_prose_of_a_page_fits() -> None:
    """Tables, code and links that cannot be broken are as wide as they are."""
    wrong = []
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]):
        code = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            code ^= line.startswith("```")
            breakable = not code and not line.lstrip().startswith(("|", "#", "![", "[", "```", "<"))
            if breakable and len(line) > MOST_COLUMNS:
                wrong.append(f"{page.relative_to(ROOT)}:{number}: {len(line)} columns")
    assert not wrong, "\n".join(wrong)
