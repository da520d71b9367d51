"""The layout is a promise: rooms have few entries and lazy doors, and imports run only along the drawn
arrows.
"""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
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
MOST_ENTRIES = 13  # files and folders at the top of a room
MOST_FILES = 20  # Python files of one folder
PROMISED = {  # names of doors that users were promised, though no other room uses them
    "fluidnpu.host.Runtime": "docs/how-to/own-exit-criterion.md gives it a rule",
    "fluidnpu.host.fleet.RayEngine": "fluidnpu/commands/helpers/spreading.py asks for it by name",
    "fluidnpu.host.oip.Client": "fluidnpu.connect returns it, and the reference shows its methods",
    "fluidnpu.host.oip.Inference": "Client.infer returns it, and the reference shows its fields",
    "fluidnpu.models.images.read_image_file": "0.1.0 showed it as models.read_image_file",
    "fluidnpu.scheduler.policies.estimates_of": "ADR 24: a server solves anew from outside",
    "fluidnpu.scheduler.policies.true_setting": "ADR 24: a server solves anew from outside",
}
ASKS_FOR_A_BOARD = {  # files that load a board, and who names it there: a design carries its own (ADR 54)
    "dse/design.py": "a file of before designs carried boards, for those that were shipped then",
    "rtl_tb/npu/efficiency.py": "the figure's own board",
    "rtl_tb/npu/layers.py": "--board",
    "rtl_tb/synthesis/timing.py": "the shipped designs that are timed",
    "studies/delen/heads.py": "the study",
    "studies/fluid_batching/hardware.py": "the paper's tables",
    "studies/pame/networks.py": "the study",
    "fluidnpu/commands/helpers/board_power.py": "--power",
    "fluidnpu/commands/build.py": "--board",
    "fluidnpu/commands/modes/check_board.py": "BOARD.toml",
    "fluidnpu/commands/modes/demo_steps.py": "the demo",
    "fluidnpu/commands/dse.py": "--board",
    "fluidnpu/commands/import_reports.py": "--board",
    "fluidnpu/commands/run.py": "--board",
    "fluidnpu/commands/modes/select_exits.py": "--board",
    "fluidnpu/commands/verify.py": "--board",
}
CODE = {".py", ".sv", ".j2", ".h", ".cpp"}  # an inner folder with such a file stands on the map


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a file imports absolutely."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for room, known in MAY_IMPORT.items():
        for path in sources(room):
            for name in imports(path):
                top, _, rest = name.removeprefix("fluidnpu.").partition(".")
                if top == room or top not in MAY_IMPORT:
                    continue
                door = not rest or rest == "testing" or (ROOT / top / rest / "__init__.pyi").is_file()
                if top not in known:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}: {room} must not know {top}")
                elif not door:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}: use a door of {top}")
    assert not wrong, "\n".join(wrong)


def resolved(path: Path) -> Iterator[Path]:
    """Yield the files of the same room that a file imports, also inside functions and for type checkers."""
    package = path.parent
    for node in ast.walk(parsed(path)):
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


def test_no_files_or_folders_of_a_room_import_each_other_in_a_circle() -> None:
    def place(path: Path) -> str:
        return str(path.relative_to(ROOT))

    def folder(path: Path) -> str:
        return "/".join(path.relative_to(ROOT).parts[:2])

    files: dict[str, set[str]] = {}
    folders: dict[str, set[str]] = {}
    for path in (path for room in MAY_IMPORT for path in sources(room)):
        found = set(resolved(path))
        files[place(path)] = {place(other) for other in found}
        folders.setdefault(folder(path), set()).update(
            folder(other) for other in found if folder(other) != folder(path)
        )
    assert not circle(files), " -> ".join(circle(files))
    assert not circle(folders), " -> ".join(circle(folders))


def test_a_room_has_few_entries() -> None:
    wrong = []
    for room in MAY_IMPORT:
        found = sorted(p.name for p in (ROOT / room).iterdir() if p.name != "__pycache__")
        if len(found) > MOST_ENTRIES:
            wrong.append(f"{room} has {len(found)} entries at its top: {', '.join(found)}")
    assert not wrong, "\n".join(wrong)


