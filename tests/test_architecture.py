"""The layout is a promise: rooms have few entries and lazy doors, and imports run only along the drawn
arrows.
"""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT: dict[str, set[str]] = {
    "boards": set(),
    "models": set(),
    "dse": {"boards", "models"},
    "hls": {"boards", "models", "dse"},
    "rtl_tb": {"boards", "models", "dse", "hls"},
    "scheduler": {"models", "dse"},
    "host": {"boards", "models", "dse", "hls", "rtl_tb", "scheduler"},
    "studies": {"boards", "models", "dse", "scheduler"},
    "fluidnpu": {"boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies"},
}
ONLY_IN = {
    "torch": {"models"},
    "pynq": {"host"},
    "jinja2": {"hls", "fluidnpu", "studies"},
    "cocotb": {"rtl_tb"},
    "ray": {"host"},
}
MOST_ENTRIES = 12  # files and folders at the top of a room
MOST_NAMES = 25  # that a room, or an inner folder with a door of its own, shows to other rooms


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports absolutely."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_follow_the_arrows(room: str) -> None:
    for path in sources(room):
        for name in imports(path):
            top, _, rest = name.removeprefix("fluidnpu.").partition(".")
            if top == room or top not in MAY_IMPORT:
                continue
            assert top in MAY_IMPORT[room], f"{path.relative_to(ROOT)} imports {name}: {room} must not know {top}"
            door = not rest or (ROOT / top / rest / "__init__.pyi").is_file()
            assert door or rest == "testing", f"{path.relative_to(ROOT)} imports {name}: use a door of {top}"


def resolved(path: Path) -> Iterator[Path]:
    """Yield the files of the same room that a file imports, also inside functions and for type checkers."""
    package = path.parent
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = package
        for _ in range(node.level - 1):
            base = base.parent
        base = base.joinpath(*(node.module or "").split("."))
        if base.with_suffix(".py").is_file():
            yield base.with_suffix(".py")
            continue
        for alias in node.names:
            inner = base / f"{alias.name}.py"
            yield inner if inner.is_file() else base / "__init__.py"


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """One circle of the graph, as the nodes along it; empty when there is none."""
    done: set[str] = set()

    def walk(node: str, trail: list[str]) -> list[str]:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return []
        for following in sorted(arrows.get(node, ())):
            if found := walk(following, [*trail, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(arrows) if (found := walk(node, []))), [])


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_files_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    top = ROOT / room
    files = {path: set(resolved(path)) for path in sources(room)}
    names = {str(a.relative_to(top)): {str(b.relative_to(top)) for b in found} for a, found in files.items()}
    assert not circle(names), " -> ".join(circle(names))

    def folder(name: str) -> str:
        head, slash, _ = name.partition("/")
        return head + slash

    folders: dict[str, set[str]] = {}
    for a, found in names.items():
        folders.setdefault(folder(a), set()).update(folder(b) for b in found if folder(b) != folder(a))
    assert not circle(folders), " -> ".join(circle(folders))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_has_few_entries(room: str) -> None:
    found = sorted(p.name for p in (ROOT / room).iterdir() if p.name != "__pycache__" and not p.is_symlink())
    assert len(found) <= MOST_ENTRIES, f"{room} has {len(found)} entries at its top: {', '.join(found)}"


@pytest.mark.parametrize("stub", sorted(p for room in MAY_IMPORT for p in (ROOT / room).rglob("__init__.pyi")))
def test_a_door_shows_few_names(stub: Path) -> None:
    names = [a.name for n in ast.walk(ast.parse(stub.read_text())) if isinstance(n, ast.ImportFrom) for a in n.names]
    assert len(names) == len(set(names)) <= MOST_NAMES, f"{stub.relative_to(ROOT)} shows {len(names)} names"


@pytest.mark.parametrize("room", sorted(set(MAY_IMPORT) - {"fluidnpu"}))
def test_importing_a_room_loads_its_door_only(room: str) -> None:
    code = (
        f"import sys; old = set(sys.modules); import fluidnpu.{room}\n"
        "print(*sorted(m for m in set(sys.modules) - old if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(done.stdout.split()) == {"fluidnpu", f"fluidnpu.{room}", "lazy_loader"}


@pytest.mark.parametrize("room", sorted(set(MAY_IMPORT) - {"fluidnpu"}))
def test_every_name_of_a_door_can_be_had(room: str) -> None:
    for stub in sorted((ROOT / room).rglob("__init__.pyi")):
        package = ".".join(("fluidnpu", *stub.parent.relative_to(ROOT).parts))
        door = importlib.import_module(package)
        for name in door.__all__:
            assert getattr(door, name) is not None


@pytest.mark.parametrize(("package", "rooms"), ONLY_IN.items())
def test_heavy_packages_stay_in_their_room(package: str, rooms: set[str]) -> None:
    for room in set(MAY_IMPORT) - rooms:
        for path in sources(room):
            found = [name for name in imports(path) if name.partition(".")[0] == package]
            assert not found, f"{path.relative_to(ROOT)} imports {package}, which belongs in {', '.join(sorted(rooms))}"


def test_pynq_and_torch_have_one_file_each() -> None:
    for package, room, limit in (("pynq", "host", 1), ("torch", "models", 3)):
        files = [p.name for p in sources(room) if any(n.partition(".")[0] == package for n in imports(p))]
        assert 1 <= len(files) <= limit, f"{package} is imported in {files}"


def test_every_room_is_a_folder_at_the_root_and_a_link_in_the_front_door() -> None:
    for room in set(MAY_IMPORT) - {"fluidnpu"}:
        link = ROOT / "fluidnpu" / room
        assert link.is_symlink(), f"fluidnpu/{room} must be a link"
        assert link.readlink() == Path("..") / room
        assert (ROOT / room / "__init__.py").is_file()
    links = {path.name for path in (ROOT / "fluidnpu").iterdir() if path.is_symlink()}
    assert links == set(MAY_IMPORT) - {"fluidnpu"}


def test_every_folder_with_python_is_a_package() -> None:
    for room in MAY_IMPORT:
        for path in sources(room):
            assert (path.parent / "__init__.py").is_file(), f"{path.parent.relative_to(ROOT)} lacks __init__.py"


def test_no_room_is_imported_under_a_second_name() -> None:
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/*.py")]:
        for name in imports(path):
            top = name.partition(".")[0]
            assert top == "fluidnpu" or top not in MAY_IMPORT, f"{path.relative_to(ROOT)} imports {name}"


def test_every_room_states_its_contract() -> None:
    for room in MAY_IMPORT:
        for path in sources(room):
            text = path.read_text(encoding="utf-8")
            if text.strip():
                assert ast.get_docstring(ast.parse(text)), f"{path.relative_to(ROOT)} does not begin with its contract"


def test_a_bare_import_needs_only_the_base() -> None:
    code = (
        "import sys; from fluidnpu import boards, models, dse, hls, scheduler, host\n"
        "heavy = {'torch', 'pynq', 'ray', 'cocotb', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported at start: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
