"""Regions of POSIX shared memory that clients of this machine put tensors into, and get answers in.

Triton's extension: a client registers a region under a name, and its requests say where in it a tensor lies.
The server reads and writes the object's file and maps nothing, so a region that its client makes smaller or
removes is an error of one request, and never a signal.
Protocol: Triton, docs/protocol/extension_shared_memory.md.
"""

from __future__ import annotations

import ipaddress
import os
import stat
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import AccessError, ConflictError, ProtocolError, TooLargeError, UnknownRegionError, UnsupportedError
from .admission.access import is_loopback
from .local import ADDRESS
from .wire.parameters import LONGEST_ID, abbreviate, is_whole
from .wire.places import Fetch, RegionPlace, Store

OBJECTS = Path("/dev/shm")  # where Linux has them as files
MOST_REGIONS = 64
LONGEST_KEY = 255


@dataclass(frozen=True, slots=True)
class _Region:
    """A registered part of an object, and its file."""

    key: str
    offset: int
    size: int
    file: int


def is_local(address: str) -> bool:
    """Tell if a client's address, as either transport says it, is of this machine.

    >>> [is_local(who) for who in ("unix", "127.0.0.1", "ipv4:127.0.0.1", "ipv6:%5B::1%5D", "ipv4:10.0.0.7")]
    [True, True, True, True, False]
    """
    host = unquote(address.removeprefix("ipv4:").removeprefix("ipv6:")).strip("[]")
    return address == ADDRESS or is_loopback(host) or _is_mapped_loopback(host)


def _is_mapped_loopback(host: str) -> bool:
    """Tell if an address is the loopback of IPv4, as an IPv6 socket shows it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return inner is not None and inner.is_loopback


class Regions:
    """The registered regions of one server, of `most_bytes` together; 0: none may be registered.

    Used on one event loop, but for `read`. Only clients of this machine may ask anything of it: each call has
    the client's address, `who`.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._known: dict[str, _Region] = {}
        self._files = threading.Lock()  # held while one is read or closed, since long JSON is read in a thread

    def register(self, who: str, name: str, key: Any, offset: Any, size: Any) -> None:
        """Open an object and remember a part of it.

        Raises AccessError, UnsupportedError, ProtocolError, ConflictError, TooLargeError, UnknownRegionError.
        """
        if not self._most:
            raise UnsupportedError(
                "shared memory must be allowed where the server starts (--shared-memory), and is not"
            )
        _check_local(who)
        if not 1 <= len(name) <= LONGEST_ID or not name.isprintable():
            raise ProtocolError(f"a region must have a name of 1 to {LONGEST_ID} printable characters")
        if not isinstance(key, str) or not 1 <= len(_plain(key)) <= LONGEST_KEY or set(_plain(key)) & {"/", "\0"}:
            raise ProtocolError(f"the key of region '{name:.60}' must be the name of an object, not {abbreviate(key)}")
        for what, value, least in (("offset", offset, 0), ("byte_size", size, 1)):
            if not is_whole(value) or not least <= value < 1 << 62:
                raise ProtocolError(
                    f"the {what} of region '{name:.60}' must be a whole number from {least}, not {abbreviate(value)}"
                )
        if name in self._known:
            raise ConflictError(f"a region must be registered once, and '{name:.60}' is")
        held = sum(region.size for region in self._known.values())
        if len(self._known) >= MOST_REGIONS:
            raise TooLargeError(f"a server must have at most {MOST_REGIONS} regions, and it has them")
        if held + size > self._most:
            raise TooLargeError(
                f"all regions must have at most {self._most} bytes, and with '{name:.60}' they have {held + int(size)}"
            )
        file = _open_object(name, _plain(key))
        region = _Region(key, int(offset), int(size), file)
        try:
            _check_size(name, region)
        except ProtocolError:
            os.close(file)
            raise
        self._known[name] = region

    def unregister(self, who: str, name: str = "") -> None:
        """Forget a region, or all; one that is not there is none. Raises AccessError."""
        _check_local(who)
        for region_name in [name] if name else list(self._known):
            with self._files:
                if (region := self._known.pop(region_name, None)) is not None:
                    os.close(region.file)

    def status(self, who: str, name: str = "") -> list[dict[str, Any]]:
        """Return name, key, offset and size of a region, or of all. Raises AccessError, ProtocolError."""
        _check_local(who)
        chosen = {name: self._find(name)} if name else self._known
        return [
            {"name": region_name, "key": region.key, "offset": region.offset, "byte_size": region.size}
            for region_name, region in chosen.items()
        ]

    def fetch(self, who: str) -> Fetch:
        """Return `read` for a client."""
        return partial(self.read, who)

    def store(self, who: str) -> Store:
        """Return `write` for a client."""
        return partial(self.write, who)

    def read(self, who: str, place: RegionPlace, most: int) -> bytes:
        """Return the bytes of a place, at most `most`; from any thread.

        Raises AccessError, ProtocolError, TooLargeError.
        """
        with self._files:
            region = self._find_checked(who, place)
            if place.size > most:
                raise TooLargeError(f"a tensor in a region must have at most {most} bytes, not {place.size}")
            parts, at = list[bytes](), 0
            while at < place.size:
                part = os.pread(region.file, place.size - at, region.offset + place.offset + at)
                if not part:
                    raise _shrunk(place.region)
                parts.append(part)
                at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check(self, who: str, place: RegionPlace) -> None:
        """Refuse a place that could not be written. Raises AccessError, ProtocolError."""
        self._find_checked(who, place)

    def write(self, who: str, tensor: str, place: RegionPlace, data: bytes) -> None:
        """Write a tensor's bytes to a place. Raises AccessError, ProtocolError."""
        region = self._find_checked(who, place)
        if len(data) > place.size:
            raise ProtocolError(
                f"output '{tensor:.60}' must have room for its {len(data)} bytes in region '{place.region:.60}', and has "
                f"{place.size}"
            )
        at = 0
        while at < len(data):
            try:
                at += os.pwrite(region.file, memoryview(data)[at:], region.offset + place.offset + at)
            except OSError as error:  # no memory is left
                raise ProtocolError(
                    f"region '{place.region:.60}' must be writable, and it is not: {error.strerror}"
                ) from None

    def close(self) -> None:
        """Forget all regions."""
        self.unregister(ADDRESS)

    def _find(self, name: str) -> _Region:
        region = self._known.get(name)
        if region is None:
            raise UnknownRegionError(f"a region must be registered before it is named, and '{name:.60}' is not")
        return region

    def _find_checked(self, who: str, place: RegionPlace) -> _Region:
        _check_local(who)
        region = self._find(place.region)
        if place.offset + place.size > region.size:
            raise ProtocolError(
                f"a tensor must lie in the {region.size} bytes of region '{place.region:.60}', not in "
                f"{place.offset}..{place.offset + place.size}"
            )
        _check_size(place.region, region)
        return region


