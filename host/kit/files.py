"""The files of the kit by their names: texts of this folder, and those that the table of metrics gives."""

from __future__ import annotations

import re
from importlib.resources import files

from .watching import alert_rules, dashboard

TEXTS = ("fluidnpu.service", "fluidnpu-fleet.service", "board.conf", "Containerfile", "serve.toml", "front.toml")


def kit_files(network: str) -> dict[str, str]:
    """Return the texts of the kit for a server of a network, under the name that a model may have."""
    texts = {name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in TEXTS}
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", network).lstrip("_.-")[:100] or "demo"
    made = {"alerts.yml": alert_rules(), "dashboard.json": dashboard()}
    return texts | made | {"serve.toml": texts["serve.toml"].replace("{name}", name)}
