"""Logs of a running command on standard error, as lines for people or as one JSON object a line.

Every module logs to `logging.getLogger(__name__)`, which lies under "fluidnpu"; as a library nothing is shown
until the program around it sets up logging.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLogFormatter(logging.Formatter):
    """One object a record: time (UTC), level, logger, message, what was given as `extra`, and the traceback.

    >>> record = logging.makeLogRecord({"name": "fluidnpu.dse", "msg": "%d arrays", "args": (3,)})
    >>> json.loads(JsonLogFormatter().format(record))["message"]
    '3 arrays'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        line = {key: value for key, value in vars(record).items() if key not in _PLAIN}
        line |= {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, sort_keys=True, default=str)


def start_logging(level: str, form: str) -> None:
    """Show records of `fluidnpu` from a level on; calling it again replaces the earlier choice."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(JsonLogFormatter() if form == "json" else text)
    logger = logging.getLogger("fluidnpu")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
