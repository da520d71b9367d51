"""Pages of the documentation name files that exist, and their Python runs as it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md"), *ROOT.glob("*/README.md")])
ROOMS = "boards|models|dse|hls|rtl_tb|scheduler|host|studies|fluidnpu|tests|benchmarks|docs"
PATHS = re.compile(rf"(?<![\w/.-])(?:{ROOMS})/[\w/.{{}},*-]*\w\.(?:py|sv|toml|json|md|j2|h|cpp|svg|pyi)\b")


def named(page: Path) -> list[str]:
    """Paths of the repository that a page names in backquotes; patterns with `*` or braces too."""
    code = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    return [path for text in code for path in PATHS.findall(text)]


def test_files_that_a_page_names_exist() -> None:
    missing = [
        f"{page.relative_to(ROOT)} names {path}"
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for path in named(page)
        if not list(ROOT.glob(re.sub(r"\{[^}]*\}", "*", path)))
    ]
    assert not missing, "\n".join(missing)


def test_the_index_of_decisions_lists_every_page() -> None:
    """A forge shows the file as it stands, so the list and its links stand in it."""
    index = (ROOT / "docs" / "adr" / "index.md").read_text(encoding="utf-8")
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/adr/[0-9]*.md"))}
    titles = {name: re.match(r"# (\d+)\. (.+)\n", text) for name, text in pages.items()}
    assert all(titles.values()), f"no `# NUMBER. TITLE` at the head of {[name for name in titles if not titles[name]]}"
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((\S+)\) \|$", index, re.M)
    assert rows == [(*title.groups(), name) for name, title in titles.items() if title]
    numbers = {int(number) for number, _, _ in rows}
    without = {int(number) for number in re.findall(r"Number (\d+) was never", index)}
    assert without == set(range(1, max(numbers))) - numbers, "a number without a page is to be explained"


def test_paths_are_found_in_backquotes() -> None:
    assert any(named(page) for page in PAGES)
    assert PATHS.findall("see dse/design.py and `x/dse/y.py`") == ["dse/design.py"]


def figures(text: str) -> set[str]:
    """The numbers in a text, without separators of thousands."""
    return {number.replace(",", "") for number in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)}


def test_results_of_the_first_screen_stand_in_the_pages_that_they_name() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:architect|operator|verifier) \| .* \| (.*) \| \[.*\]\(([^)#]+)", readme, re.M)
    assert len(rows) == 3
    missing = {page: figures(result) - figures((ROOT / page).read_text(encoding="utf-8")) for result, page in rows}
    assert not any(missing.values()), missing
    assert figures("2,830,392 of ResNet-50 in 0.5 s") == {"2830392", "50", "0.5"}