def _check_local(who: str) -> None:
    if not is_local(who):
        raise AccessError(
            "shared memory must be used from this machine, and the request came from elsewhere", known=True
        )


def _check_size(name: str, region: _Region) -> None:
    """Refuse an object that has been removed, or is smaller than its region. Raises ProtocolError."""
    now = os.fstat(region.file)
    if not now.st_nlink:
        raise UnknownRegionError(f"region '{name:.60}' must exist, and its object has been removed: unregister it")
    if now.st_size < region.offset + region.size:
        raise ProtocolError(
            f"region '{name:.60}' must have {region.size} bytes from {region.offset}, and its object has {now.st_size}"
        )


def _shrunk(name: str) -> ProtocolError:
    return ProtocolError(f"region '{name:.60}' must keep its size while it is used, and its object became smaller")


def _plain(key: str) -> str:
    return key[1:] if key.startswith("/") else key


def _open_object(name: str, key: str) -> int:
    """Open an object that the server's own user could use without privileges. Raises ProtocolError.

    A server that runs as root could otherwise be made to read and write anybody's.
    """
    try:
        file = os.open(OBJECTS / key, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no name"
        raise UnknownRegionError(
            f"region '{name:.60}' must be an object that can be opened, and is not: {why}"
        ) from None
    about = os.fstat(file)
    groups = (os.getegid(), *os.getgroups())
    allowed = about.st_uid == os.geteuid() or about.st_mode & 0o006 == 0o006
    allowed = allowed or (about.st_gid in groups and about.st_mode & 0o060 == 0o060)
    if not stat.S_ISREG(about.st_mode) or not allowed:
        os.close(file)
        raise ProtocolError(f"region '{name:.60}' must be an object of the server's user, or one that all may write")
    return file
