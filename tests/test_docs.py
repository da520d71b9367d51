"""Pages of the documentation name files that exist, and their Python runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md"), *ROOT.glob("*/README.md")])
ROOMS = "boards|models|dse|hls|rtl_tb|scheduler|host|studies|fluidnpu|tests|benchmarks|docs"
PATHS = re.compile(rf"(?<![\w/.-])(?:{ROOMS})/[\w/.{{}},*-]*\w\.(?:py|sv|toml|json|md|j2|h|cpp|svg|pyi)\b")


def named(page: Path) -> list[str]:
    """Paths of the repository that a page names in backquotes; patterns with `*` or braces too."""
    code = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    return [path for text in code for path in PATHS.findall(text)]


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = [path for path in named(page) if not list(ROOT.glob(re.sub(r"\{[^}]*\}", "*", path)))]
    assert not missing, f"{page.relative_to(ROOT)} names {', '.join(missing)}"


def test_paths_are_found_in_backquotes() -> None:
    assert any(named(page) for page in PAGES)
    assert PATHS.findall("see dse/design.py and `x/dse/y.py`") == ["dse/design.py"]
