"""Writing of a project into a folder without loss of the user's files, by one writer at a time.

It replaces and removes only files that an earlier project's manifest lists, with the digest listed there. All
files are whole beside their places before the first is moved there, so a full disk changes nothing. While
they are moved, a journal lists every digest, old and new: whoever is stopped then may write again, the same
project or another.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from fluidnpu.models.files import is_leftover, one_writer, write_files

from ..errors import ProjectError
from .project import MANIFEST, MANIFEST_SCHEMA

JOURNAL = ".fluidnpu-project.json"  # there while files are moved into their places
Files = Mapping[str, str | bytes]
_Known = dict[str, set[str]]  # a file's name and every SHA-256 that content of ours may have


def write_project(files: Files, out: Path | str) -> None:
    """Write a project into a new or empty folder, or over an earlier project.

    Files of the earlier project that are no longer part of it are removed. ProjectError, before anything is
    written, when a file that the user changed or made is in the way; the errors of `models.files`, too.
    """
    with project_folder(out) as write:
        write(files)


@contextmanager
def project_folder(out: Path | str) -> Iterator[Callable[[Files], None]]:
    """Hold a folder for a project while it is made; call the value to write the project there.

    Raises ProjectError for a folder with other content, `models.files.BusyError` when another writer holds
    it.
    """
    folder = Path(out)
    check_folder(folder)
    with one_writer(folder):
        check_folder(folder)  # the writer before may have left something else
        yield partial(_write, folder)


def _write(folder: Path, files: Files) -> None:
    earlier = check_folder(folder)
    new = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    digests_of = {name: set(digests) for name, digests in earlier.items()}
    for name, content in new.items():
        digests_of.setdefault(name, set()).add(_sha256(content))
    for name in sorted(digests_of):
        if not _may_replace(folder, name, digests_of[name]):
            raise ProjectError(
                "a project replaces only files that an earlier one wrote and nobody changed since, "
                f"and '{folder / name}' is none: move it away, or write into another folder"
            )
    order = sorted(new, key=lambda name: name == MANIFEST)  # it comes last: where it is, the project is whole
    journal = json.dumps({name: sorted(digests) for name, digests in sorted(digests_of.items())})
    write_files({folder / JOURNAL: journal, **{folder / name: new[name] for name in order}})
    for name in set(earlier) - set(new) - {JOURNAL}:
        _remove(folder, name)
    (folder / JOURNAL).unlink()


def check_folder(folder: Path) -> _Known:
    """List the files of an earlier project in a folder, the manifest included, with the digests of each.

    Empty for a folder that is new or holds no file. Raises ProjectError for any other.
    """
    if folder.exists() and not folder.is_dir():
        raise ProjectError(f"a project is written into a folder, and '{folder}' is a file")
    if not folder.exists() or not _holds_files(folder):
        return {}
    earlier = _journal(folder) or _earlier(folder)
    if earlier is None:
        raise ProjectError(
            f"a project is written into an empty folder or over an earlier project, and '{folder}' holds files "
            "without a manifest of one"
        )
    return earlier


def is_whole(folder: Path) -> bool:
    """Tell if a project's folder was written to the end; False after a writer that was stopped."""
    return not (folder / JOURNAL).exists()


def _holds_files(folder: Path) -> bool:
    """True when anything but folders and the traces of a stopped writer lies in a folder."""
    return any(not path.is_dir() and not is_leftover(path) for path in folder.rglob("*"))


def _may_replace(folder: Path, name: str, digests: set[str]) -> bool:
    """True when a file's place is free, or holds content of a known SHA-256."""
    path = folder / name
    if path.is_file():
        return _sha256(path.read_bytes()) in digests
    parents = [folder / parent for parent in Path(name).parents]
    return not os.path.lexists(path) and all(parent.is_dir() for parent in parents if os.path.lexists(parent))


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folders that it leaves empty."""
    (folder / name).unlink(missing_ok=True)
    for parent in list(Path(name).parents)[:-1]:
        with suppress(OSError):  # not empty, or already gone
            (folder / parent).rmdir()


def _earlier(folder: Path) -> _Known | None:
    """The files that an earlier manifest lists, and itself; None without one."""
    raw, body = _read_json(folder / MANIFEST)
    files = body.get("files") if isinstance(body, dict) and body.get("schema") == MANIFEST_SCHEMA else None
    if not isinstance(files, dict) or not files or not {"design", "build_id"} <= set(body):
        return None
    return _checked({name: [digest] for name, digest in files.items()} | {MANIFEST: [_sha256(raw)]})


def _journal(folder: Path) -> _Known | None:
    """The files that a stopped writer may have left or replaced; None without a journal."""
    raw, body = _read_json(folder / JOURNAL)
    if not isinstance(body, dict) or MANIFEST not in body:
        return None
    return _checked(body | {JOURNAL: [_sha256(raw)]})


def _checked(listed: Mapping[str, Any]) -> _Known | None:
    """The names with their digests if all lie inside the folder and are digests; None otherwise."""
    for name, digests in listed.items():
        inside = name.isprintable() and not Path(name).is_absolute() and ".." not in Path(name).parts
        if not inside or not isinstance(digests, list) or not all(map(_is_digest, digests)):
            return None
    return {name: set(digests) for name, digests in listed.items()}


def _is_digest(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _read_json(path: Path) -> tuple[bytes, Any]:
    try:
        raw = path.read_bytes() if path.is_file() else b""
        return raw, json.loads(raw)
    except (ValueError, RecursionError):
        return b"", None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
