"""Docstrings begin with one plain sentence; sentences of pages are short, and their lines are narrow."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies", "fluidnpu")
MOST_WORDS = 25
MOST_WORDS_OF_A_PAGE = 35
MOST_COLUMNS = 110
ABBREVIATED = re.compile(r"\b(Eqs?|Figs?|Secs?|Tabs?|Algs?|Refs?|Nos?|vs|cf|al|approx|e\.g|i\.e)\.$")
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("models/data/*.md")]
)
ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
NO_PROSE = ("|", "#", "<", "![")  # a table, a heading, a comment or a tag, a picture
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


def blocks(page: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and list items of a page, each with its first line; code and tables are left out."""
    code, first, lines = False, 0, list[str]()
    for number, line in enumerate([*page.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        prose = not (code or fence or not line.strip() or line.lstrip().startswith(NO_PROSE))
        if lines and (not prose or ITEM.match(line)):
            yield first, " ".join(lines)
            lines = []
        if prose:
            first = first if lines else number
            lines.append(ITEM.sub("", line).strip())
        code ^= fence


def sentences(block: str) -> Iterator[str]:
    """The sentences of a paragraph: `code` is a word, a link is its text, an abbreviation ends nothing."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", block))
    words = list[str]()
    for word in text.split():
        words.append(word)
        if re.search(r"[.!?][)\"'*_]*$", word) and not ABBREVIATED.search(word):
            yield " ".join(words)
            words = []
    if words:
        yield " ".join(words)


def count_words(sentence: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def test_sentences_of_a_page_are_counted_as_a_reader_reads_them() -> None:
    page = """# A heading. It counts nothing

Two words. Of Eq. 4 in
ns (see [one link](a.md#b)): `three words here` is one! *Is it?* Yes

- An item; its
  second line.
1. Another.
| a cell. | another |
<!-- not run. -->
```text
No sentence. None.
```
The end – here.
"""
    read = [(line, [*sentences(block)]) for line, block in blocks(page)]
    assert read == [
        (3, ["Two words.", "Of Eq. 4 in ns (see one link): code is one!", "*Is it?*", "Yes"]),
        (6, ["An item; its second line."]),
        (8, ["Another."]),
        (14, ["The end – here."]),
    ]
    assert [count_words(sentence) for sentence in ("The end – here.", "B = 8 at code x 3")] == [3, 6]


def test_no_sentence_of_a_page_is_long() -> None:
    """Figures that belong together are a table, not a sentence."""
    wrong = []
    for page in PAGES:
        for number, block in blocks(page.read_text(encoding="utf-8")):
            for sentence in sentences(block):
                if (words := count_words(sentence)) > MOST_WORDS_OF_A_PAGE:
                    wrong.append(f"{page.relative_to(ROOT)}:{number}: {words} words: {sentence}")
    assert not wrong, "\n".join(wrong)


def test_lists_and_tables_stand_apart() -> None:
    """Behind a line of text without an empty line between, the site shows them as text."""
    wrong = []
    for page in PAGES:
        code, before = False, ""
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            code ^= line.lstrip().startswith("```")
            begins = line.startswith("|") or ITEM.match(line)
            continues = before.startswith(("|", " ", "<", "```")) or ITEM.match(before)
            if not code and begins and before.strip() and not continues:
                wrong.append(f"{page.relative_to(ROOT)}:{number}: {line[:50]}")
            before = line
    assert not wrong, "\n".join(wrong)


def test_prose_of_a_page_fits() -> None:
    """Tables, code and links that cannot be broken are as wide as they are."""
    wrong = []
    for page in PAGES:
        code = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            code ^= line.startswith("```")
            breakable = not code and not line.lstrip().startswith(("|", "#", "![", "[", "```", "<"))
            if breakable and len(line) > MOST_COLUMNS:
                wrong.append(f"{page.relative_to(ROOT)}:{number}: {len(line)} columns")
    assert not wrong, "\n".join(wrong)
