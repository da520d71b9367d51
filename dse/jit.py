"""Compile the loops of a package with Numba, and cache them under a digest of the package's sources.

Numba's own cache sees changes of the file that holds a compiled function, not of the files that it calls.
Here the cache's folder is named after all Python files of the package, so a loop may be spread over several.
Where no folder can be written, or a cache's file cannot be used, loops are compiled anew in each process.

>>> len(Jit("fluidnpu.dse", error_model="numpy").digest)
16
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


def has_numba() -> bool:
    """Tell if Numba is installed; nothing is loaded, since that takes half a second and a board has none."""
    return find_spec("numba") is not None


class Jit:
    """Decorate the functions of one package: `@jit` inside the loop, `@jit.entry` where Python calls it.

    Without Numba both return the function itself. `options` go to `numba.njit`.
    """

    def __init__(self, package: str, **options: Any) -> None:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(f"package must name an installed package, not {package!r}")
        self.folder = Path(next(iter(spec.submodule_search_locations)))
        self.options = options

    def __call__(self, function: F) -> F:
        """Compile a function that only compiled functions call: it gets no wrapper for Python."""
        return self._compile(function, no_cpython_wrapper=True)

    def entry(self, function: F) -> F:
        """Compile a function that Python calls."""
        return self._compile(function, no_cpython_wrapper=False)

    def _compile(self, function: F, *, no_cpython_wrapper: bool) -> F:
        if not has_numba():
            return function
        import numba

        with self._cache_folder() as cached:
            compiled: F = numba.njit(
                cache=cached, no_cpython_wrapper=no_cpython_wrapper, no_cfunc_wrapper=True, **self.options
            )(function)
        if cached and hasattr(compiled, "_cache"):  # not with NUMBA_DISABLE_JIT
            compiled._cache._guard_against_spurious_io_errors = _tolerate_cache_errors
        return compiled

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over all Python files of the package."""
        key = hashlib.sha256()
        for path in sorted(self.folder.rglob("*.py")):
            key.update(str(path.relative_to(self.folder)).encode() + b"\0" + path.read_bytes() + b"\0")
        return key.hexdigest()[:16]

    @contextmanager
    def _cache_folder(self) -> Iterator[bool]:
        """Point Numba at our folder while it makes a function's cache; it asks only then.

        Yields whether there is such a folder.
        """
        import numba

        before = numba.config.CACHE_DIR
        base = writable_folder(before, str(self.folder / "__pycache__" / "numba"), _user_cache())
        if base is None:
            _warn_of_no_cache(before or _user_cache() or "a home")
        numba.config.CACHE_DIR = str(Path(base) / self.digest) if base else before
        try:
            yield bool(base)
        finally:
            numba.config.CACHE_DIR = before


@lru_cache
def writable_folder(*folders: str) -> str | None:
    """Return the first of the folders that files can be written to, made where it is missing; "" is skipped.

    >>> with tempfile.TemporaryDirectory() as here:
    ...     writable_folder("", "/dev/null/none", here) == here
    True
    """
    for folder in filter(None, folders):
        with suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    return None


def _user_cache() -> str:
    """Return the folder in the user's cache, or "" for a user without a home."""
    with suppress(RuntimeError):
        return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fluidnpu" / "numba")
    return ""


@lru_cache
def _warn_of_no_cache(place: str) -> None:
    _log.warning(
        "compiled loops cannot be kept, so each process compiles its own: neither %s nor the folder of fluidnpu can be "
        "written; NUMBA_CACHE_DIR names another",
        place,
    )


@contextmanager
def _tolerate_cache_errors() -> Iterator[None]:
    """Compile anew where the cache cannot be used: a full disk, a torn file, a file of another user."""
    try:
        yield
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        _warn_of_cache(str(error) or type(error).__name__)


@lru_cache
def _warn_of_cache(reason: str) -> None:
    _log.warning("a compiled loop cannot be kept or read again, so it is compiled anew: %s", reason)
