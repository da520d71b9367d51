"""Hooks of the site: the navigation, pages made of other files, and pictures in the colours of the page."""

from __future__ import annotations

import ast
import base64
import posixpath
import re
import sys
from collections.abc import Iterator
from html import escape
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fluidnpu.host.oip.observing.metric_table import TABLE
from fluidnpu.quantities import OTHERS, QUANTITIES
from fluidnpu.words import WORDS

sys.path.insert(0, str(Path(__file__).resolve().parent))  # a hook is no package
from drawing import DARK, LIGHT, variables
from griffe_examples import fenced

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CHANGELOG.md": "explanation/changelog.md",
    "CONTRIBUTING.md": "how-to/contribute.md",
    "rtl_tb/README.md": "reference/rtl.md",
}  # files outside docs/ that the site shows, and their place in it
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies")
LAYERS = sorted((ROOT / "build" / "cycles").glob("*.md"))  # of `make tables`, where it was run
EXPORT = re.compile(r"^from (\.[\w.]*) import (\w+) as \2$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that a pattern such as `adr/*` matches in its place; those that are named stay where
    they are.
    """
    nav: list[Any] = config["nav"]
    named = set(_named(nav))
    config["nav"] = _expanded(nav, named)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside docs/."""
    for source, place in PAGES.items():
        if (ROOT / source).is_file():
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, place, content=moved(text, source, place)))
    for room in ROOMS:
        files.append(File.generated(config, f"reference/python/{room}.md", content=python_page(room)))
    files.append(File.generated(config, "reference/python/fluidnpu.md", content=front_page()))
    for path in LAYERS:
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, f"explanation/cycles/{path.name}", content=text))
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to notebooks and files at the root to their pages, and put in generated tables."""
    if page.file.src_uri == "explanation/cycles/index.md":
        markdown += "".join(f"\n- [{path.stem}]({path.name})" for path in LAYERS)
    if "<!-- errors -->" in markdown:
        markdown = markdown.replace("<!-- errors -->", "\n".join(error_table()))
    if "<!-- words -->" in markdown:
        rows = (f"| **{escape(word)}** | {escape(meaning)} |" for word, meaning in WORDS.items())
        markdown = markdown.replace("<!-- words -->", "\n".join(("| word | meaning |", "|---|---|", *rows)))
    if "<!-- quantities -->" in markdown:
        markdown = markdown.replace("<!-- quantities -->", "\n".join(quantity_table()))
    if "<!-- metrics -->" in markdown:
        markdown = markdown.replace("<!-- metrics -->", "\n".join(metric_table()))
    here = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    for source, place in PAGES.items():
        inside = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        markdown = markdown.replace(f"]({posixpath.relpath(source, here)})", f"]({inside})")
    return re.sub(r"(\]\(\S*notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)


def quantity_table() -> Iterator[str]:
    """Lines of the table of quantities, those without a word of their own at the end."""
    yield from ("| quantity | unit | digits | field | meaning | formula |", "|---|---|---|---|---|---|")
    for word, one in (QUANTITIES | OTHERS).items():
        fields = ", ".join(f"`{field}`" for field in one.fields)
        yield f"| **{word}** | {one.unit} | {one.digits} | {fields} | {escape(one.meaning)} | {escape(one.formula)} |"


def metric_table() -> Iterator[str]:
    """Lines of the table of metrics, as a scrape names them."""
    yield from ("| metric | kind | labels | meaning |", "|---|---|---|---|")
    for name, metric in TABLE.items():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.sample(name).removesuffix('_bucket')}` | {metric.kind} | {labels} | {escape(metric.help)} |"


def error_table() -> Iterator[str]:
    """Write the errors of all rooms as a table, from the text of their files."""
    yield from ("| error | is also | meaning |", "|---|---|---|")
    for room in ROOMS:
        for path in (ROOT / room / "errors.py", ROOT / room / "board.py"):
            if not path.is_file():
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
                if isinstance(node, ast.ClassDef) and any(one.endswith(("Error", "Exception")) for one in bases):
                    meaning = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                    yield f"| `{room}` `{node.name}` | {', '.join(f'`{one}`' for one in bases)} | {meaning} |"


def notebook_page(path: Path) -> str:
    """Write a notebook as a page: its text, its code, what it printed and the pictures it drew."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    parts = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts.append(f"```python\n{cell.source}\n```")
            parts += [shown(output) for output in cell.outputs]
        if number == 0:
            parts.append(f"[Download this notebook]({path.name}){{ .md-button }}")
    return "\n\n".join(parts) + "\n"


def shown(output: nbformat.NotebookNode) -> str:
    """Write what a cell printed or drew."""
    if output.output_type == "stream":
        return f"```text\n{output.text}```"
    if "image/svg+xml" in output.data:
        picture = base64.b64encode(output.data["image/svg+xml"].encode()).decode()
        return f'<img class="drawn" alt="a figure" src="data:image/svg+xml;base64,{picture}">'
    return f"```text\n{output.data['text/plain']}\n```"


