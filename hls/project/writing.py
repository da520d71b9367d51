"""Writing a project's files into a folder without losing anything that is not ours.

Only what the manifest of an earlier project names, with the digest that it names, is replaced or removed.
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
    """Write a project into a new or empty folder, or over an earlier project; ProjectError before anything of the user's is lost.

    Files of the earlier project that are no longer part of it are removed; those that were changed since are refused, not overwritten.
    """
    folder = Path(out)
    earlier = check_folder(folder)
    new = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    for name in sorted({*earlier, *new}):
        known = {earlier.get(name), _sha256(new[name]) if name in new else None}
        if not _may_replace(folder, name, known):
            raise ProjectError(
                f"a project replaces only files that an earlier one wrote and nobody changed since, and '{folder / name}' is none: "
                "move it away, or write into another folder"
            )
    for name in set(earlier) - set(new):
        _remove(folder, name)
    # Into a new folder the manifest goes first, over an earlier project last: so whoever is stopped in the middle may write the same again.
    for name in sorted(new, key=lambda name: (name == MANIFEST) == bool(earlier)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(new[name])


def check_folder(folder: Path) -> dict[str, str]:
    """Name -> SHA-256 of what an earlier project wrote into a folder, the manifest included; nothing for a new or empty one.

    Raises ProjectError for any other folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ProjectError(f"a project is written into a folder, and '{folder}' is a file")
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    earlier = _earlier(folder)
    if earlier is None:
        raise ProjectError(
            f"a project is written into an empty folder or over an earlier project, and '{folder}' holds files without a manifest of one"
        )
    return earlier


def _may_replace(folder: Path, name: str, known: set[str | None]) -> bool:
    """Whether nothing is in the place of a file, or content of a known SHA-256."""
    path = folder / name
    if path.is_file():
        return _sha256(path.read_bytes()) in known
    above = [folder / parent for parent in Path(name).parents]
    return not os.path.lexists(path) and all(one.is_dir() for one in above if os.path.lexists(one))


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folders that it leaves empty."""
    (folder / name).unlink(missing_ok=True)
    for parent in list(Path(name).parents)[:-1]:
        with suppress(OSError):  # not empty, or already gone
            (folder / parent).rmdir()


def _earlier(folder: Path) -> dict[str, str] | None:
    """Name -> SHA-256 of what the manifest of an earlier project names, and of the manifest; None where there is none of ours."""
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
