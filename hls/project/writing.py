"""Writing of a project into a folder without loss of the user's files.

It replaces and removes only files that an earlier project's manifest lists, with the digest listed there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import ProjectError
from .project import MANIFEST, MANIFEST_SCHEMA


def write_project(files: Mapping[str, str | bytes], out: Path | str) -> None:
    """Write a project into a new or empty folder, or over an earlier project.

    Files of the earlier project that are no longer part of it are removed. ProjectError, before anything is
    written, when a file that the user changed or made is in the way.
    """
    folder = Path(out)
    earlier = check_folder(folder)
    new = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    for name in sorted({*earlier, *new}):
        known = {earlier.get(name), _sha256(new[name]) if name in new else None}
        if not _may_replace(folder, name, known):
            raise ProjectError(
                "a project replaces only files that an earlier one wrote and nobody changed since, "
                f"and '{folder / name}' is none: move it away, or write into another folder"
            )
    for name in set(earlier) - set(new):
        _remove(folder, name)
    # Into a new folder the manifest goes first, over an earlier project last, so that a run that was stopped
    # halfway can be repeated.
    for name in sorted(new, key=lambda name: (name == MANIFEST) == bool(earlier)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(new[name])


def check_folder(folder: Path) -> dict[str, str]:
    """List the files of an earlier project in a folder, the manifest included: name -> SHA-256.

    Empty for a new or empty folder; ProjectError for any other.
    """
    if folder.exists() and not folder.is_dir():
        raise ProjectError(f"a project is written into a folder, and '{folder}' is a file")
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    earlier = _earlier(folder)
    if earlier is None:
        raise ProjectError(
            f"a project is written into an empty folder or over an earlier project, and '{folder}' holds files "
            "without a manifest of one"
        )
    return earlier


def _may_replace(folder: Path, name: str, known: set[str | None]) -> bool:
    """True when a file's place is free, or holds content of a known SHA-256."""
    path = folder / name
    if path.is_file():
        return _sha256(path.read_bytes()) in known
    parents = [folder / parent for parent in Path(name).parents]
    return not os.path.lexists(path) and all(parent.is_dir() for parent in parents if os.path.lexists(parent))


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folders that it leaves empty."""
    (folder / name).unlink(missing_ok=True)
    for parent in list(Path(name).parents)[:-1]:
        with suppress(OSError):  # not empty, or already gone
            (folder / parent).rmdir()


def _earlier(folder: Path) -> dict[str, str] | None:
    """The files that an earlier manifest lists, and itself: name -> SHA-256; None without one."""
    try:
        raw = (folder / MANIFEST).read_bytes() if (folder / MANIFEST).is_file() else b""
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    files = body.get("files") if isinstance(body, dict) and body.get("schema") == MANIFEST_SCHEMA else None
    if not isinstance(files, dict) or not files or not {"design", "build_id"} <= set(body):
        return None
    inside = all(name.isprintable() and not Path(name).is_absolute() and ".." not in Path(name).parts for name in files)
    if not inside or not all(
        isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest) for digest in files.values()
    ):
        return None
    return {**files, MANIFEST: _sha256(raw)}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
