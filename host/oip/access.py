"""Access to a server: its token, or for an admin surface without one the origin of a request.

>>> Access("secret").check("/v2/models/m/infer", b"bearer secret")
>>> Access("secret").check("/v2/health/ready", b"")
>>> Access(None).check("/v2", b"")
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import AccessError, DriverUsageError
from .statuses import sentence_of

_log = logging.getLogger(__name__)
OPEN = ("/v2/health/live", "/v2/health/ready")  # probes carry no token
PAGES = ("/", "/live.json")  # which a browser asks for, with the token as the password of any user
SHORTEST = 16


class Access:
    """Compares tokens in constant time; without a token everybody may, but for pages of other origins.

    `certificate_end_s`: the end of that which the surfaces show, None without one. `refused`: requests that
    were.
    """

    def __init__(self, token: str | None, certificate_end_s: float | None = None) -> None:
        self._token = None if token is None else token.encode()
        self.certificate_end_s, self.refused = certificate_end_s, 0

    def note(self, who: str, what: str, error: AccessError) -> None:
        """Count a request that was not allowed, and leave one line in the log."""
        self.refused += 1
        _log.warning("%s of %s was refused: %s", what, who, error)

    def check(self, path: str, header: bytes) -> None:
        """Raise AccessError unless the header carries the token, or the path is a health probe's."""
        if self._token is None or path in OPEN:
            return
        scheme, _, given = header.partition(b" ")
        given = given.strip()
        if path in PAGES and scheme.lower() == b"basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                given = b""
        elif scheme.lower() != b"bearer":
            given = b""
        if not hmac.compare_digest(given, self._token):
            raise AccessError("a request must carry this server's token: Authorization: Bearer TOKEN")

    def check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise AccessError where a browser may have sent a change, or a read of it, for a page of others.

        A token keeps them out, too, since no page knows it. Without one the surface listens on the loopback,
        so its Host is that; a name that was made to point here is another.
        """
        if self._token is not None:
            return
        host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin")
        if not is_loopback(_name_of(host)):
            raise AccessError(
                f"an admin surface without a token must be asked as localhost, not '{host:.60}'", known=True
            )
        if origin is not None and origin.partition(b"://")[2].decode("latin-1") != host:
            raise AccessError(
                f"an admin surface without a token is for no page, and one of {origin[:60].decode('latin-1')!r} asks",
                known=True,
            )
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind not in (b"", b"application/json"):  # what a form can send
            raise AccessError("a change must come as Content-Type: application/json", known=True)


def is_loopback(host: str) -> bool:
    """Tell if a host is this machine's loopback.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "npu.example")]
    [True, True, True, False, False]
    """
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


@contextmanager
def acting(who: str, act: str) -> Iterator[None]:
    """Leave one line in the log about an act on the admin surface: by whom, and how it ended."""
    try:
        yield
    except Exception as error:
        _log.warning("%s by %s failed: %s", act, who, sentence_of(error))
        raise
    _log.warning("%s by %s", act, who)


def read_token(file: Path | None) -> str | None:
    """Return the token in a file's first line. Raises DriverUsageError for one that can be guessed."""
    if file is None:
        return None
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < SHORTEST or not token.isascii() or any(sign.isspace() for sign in token):
        raise DriverUsageError(f"the token in '{file}' must be at least {SHORTEST} printable characters without spaces")
    return token
