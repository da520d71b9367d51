"""The concordance names code and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "concordance.md"


def test_code_and_tests_that_are_named_exist() -> None:
    named = re.findall(r"`([\w/]+\.(?:py|sv))`: `([\w.]+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 50
    missing = [
        f"{path} has no {name}"
        for path, name in named
        if not (ROOT / path).is_file()
        or not re.search(
            rf"\b(def|class|module) {name.rpartition('.')[2]}\b", (ROOT / path).read_text(encoding="utf-8")
        )
    ]
    assert not missing, "\n".join(missing)
