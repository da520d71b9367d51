"""HTML pages: one self-contained file each, figures inline, no script and no font from elsewhere."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

SHELL = "fluidnpu.studies.drawing"  # its templates hold `page.html.j2`, which every page extends, and the style


def page_template(package: str, name: str) -> Template:
    """Load a page from the `templates` of a package.

    An unknown name inside a page is an error, not an empty string.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(SHELL)]),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
