"""Every object that a test of a command makes it print with `--json` has only fields that the page names."""

from typing import Any

import click
import json_page
import pytest

from fluidnpu import show


@pytest.fixture(autouse=True)
def fields_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = show.emit

    def checked(report: dict[str, Any], **options: Any) -> None:
        context = click.get_current_context(silent=True)
        if context is not None and len(words := context.command_path.split()) > 1:
            refuse_unknown(words[1], report)
        emit(report, **options)

    monkeypatch.setattr(show, "emit", checked)


def refuse_unknown(command: str, report: dict[str, Any]) -> None:
    """Fail where no section of the command has all fields of an object."""
    sections = [fields for name, fields in json_page.read_page().items() if name.split()[0] == command]
    assert sections, f"docs/reference/json.md has no section of {command}"
    rest = min((json_page.unknown(report, fields) for fields in sections), key=len)
    assert not rest, f"docs/reference/json.md has no row in {command} for {', '.join(rest)}"
