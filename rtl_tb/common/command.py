"""Ends a command of the room as a command line wants it: an exit code, one sentence, no traceback.

>>> ended(lambda: 1, "example")
1
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_INTERRUPTED, _READER_GONE = 130, 141  # as shells tell them


def ended(main: Callable[[], int | None], name: str) -> int:
    """Run a command's `main` and return the exit code.

    Ctrl-C is told in one sentence; when the reader of a pipe has gone, nothing is.
    """
    try:
        code = main() or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # What is still in the buffer must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    return code
