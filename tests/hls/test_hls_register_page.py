"""docs/registers.md is the register map; nothing else may be."""

from pathlib import Path

from fluidnpu.hls import render_register_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "registers.md"


def test_the_page_in_docs_is_the_map() -> None:
    """After a change: python -c "from fluidnpu import hls; print(hls.render_register_table(), end='')" > docs/registers.md"""
    assert PAGE.read_text(encoding="utf-8") == render_register_table()
