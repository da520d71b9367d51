"""The files that decide what a program prints: its imports, followed through the rooms' doors.

Sources are parsed and never run. A door's stub leads to the module that defines a name, so a page that uses
`fluidnpu.dse` alone does not depend on `host`. Data of a room (templates, boards, RTL, fitted constants)
belong to all that uses the room. Versions of other packages are not followed.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies")
# Files that load modules by name: what they may load, or nothing where a command line names it.
BY_NAME = {
    "fluidnpu/cli.py": (),
    "fluidnpu/commands/config.py": (),
    "fluidnpu/commands/helpers/spreading.py": (),
    "fluidnpu/commands/helpers/surfaces.py": (),
    "studies/catalogue.py": (),
    "scheduler/policies/registry.py": ("scheduler/policies/**/*.py", "scheduler/compiled/*.py"),
}
PRINTED_DOCSTRINGS = "fluidnpu/commands/"  # click prints them as help
NOT_DATA = {".py", ".pyi", ".md", ".pyc", ".typed"}


class Tree:
    """A checkout whose files are read at most once.

    `root`: the folder that holds the rooms.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root.resolve()
        self._imports: dict[Path, frozenset[Path]] = {}
        self._digests: dict[Path, str] = {}
        self._doors: dict[Path, dict[str, Path]] = {}
        self._data: dict[str, tuple[Path, ...]] = {}

    def inputs(self, roots: Iterable[Path]) -> set[Path]:
        """Give the roots, all modules that they import, directly or not, and the data of the rooms met."""
        inputs: set[Path] = set()
        ahead = list(roots)
        while ahead:
            path = ahead.pop()
            if path not in inputs:
                inputs.add(path)
                ahead += self.imports(path) if path.suffix == ".py" else ()
        modules = {path.relative_to(self.root).parts for path in inputs if path.suffix == ".py"}
        for room in {parts[0] for parts in modules} & set(ROOMS):
            inputs.update(self.data(room))
        for folder in {parts[1] for parts in modules if parts[0] == "studies" and len(parts) > 2}:
            inputs.update(self.data(f"studies/{folder}"))
        return inputs

    def room(self, path: Path) -> str:
        """Name the top-level folder of a file."""
        return path.relative_to(self.root).parts[0]

    def data(self, folder: str) -> tuple[Path, ...]:
        """List the files of a room, or of one study, that are read and not imported."""
        if folder not in self._data:
            files = (self.root / folder).rglob("*") if folder != "studies" else ()
            kept = (path for path in files if path.is_file() and path.suffix not in NOT_DATA)
            self._data[folder] = tuple(sorted(path for path in kept if not _left_by_a_run(path)))
        return self._data[folder]

    def digest(self, path: Path) -> str:
        """Digest a file; of Python without comments, and without docstrings that nothing prints."""
        if path not in self._digests:
            content = path.read_bytes()
            if path.suffix == ".py":
                keep = path.relative_to(self.root).as_posix().startswith(PRINTED_DOCSTRINGS)
                content = meaning(content.decode(), docstrings=keep).encode()
            self._digests[path] = hashlib.sha256(content).hexdigest()
        return self._digests[path]

    def imports(self, path: Path) -> frozenset[Path]:
        """Give the files of the checkout that a file imports, also inside functions."""
        if path not in self._imports:
            name = path.relative_to(self.root).as_posix()
            imported = set(self.imported(ast.parse(path.read_text(encoding="utf-8")), path.parent))
            for pattern in BY_NAME.get(name, ()):
                imported.update(self.root.glob(pattern))
            package = path.parent / "__init__.py"
            self._imports[path] = frozenset(imported | ({package} if package.is_file() else set()))
        return self._imports[path]

    def imported(self, code: ast.Module, folder: Path) -> Iterator[Path]:
        """Resolve the imports of parsed code that stands in a folder."""
        packages: dict[str, Path] = {}
        for node in ast.walk(code):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    place = self.place(alias.name, folder)
                    yield from self._module(place)
                    if place and place.is_dir():
                        packages[alias.asname or alias.name] = place
            elif isinstance(node, ast.ImportFrom):
                base: Path | None = folder
                if node.level:
                    for _ in range(node.level - 1):
                        base = base.parent if base else None
                    base = base.joinpath(*(node.module or "").split(".")) if base else None
                else:
                    base = self.place(node.module or "", folder)
                if base is None:
                    continue
                for alias in node.names:
                    yield from self.named(base, alias.name)
                    inner = self.place(f"fluidnpu.{alias.name}", folder) if base == self.root / "fluidnpu" else None
                    inner = inner or base / alias.name
                    if inner.is_dir():
                        packages[alias.asname or alias.name] = inner
        for node in ast.walk(code):
            if isinstance(node, ast.Attribute) and (dotted := _dotted(node.value)) in packages:
                yield from self.named(packages[dotted], node.attr)

    def place(self, name: str, folder: Path) -> Path | None:
        """Find the folder or file (without `.py`) of a dotted name; None for what is not of this checkout."""
        first, *rest = name.split(".")
        if first == "fluidnpu":
            return self.root.joinpath(*rest) if rest and rest[0] in ROOMS else self.root.joinpath(first, *rest)
        beside = folder / first
        if beside.with_suffix(".py").is_file() and not (folder / "__init__.py").is_file():  # scripts side by side
            return beside
        top = self.root / first
        return self.root.joinpath(first, *rest) if first in ("workshop", "docs") and top.is_dir() else None

    def named(self, base: Path, name: str) -> Iterator[Path]:
        """Give the files of one name of a module or package."""
        if base.with_suffix(".py").is_file():
            yield from self._module(base)
            return
        if not base.is_dir():
            return
        door = self.door(base)
        if name in door:
            yield from self._module(door[name])
        elif base == self.root / "fluidnpu" and name in ROOMS:
            yield from self._module(self.root / name)
        else:
            inner = base / name
            yield from self._module(inner if inner.is_dir() or inner.with_suffix(".py").is_file() else base)

    def door(self, package: Path) -> dict[str, Path]:
        """Read the names that a package's stub shows, each with the place of its module."""
        if package not in self._doors:
            names: dict[str, Path] = {}
            stub = package / "__init__.pyi"
            for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))) if stub.is_file() else ():
                if isinstance(node, ast.ImportFrom):
                    base = package
                    for _ in range(node.level - 1):
                        base = base.parent
                    parts = (node.module or "").split(".")
                    place = self._real(base.joinpath(*parts)) if node.level else self.place(node.module or "", package)
                    for alias in node.names:
                        if place is not None:
                            deeper = self.door(place).get(alias.name) if place.is_dir() and place != package else None
                            # A stub may show a module of the package: `from . import policies as policies`.
                            inner = place / alias.name
                            is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                            names[alias.asname or alias.name] = deeper or (inner if is_module else place)
            self._doors[package] = {name: self._real(place) for name, place in names.items()}
        return self._doors[package]

    def _real(self, place: Path) -> Path:
        """Leave the front door's links: `fluidnpu/dse` is `dse`."""
        parts = place.relative_to(self.root).parts
        return (
            self.root.joinpath(*parts[1:])
            if len(parts) > 1 and parts[:1] == ("fluidnpu",) and parts[1] in ROOMS
            else place
        )

    def _module(self, place: Path | None) -> Iterator[Path]:
        """Give the file of a module or the `__init__.py` of a package."""
        if place is None:
            return
        place = self._real(place)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if path.is_file():
                yield path
                return


def _left_by_a_run(path: Path) -> bool:
    """Tell caches and hidden files, which a fresh checkout has not."""
    return path.name.startswith(".") or "__pycache__" in path.parts or any(p.endswith(".egg-info") for p in path.parts)


def _dotted(node: ast.expr) -> str:
    """Write a chain of attributes as text: `fluidnpu.dse`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


@cache
def meaning(source: str, *, docstrings: bool = False) -> str:
    r"""Give Python source without comments, empty lines and, unless asked for, docstrings.

    >>> meaning('def f():  # why\n    "It says."\n\n    return "# 1"\n')
    'def f():\n    return "# 1"'
    """
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    if not docstrings:
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                if first.lineno == getattr(node, "lineno", 0):
                    continue  # on the line of its `def`
                lines[first.lineno - 1 : first.end_lineno] = ["\n"] * ((first.end_lineno or 0) - first.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
