"""Every study by its name. A new one takes a folder with a `study.py` that holds `STUDY`, and a row here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .running.study import Study

STUDIES = {
    "fluid-batching": "fluid_batching",
    "delen": "delen",
    "pame": "pame",
    "tetris": "tetris",
    "ensemble": "ensemble",
}  # as in `fluidnpu simulate --study NAME`, and the folder


def find_study(name: str) -> Study:
    """Load the study of that name. Raises KeyError for any that is not in `STUDIES`."""
    study: Study = import_module(f".{STUDIES[name]}.study", __package__).STUDY
    return study