def test_the_map_names_every_inner_folder_with_code() -> None:
    rows = re.findall(r"^\| `(\w+)/` \| (.*?) \|", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.M)
    assert sorted(room for room, _ in rows) == sorted(MAY_IMPORT)
    for room, row in rows:
        inner = {path for path in (ROOT / room).iterdir() if path.is_dir()}
        folders = {path.name for path in inner if any(file.suffix in CODE for file in path.rglob("*"))}
        named = set(re.findall(r"`(\w+)`", row))
        assert not folders - named, f"ARCHITECTURE.md does not name {room}/: {', '.join(sorted(folders - named))}"
        assert named <= folders, f"ARCHITECTURE.md names what {room}/ lacks: {', '.join(sorted(named - folders))}"


def python_of(path: Path) -> str:
    """Give the Python of a module with the imports of its examples, of a page, or of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return "\n".join(re.findall(r"^```python.*?\n(.*?)^```", text, re.M | re.S))
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join([text, *re.findall(r">>> (from fluidnpu\S* import .+)", text)])


def used(text: str, package: str) -> set[str]:
    """Give the dotted names that a file of a package imports, or takes from what it imports."""
    tree = ast.parse(text)
    bound: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                bound[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            bound |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
            found |= {f"{module}.{alias.name}" for alias in node.names}

    def dotted(node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return f"{dotted(node.value)}.{node.attr}"
        return bound.get(node.id, "") if isinstance(node, ast.Name) else ""

    return found | {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_nobody_asks_for_the_board_of_a_design_by_its_name() -> None:
    """A board of one's own has no name that anybody could look up, so each file that loads one says why."""
    found, wrong = set(), []
    for path in (path for room in MAY_IMPORT if room != "boards" for path in sources(room)):
        here, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        package = ".".join(("fluidnpu", *path.relative_to(ROOT).parent.parts)).replace("fluidnpu.fluidnpu", "fluidnpu")
        if used(text, package) & {"fluidnpu.boards.load_board"}:
            found.add(here)
        calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        asked = [ast.unparse(node) for node in calls if ast.unparse(node.func).endswith("load_board")]
        wrong += [
            f"{here}: {call}" for call in asked if re.search(r"(design|bundle|serving|profile)\b.*\.board\b", call)
        ]
    assert not wrong, "\n".join(wrong)
    assert found == set(ASKS_FOR_A_BOARD)


def test_uses_are_found_however_they_are_written() -> None:
    assert used("from ..dse import fit as f", "fluidnpu.hls.core") == {"fluidnpu.hls.dse.fit"}
    assert used("from fluidnpu import dse as d\nd.fit(1).x", "") >= {"fluidnpu.dse", "fluidnpu.dse.fit"}
    assert "fluidnpu.dse.paper.ablation" in used("import fluidnpu\nfluidnpu.dse.paper.ablation()", "")


def test_a_door_shows_what_others_use() -> None:
    """Others are files outside the folder of the door: rooms, pages, notebooks, benchmarks; tests are none.
    An error may always stand there, as a caller of the room may have to catch it.
    """
    folders = [ROOT / name for name in (*MAY_IMPORT, "docs", "benchmarks", ".ci")]
    kinds = {".py", ".pyi", ".md", ".ipynb"}
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    users: dict[str, set[Path]] = {}
    for path in [*ROOT.glob("*.md"), *files]:
        inner = path.relative_to(ROOT).parent.parts
        package = ".".join(inner if inner[:1] == ("fluidnpu",) else ("fluidnpu", *inner))
        for name in used(python_of(path), package):
            users.setdefault(name, set()).add(path)
    idle = set()
    for stub in (path for room in set(MAY_IMPORT) - {"fluidnpu"} for path in (ROOT / room).rglob("__init__.pyi")):
        door = ".".join(("fluidnpu", *stub.parent.relative_to(ROOT).parts))
        shown = [
            a.name for n in ast.walk(ast.parse(stub.read_text())) if isinstance(n, ast.ImportFrom) for a in n.names
        ]
        assert len(shown) == len(set(shown)), f"{stub.relative_to(ROOT)} shows a name twice"
        for name in shown:
            thing = getattr(importlib.import_module(door), name)
            error = isinstance(thing, type) and issubclass(thing, Exception)
            if not error and all(path.is_relative_to(stub.parent) for path in users.get(f"{door}.{name}", ())):
                idle.add(f"{door}.{name}")
    assert not idle - set(PROMISED), (
        f"no other room uses {', '.join(sorted(idle - set(PROMISED)))}: take them off the door"
    )
    assert set(PROMISED) <= idle, f"PROMISED need not have {', '.join(sorted(set(PROMISED) - idle))}"