def exported(stub: Path) -> list[tuple[str, str]]:
    """Give the names that a door shows, each with the module that defines it."""
    inner = [part for part in stub.parent.relative_to(ROOT).parts if part != "fluidnpu"]
    package = ".".join(("fluidnpu", *inner))
    return [(name, resolve_name(module, package)) for module, name in EXPORT.findall(stub.read_text(encoding="utf-8"))]


def python_page(room: str) -> str:
    """Write the page of a room: its doors, and under each the names that it shows."""
    parts = [f"# fluidnpu.{room}\n"]
    for stub in sorted((ROOT / room).rglob("__init__.pyi"), key=lambda path: (len(path.parts), path)):
        inner = stub.parent.relative_to(ROOT).parts
        door = ".".join(("fluidnpu", *inner))
        if len(inner) > 1:
            parts.append(f"\n## {door}\n")
        contract = ast.get_docstring(ast.parse((stub.parent / "__init__.py").read_text(encoding="utf-8"))) or ""
        parts.append(f"\n{fenced(contract)}\n")
        parts += [described(name, module) for name, module in exported(stub)]
    return "".join(parts)


def described(name: str, module: str) -> str:
    """Ask for the description of a name; a constant unpacked from a tuple has none and is only named."""
    path = ROOT.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tops = ast.parse(path.read_text(encoding="utf-8")).body
    targets = [t for node in tops if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Tuple)]
    if any(name == getattr(one, "id", "") for target in targets for one in target.elts):
        return f"\n### `{name}` {{ #{module}.{name} }}\n\nA constant of `{module}`.\n"
    return f"\n::: {module}.{name}\n"


def front_page() -> str:
    """Write the page of the front door: its names, each with the place where it is described."""
    rows = []
    for name, module in exported(ROOT / "fluidnpu" / "__init__.pyi"):
        room = module.split(".")[1]
        doors = (ROOT / room).rglob("__init__.pyi")
        home = {shown: place for stub in doors for shown, place in exported(stub)}[name]
        rows.append(f"| [`fluidnpu.{name}`][{home}.{name}] | `fluidnpu.{room}` |")
    return "\n".join(
        [
            "# fluidnpu",
            "",
            "The front door shows the names that a script needs, each from its room. [Use it from",
            "Python](../../how-to/python.md) has an example of every one.",
            "",
            "| name | room |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put drawn pictures into the page itself, so that they follow its scheme of colours."""

    def inlined(found: re.Match[str]) -> str:
        text = (DOCS / "pictures" / found[1]).read_text(encoding="utf-8")
        return text if 'class="picture"' in text else found[0]

    return re.sub(r'<img [^>]*src="[./]*pictures/([\w-]+\.svg)"[^>]*>', inlined, html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the pictures their colours in both schemes."""
    if 'class="picture"' not in output:
        return output
    rules = (
        f'[data-md-color-scheme="{scheme}"] svg.picture {{ {variables(colours)} }}'
        for scheme, colours in (("default", LIGHT), ("slate", DARK))
    )
    return output.replace("</head>", f"<style>{' '.join(rules)}</style></head>", 1)


def moved(text: str, source: str, place: str) -> str:
    """Rewrite the relative links of a file for its place in the site; what the site does not have becomes
    plain text.

    >>> moved("[a](docs/adr/0013-doors.md) [b](boards)", "README.md", "explanation/x.md")
    '[a](../adr/0013-doors.md) b'
    """

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found["label"], found["target"], found["anchor"] or ""
        if "://" in target or not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (ROOT / path / "index.md").is_file():
            path += "/index.md"
        inside = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if inside is None:
            return label
        return f"[{label}]({posixpath.relpath(inside, posixpath.dirname(place))}{anchor})"

    return re.sub(r"(?<!!)\[(?P<label>[^]]+)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)]*)?\)", link, text)


def made(pattern: str) -> list[str]:
    """Give the pages that stand in no file, of a pattern of the navigation."""
    if pattern == "reference/python/*":
        return [f"reference/python/{room}.md" for room in ROOMS]
    if pattern == "explanation/cycles/*":
        kept = ("cores.md", "networks.md", "filters.md", "int8.md", "way-out.md", *(path.name for path in LAYERS))
        return [f"explanation/cycles/{name}" for name in kept]
    if pattern == "notebooks/*":
        return [f"notebooks/{name}.md" for name in ("tutorial", "exploration", "serving", "exits")]
    return []


def _named(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [] if nav.endswith("*") else [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    assert not isinstance(parts, str)
    return [name for part in parts for name in _named(part)]  # type: ignore[attr-defined]


def _expanded(nav: list[Any], named: set[str]) -> list[Any]:
    out: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            out.append(
                {key: _expanded(value, named) if isinstance(value, list) else value for key, value in item.items()}
            )
        elif item.endswith("*"):
            pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob(f"{item}.md"))
            found = [page for page in made(item) or pages if page not in named]
            out += found
        else:
            out.append(item)
    return out
