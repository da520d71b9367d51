"""Compile the loops of a package with Numba, and cache them under a digest of the package's sources.

Numba's own cache sees changes of the file that holds a compiled function, not of the files that it calls.
Here the cache's folder is named after all Python files of the package, so a loop may be spread over several.

>>> len(Jit("fluidnpu.dse", error_model="numpy").digest)
16
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

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

        with self._cache_folder():
            compiled: F = numba.njit(
                cache=True, no_cpython_wrapper=no_cpython_wrapper, no_cfunc_wrapper=True, **self.options
            )(function)
        return compiled

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over all Python files of the package."""
        key = hashlib.sha256()
        for path in sorted(self.folder.rglob("*.py")):
            key.update(str(path.relative_to(self.folder)).encode() + b"\0" + path.read_bytes() + b"\0")
        return key.hexdigest()[:16]

    @contextmanager
    def _cache_folder(self) -> Iterator[None]:
        """Point Numba at our folder while it makes a function's cache; it asks only then."""
        import numba

        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str((Path(before) if before else self._base()) / self.digest)
        try:
            yield
        finally:
            numba.config.CACHE_DIR = before

    def _base(self) -> Path:
        """Beside the sources where they may be written, else in the user's cache."""
        if os.access(self.folder, os.W_OK):
            return self.folder / "__pycache__" / "numba"
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(home) / "fluidnpu" / "numba"