@pytest.mark.parametrize("room", sorted(set(MAY_IMPORT) - {"fluidnpu"}))
def test_importing_a_room_loads_its_door_only(room: str) -> None:
    code = (
        f"import sys; old = set(sys.modules); import fluidnpu.{room}\n"
        "print(*sorted(m for m in set(sys.modules) - old if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(done.stdout.split()) == {"fluidnpu", f"fluidnpu.{room}", "lazy_loader"}


def test_heavy_packages_stay_in_their_room() -> None:
    wrong = []
    for room in MAY_IMPORT:
        for path in sources(room):
            for package in {name.partition(".")[0] for name in imports(path)} & set(ONLY_IN):
                if room not in ONLY_IN[package]:
                    rooms = ", ".join(sorted(ONLY_IN[package]))
                    wrong.append(f"{path.relative_to(ROOT)} imports {package}, which belongs in {rooms}")
    assert not wrong, "\n".join(wrong)


def test_pynq_and_torch_have_one_file_each() -> None:
    for package, room, limit in (("pynq", "host", 1), ("torch", "models", 3)):
        files = [p.name for p in sources(room) if any(n.partition(".")[0] == package for n in imports(p))]
        assert 1 <= len(files) <= limit, f"{package} is imported in {files}"


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
            if parsed(path).body:
                assert ast.get_docstring(parsed(path)), f"{path.relative_to(ROOT)} does not begin with its contract"


def test_a_bare_import_needs_only_the_base() -> None:
    code = (
        "import sys; from fluidnpu import boards, models, dse, hls, scheduler, host\n"
        "heavy = {'torch', 'pynq', 'ray', 'cocotb', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported at start: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_public_class_has_its_name_once() -> None:
    places: dict[str, list[str]] = {}
    for path in (path for room in (*MAY_IMPORT, "workshop") for path in sources(room)):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    wrong = [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]
    assert not wrong, "\n".join(wrong)


def test_a_name_of_two_doors_is_the_same_thing() -> None:
    things: dict[str, dict[str, object]] = {}
    for stub in (path for room in MAY_IMPORT for path in (ROOT / room).rglob("__init__.pyi")):
        door = ".".join(("fluidnpu", *stub.parent.relative_to(ROOT).parts)).replace("fluidnpu.fluidnpu", "fluidnpu")
        for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                name = alias.asname or alias.name
                things.setdefault(name, {})[door] = getattr(importlib.import_module(door), name)
    wrong = [
        f"{name} is not the same in {', '.join(doors)}"
        for name, doors in sorted(things.items())
        if any(thing is not next(iter(doors.values())) for thing in doors.values())
    ]
    assert not wrong, "\n".join(wrong)


def test_no_folder_of_a_room_is_a_hall() -> None:
    wrong = []
    for room in MAY_IMPORT:
        for folder in {path.parent for path in sources(room)}:
            if (count := len(list(folder.glob("*.py")))) > MOST_FILES:
                wrong.append(f"{folder.relative_to(ROOT)} has {count} files at one level")
    assert not wrong, "\n".join(sorted(wrong))
