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
from datetime import datetime, timezone

LEVELS = ("debug", "info", "warning", "error")
_USUAL = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, `extra` and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def configure_logging(level: str = "warning", *, requests: bool = False) -> None:
    """Log the package's own loggers at a level as JSON lines; `requests`: one line a request, too."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger("fluidnpu")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())
    for name in ("uvicorn.error", "asyncio"):  # a broken request is no news, a broken server is
        logging.getLogger(name).handlers[:] = [handler]
        logging.getLogger(name).propagate = False
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("fluidnpu.requests").setLevel(logging.INFO if requests else logging.CRITICAL)
