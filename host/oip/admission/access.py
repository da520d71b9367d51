"""Access to a server: its token, or for an admin surface without one the origin of a request.

>>> AccessControl("secret").check("/v2/models/m/infer", b"bearer secret")
>>> AccessControl("secret").check("/v2/health/ready", b"")
>>> AccessControl(None).check("/v2", b"")
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ...errors import AccessError, DriverUsageError
from ..wire.statuses import sentence_of

_log = logging.getLogger(__name__)
OPEN = ("/v2/health/live", "/v2/health/ready")  # probes carry no token
PAGE, LOGIN = "/", "/login"  # the live page, and where its field sends the token
PAGES = (PAGE, "/live.json")  # which a cookie opens, too; they only show
SHORTEST = 16


class AccessControl:
    """Compares tokens in constant time; without a token everybody may, but for pages of other origins.

    `certificate_end_s`: the end of that which the surfaces show, None without one. `refused`: requests that
    were.
    """

    def __init__(self, token: str | None, certificate_end_s: float | None = None) -> None:
        self._token = None if token is None else token.encode()
        self._cookie = None if token is None else _cookie_of(token.encode())
        self.certificate_end_s, self.refused = certificate_end_s, 0

    def note(self, who: str, what: str, error: AccessError) -> None:
        """Count a request that was not allowed, and leave one line in the log."""
        self.refused += 1
        _log.warning("%s of %s was refused: %s", what, who, error)

    def check(self, path: str, header: bytes, cookies: bytes = b"") -> None:
        """Raise AccessError unless the header carries the token.

        Probes of health and the login need none, and a page takes the cookie of a login.
        """
        if self._token is None or path in OPEN or path == LOGIN:
            return
        scheme, _, given = header.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return
        if path not in PAGES or not self._knows(cookies):
            raise AccessError("a request must carry this server's token: Authorization: Bearer TOKEN")

    def log_in(self, given: bytes, *, secure: bool) -> str:
        """Return the cookie for a token that was typed in, empty where none is asked for. Raises AccessError.

        The browser keeps it until it is closed and shows it to no script; pages of other sites may link here,
        but send nothing along. It follows from the token: each process of a server knows it, and a new token
        ends it.
        """
        if self._token is None or self._cookie is None:
            return ""
        if not hmac.compare_digest(given, self._token):
            raise AccessError("the token must be the one in this server's token file, and the one given is not")
        return f"{self._cookie}; Path=/; HttpOnly; SameSite=Lax{'; Secure' * secure}"

    def _knows(self, cookies: bytes) -> bool:
        """Return whether a Cookie header has the cookie of a login."""
        assert self._cookie is not None
        expected = self._cookie.encode()
        return any(hmac.compare_digest(cookie.strip(), expected) for cookie in cookies.split(b";"))

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


def _cookie_of(token: bytes) -> str:
    """Return name and value of a login's cookie, from which nobody learns the token.

    The name is the token's own, too: browsers send one cookie jar to all ports of a machine.
    """
    digest = hmac.digest(token, b"fluidnpu live page", hashlib.sha256).hex()
    return f"fluidnpu_{digest[:8]}={digest[8:]}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's loopback.

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
    token = file.read_text(encoding="utf-8").strip().partition("\n")[0].rstrip()
    if len(token) < SHORTEST or not token.isascii() or any(sign.isspace() for sign in token):
        raise DriverUsageError(f"the token in '{file}' must be at least {SHORTEST} printable characters without spaces")
    return token
