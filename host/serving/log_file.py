r"""A log in parts that never stops its writer: what cannot be written is dropped, counted and said once.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     log = LogFile(Path(folder) / "log")
...     log.begin("head", fresh=True)
...     log.write("line")
...     log.flush()
...     (Path(folder) / "log").read_text(), log.dropped, log.close()
('head\nline\n', 0, None)
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import BinaryIO

_log = logging.getLogger(__name__)
RETRY_S = 1.0  # from a failure to the next attempt


def open_part(file: Path) -> BinaryIO:
    """Open a new file that its owner alone may read, since logs name tenants. Raises OSError."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0)


class LogFile:
    """Writes `file`; a full one becomes `file.1`, that one `file.2`, up to `keep` old parts.

    A file that cannot be written ends with its last whole line. The writer asks `due` where a part may begin,
    and `begin` continues the log, after a failure behind a gap. No method raises OSError.
    """

    def __init__(self, file: Path, *, most_bytes: int = 64 << 20, keep: int = 4) -> None:
        self._file, self._most_bytes, self._keep = file, most_bytes, keep
        self._out: BinaryIO | None = None
        self._lines: list[str] = []  # not yet in the file
        self._bytes = 0  # in the file
        self._failed_s: float | None = None
        self.dropped = 0  # lines, over all time

    @property
    def broken(self) -> bool:
        """True from a failure to the next part."""
        return self._failed_s is not None

    @property
    def due(self) -> bool:
        """True where the part is full, or a failure is old enough for another attempt."""
        if self._failed_s is not None:
            return time.monotonic() - self._failed_s >= RETRY_S
        return self._bytes > self._most_bytes

    def begin(self, header: str, *, fresh: bool = False) -> None:
        """Begin a part: in a new file when `fresh` or when this one is full, else behind what it holds."""
        self.flush()
        before, self._failed_s = self.broken, None
        try:
            if fresh or self._out is None or self._bytes > self._most_bytes:
                self._rotate()
        except OSError as error:
            self._fail(error, 0, reported=before)
        self.write(header)
        self._write(reported=before)
        if before and not self.broken:
            _log.warning("'%s' is written again; %d lines were dropped so far", self._file, self.dropped)

    def write(self, line: str) -> None:
        """Take a line without its end; `flush` writes it."""
        if self._failed_s is None:
            self._lines.append(line)
        else:
            self.dropped += 1

    def flush(self) -> None:
        """Give all lines to the system, from where they outlive this process."""
        self._write()

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._write()
        out, self._out = self._out, None
        if out is not None:
            with contextlib.suppress(OSError):
                out.close()

    def _write(self, *, reported: bool = False) -> None:
        lines, self._lines = self._lines, []
        if not lines or self._out is None:
            return
        left = memoryview(("\n".join(lines) + "\n").encode())
        whole, size = self._bytes, len(left)
        try:
            while left:
                left = left[self._out.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):  # else the file ends in half a line
                self._out.seek(whole)
                self._out.truncate()
            self._fail(error, len(lines), reported=reported)
        else:
            self._bytes += size

    def _fail(self, error: OSError, lines: int, *, reported: bool) -> None:
        self.dropped += lines
        self._failed_s = time.monotonic()
        if not reported:
            _log.warning("'%s' cannot be written, so its lines are dropped until it can: %s", self._file, error)

    def _rotate(self) -> None:
        """Close the part, shift the old ones and open the next. Raises OSError."""
        self.close()
        if self._file.exists():
            for number in range(self._keep, 0, -1):
                older = self._file.with_name(f"{self._file.name}.{number}")
                newer = self._file if number == 1 else self._file.with_name(f"{self._file.name}.{number - 1}")
                if newer.exists():
                    newer.replace(older)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._bytes = 0
        self._out = open_part(self._file)
