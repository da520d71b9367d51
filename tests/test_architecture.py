"""The layout is a promise: rooms on disk are packages in pyproject, and imports run only along the drawn arrows."""

import ast
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
    "scheduler": {"dse"},
    "host": {"boards", "models", "dse", "hls", "rtl_tb", "scheduler"},
    "fluidnpu": {"boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host"},
}
ONLY_IN = {"torch": {"models"}, "pynq": {"host"}, "jinja2": {"hls", "rtl_tb", "fluidnpu"}, "cocotb": {"rtl_tb"}}


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
            assert not rest or rest == "testing", f"{path.relative_to(ROOT)} imports {name}: use the surface of {top}"


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
    import subprocess

    code = (
        "import sys; from fluidnpu import boards, models, dse, hls, scheduler, host\n"
        "heavy = {'torch', 'pynq', 'ray', 'cocotb', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported at start: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
