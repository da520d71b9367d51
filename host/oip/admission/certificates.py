r"""The certificate of a server: whether it belongs to its key, and when it ends.

>>> ends_s(b"\x30\x1e\x17\x0d261126000000Z\x17\x0d271126000000Z")
1827187200.0
"""

from __future__ import annotations

import re
import ssl
from datetime import datetime, timezone
from pathlib import Path

from ...errors import DriverUsageError

_TIME = rb"(?:\x17\x0d(\d{12}Z)|\x18\x0f(\d{14}Z))"
_VALIDITY = re.compile(rb"\x30[\x1e-\x22]" + _TIME + _TIME)  # RFC 5280, 4.1.2.5: two times, in a sequence of their own


def check_pair(certificate: Path, key: Path) -> None:
    """Raise DriverUsageError for files that are no certificate with its key, and OSError for no files."""
    for file in (certificate, key):
        file.read_bytes()  # whose error names the file
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise DriverUsageError(
            f"a certificate must come with its own key in PEM, and '{certificate}' does not with '{key}': {error.reason}"
        ) from None


def ends(certificate: Path) -> float:
    """Return the end of a PEM file's first certificate, in seconds since 1970; NaN where none is read."""
    try:
        text = certificate.read_text(encoding="ascii")
        first = text[text.index(ssl.PEM_HEADER) : text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
        return ends_s(ssl.PEM_cert_to_DER_cert(first))
    except (OSError, ValueError):
        return float("nan")


def ends_s(der: bytes) -> float:
    """Return the end of a certificate in DER, in seconds since 1970. Raises ValueError where it has none."""
    dates = _VALIDITY.search(der)
    if dates is None:
        raise ValueError("a certificate must have a validity, and this has none")
    short, long = dates[3], dates[4]
    century = b"" if long else b"20" if short < b"50" else b"19"  # of two digits, as RFC 5280 reads them
    text = (century + (long or short)).decode("ascii")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
