"""What every command's refusal must be."""

from click.testing import Result


def refused(result: Result, *must_say: str, code: int = 2) -> None:
    """One sentence on standard error that says what it must, no traceback, the right exit code."""
    assert result.exit_code == code, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    for words in must_say:
        assert words in lines[0]
