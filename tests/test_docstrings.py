"""Public functions say in their docstrings the shapes of their arrays and the errors that they raise."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies", "fluidnpu")
Function = ast.FunctionDef | ast.AsyncFunctionDef
ARRAYS = {"NDArray", "ndarray"}
SHAPE = re.compile(
    r"\bshapes?\b|\bscalars?\b|\b(?:one|a \w+) (?:per|for each|for every|of each|of every)\b"
    r"|(?<!\w)\((?:[\w.]+(?: [-+*/] [\w.]+)*|\w+\(\w+\)|\.\.\.),(?: [^()]*| \w+\(\w+\)[^()]*)?\)"  # (N, classes)
)
ERRORS = re.compile(r"\b[Rr]aises?\b(?:[^.]|\.\w)*?\b\w+(?:Error|Exception)\b")  # in one sentence


def prose(function: Function) -> str:
    """The function's docstring in one line, without its examples."""
    paragraphs = re.split(r"\n\s*\n", ast.get_docstring(function) or "")
    return " ".join(" ".join(text.split()) for text in paragraphs if not text.startswith(">>>"))


@cache
def parsed_files() -> dict[Path, ast.Module]:
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def is_documented_apart(function: Function) -> bool:
    """Tell if the docstring is what `--help` of a command prints, or stands at the last of overloads."""
    return any({"command", "overload"} & names_of(decorator) for decorator in function.decorator_list)


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[Function]:
    """The public functions of a module and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_") and not is_documented_apart(node):
            yield node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node)


def names_of(annotation: ast.expr) -> set[str]:
    """The names in an annotation, those in its strings included."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
    texts = (node.value for node in ast.walk(annotation) if isinstance(node, ast.Constant))
    return names.union(*(re.findall(r"\w+", text) for text in texts if isinstance(text, str)))


def array_aliases(tree: ast.Module) -> set[str]:
    """The module's names for types of arrays, such as `Floats = NDArray[np.float64]`."""
    return {
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Subscript | ast.BinOp)
        and names_of(node.value) & ARRAYS
        and "Callable" not in names_of(node.value)
    }


def exported_aliases(files: Mapping[Path, ast.Module]) -> dict[Path, set[str]]:
    """The aliases of arrays by module, and by folder those of all modules in it, as a door shows them."""
    exported = defaultdict[Path, set[str]](set)
    for path, tree in files.items():
        for place in (path.with_suffix(""), *path.parents):
            exported[place] |= array_aliases(tree)
    return exported


def known_aliases(path: Path, tree: ast.Module, exported: Mapping[Path, set[str]]) -> set[str]:
    """The names that stand for types of arrays in a module, its own and those that it imports."""
    names = ARRAYS | exported[path.with_suffix("")]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("fluidnpu.")):
            parts = (node.module or "").split(".")
            source = path.parents[node.level - 1].joinpath(*parts) if node.level else ROOT.joinpath(*parts[1:])
            names |= {name.asname or name.name for name in node.names if name.name in exported.get(source, ())}
    return names


def takes_or_returns_arrays(function: Function, arrays: set[str]) -> bool:
    parameters = function.args
    listed = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg]
    annotations = [*(p.annotation for p in listed if p), function.returns]
    return any(names_of(annotation) & arrays for annotation in annotations if annotation)


def raised(nodes: Iterable[ast.AST]) -> set[str]:
    """The names of the errors made and raised here, less those caught at once and those of inner functions.

    A failed check of a bench is no error of a caller.
    """
    names = set[str]()
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            error = node.exc.func
            names.add(error.attr if isinstance(error, ast.Attribute) else getattr(error, "id", ""))
        elif isinstance(node, ast.Try):
            caught = set[str]().union(*(names_of(handler.type) for handler in node.handlers if handler.type))
            names |= raised(node.body) - caught | raised([*node.handlers, *node.orelse, *node.finalbody])
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            names |= raised(ast.iter_child_nodes(node))
    return {name for name in names - {"AssertionError"} if name.endswith(("Error", "Exception"))}


def function_of(source: str) -> Function:
    return next(public_functions(ast.parse(source)))


def test_shapes_and_errors_are_recognised() -> None:
    for text in ("Logits (N, classes).", "In the shape of x.", "A mask (b_max + 1,).", "One in all, a rate per exit."):
        assert SHAPE.search(text), text
    for text in ("Logits, as stored.", "Images (at most eight).", "Calls read(a, b).", "Half (or so, if at all)."):
        assert not SHAPE.search(text), text
    for text in ("Raises ValueError.", "Raises as `Model.load`, and DataError.", "Raise DataError for none."):
        assert ERRORS.search(text), text
    for text in ("DataError for none.", "Raises nothing. A DataError is its own."):
        assert not ERRORS.search(text), text


def test_examples_are_no_prose() -> None:
    function = function_of('def f():\n    """Return a pair.\n\n    >>> f()\n    array((1, 2))\n    """')
    assert not SHAPE.search(prose(function))


def test_arrays_are_recognised_by_their_aliases() -> None:
    aliases = ast.parse("Ints = npt.NDArray[np.int64]\nRun = Callable[[NDArray[Any]], int]")
    for source in ("from ..b import Ints as Whole, Run", "from fluidnpu.dse import Ints as Whole, Run"):
        path, tree = ROOT / "dse" / "a" / "first.py", ast.parse(source)
        names = known_aliases(path, tree, exported_aliases({ROOT / "dse" / "b.py": aliases, path: tree}))
        assert names == ARRAYS | {"Whole"}
    assert takes_or_returns_arrays(function_of("def f(x, *, y: 'list[Whole] | None' = None): ..."), {"Whole"})
    assert not takes_or_returns_arrays(function_of("def f(x: int) -> Run: ..."), {"Whole"})


def test_only_errors_that_leave_a_function_are_its_own() -> None:
    source = """
def f():
    try:
        raise ValueError("a")
    except ValueError:
        raise models.DataError("b") from None
    def inner():
        raise KeyError("c")
    raise error
"""
    assert raised(function_of(source).body) == {"DataError"}


def test_docstrings_of_arrays_give_shapes() -> None:
    exported, wrong = exported_aliases(parsed_files()), []
    for path, tree in parsed_files().items():
        arrays = known_aliases(path, tree, exported)
        for function in public_functions(tree):
            if takes_or_returns_arrays(function, arrays) and not SHAPE.search(prose(function)):
                wrong.append(f"{path.relative_to(ROOT)}:{function.lineno} {function.name} must give the arrays' shapes")
    assert not wrong, "\n".join(wrong)


def test_docstrings_name_the_errors_raised() -> None:
    wrong = []
    for path, tree in parsed_files().items():
        for function in public_functions(tree):
            if (names := raised(function.body)) and not ERRORS.search(prose(function)):
                where = f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
                wrong.append(f"{where} must say that it raises {' or '.join(sorted(names))}")
    assert not wrong, "\n".join(wrong)
