"""The token that requests must carry, if the server has one.

>>> Access("secret").check("/v2/models/m/infer", b"Bearer secret")
>>> Access("secret").check("/v2/health/ready", b"")
>>> Access(None).check("/v2", b"")
"""

from __future__ import annotations

import hmac
from pathlib import Path

from ..errors import AccessError, DriverUsageError

OPEN = ("/v2/health/live", "/v2/health/ready")  # probes carry no token
SHORTEST = 16


class Access:
    """Compares bearer tokens in constant time; without a token everybody may."""

    def __init__(self, token: str | None) -> None:
        self._expected = None if token is None else b"Bearer " + token.encode()

    def check(self, path: str, header: bytes) -> None:
        """Raise AccessError unless the header carries the token, or the path is a health probe's."""
        if self._expected is None or path in OPEN:
            return
        if not hmac.compare_digest(header, self._expected):
            raise AccessError("a request must carry this server's token: Authorization: Bearer TOKEN")


def read_token(file: Path | None) -> str | None:
    """Return the token in a file's first line. Raises DriverUsageError for one that can be guessed."""
    if file is None:
        return None
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < SHORTEST or not token.isascii() or any(sign.isspace() for sign in token):
        raise DriverUsageError(f"the token in '{file}' must be at least {SHORTEST} printable characters without spaces")
    return token
