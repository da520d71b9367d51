"""Structured logs: the standard library's logging, a JSON object a line on standard error.

>>> import logging
>>> record = logging.LogRecord("fluidnpu.requests", logging.INFO, "", 0, "request", None, None)
>>> record.status = 200
>>> '"message": "request"' in JsonLines().format(record), '"status": 200' in JsonLines().format(record)
(True, True)
"""

from __future__ import annotations

import json
import logging
import os
import select
from datetime import datetime, timezone
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
_PIECE = 512  # bytes that a pipe takes at once or not at all, on every system
_USUAL = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, `extra` and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class Lossy(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, and drops those that a full disk or a reader that stalls does not take.

    A line that comes through says how many were dropped before it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self.dropped = 0  # lines, over all time
        self._said = 0
        self._torn = False  # the last line was written in part

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record's line, or count it."""
        try:
            line = self.format(record) + "\n"
            if self.dropped > self._said:
                lost = f"{self.dropped - self._said} lines of this log were dropped before this one"
                more = logging.LogRecord(__name__, logging.WARNING, "", 0, lost, None, None)
                line = f"{self.format(more)}\n{line}"
            before = self.dropped
            self._write(line)
            self._said = before
        except (OSError, ValueError):  # ValueError: the stream is closed
            self.dropped += 1

    def _write(self, line: str) -> None:
        """Write to the stream without waiting for its reader. Raises OSError."""
        try:
            fd = self.stream.fileno()
        except OSError:  # a stream in memory
            self.stream.write(line)
            return
        left = ("\n" * self._torn + line).encode(errors="backslashreplace")
        while left:
            if not select.select((), (fd,), (), 0)[1]:
                raise BlockingIOError("the reader of the log has stalled")
            left = left[os.write(fd, left[:_PIECE]) :]
            self._torn = bool(left)


def dropped_lines() -> int:
    """Return the lines of the log that could not be written."""
    return sum(handler.dropped for handler in logging.getLogger("fluidnpu").handlers if isinstance(handler, Lossy))


def configure_logging(level: str = "warning", *, requests: bool = False) -> None:
    """Log the package's own loggers at a level as JSON lines; `requests`: one line a request, too."""
    handler = Lossy()
    handler.setFormatter(JsonLines())
    root = logging.getLogger("fluidnpu")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())
    for name in ("uvicorn.error", "asyncio", "opentelemetry"):  # a broken request is no news, a broken server is
        logging.getLogger(name).handlers[:] = [handler]
        logging.getLogger(name).propagate = False
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("fluidnpu.requests").setLevel(logging.INFO if requests else logging.CRITICAL)
