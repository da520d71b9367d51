"""The programs that boards of a fleet may serve: those that are in their folders, or were since the start.

A board that was loaded again shows another design and program. A front takes it where its own copy of the
bundle, in the folder that the fleet file names, is that program, and answers look as before. So every front
follows a reload by itself, whoever ordered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...bundle import Bundle
from ...errors import BundleError
from ...oip.interface import input_of, outputs_of
from ..reference import Reference
from ..roster import Seat


@dataclass(frozen=True, eq=False)
class Edition:
    """A bundle that a board may serve, and what judges the board's answers."""

    bundle: Bundle
    reference: Reference
    facts: Mapping[str, str]  # that the board must show

    def is_shown_by(self, facts: Mapping[str, str]) -> bool:
        """Tell if a board that shows these facts serves it."""
        return all(facts.get(name) == value for name, value in self.facts.items())

    @classmethod
    def of(cls, bundle: Bundle) -> Edition:
        """Make the edition of a bundle."""
        return cls(bundle, Reference(bundle), expected_of(bundle))


def expected_of(bundle: Bundle) -> dict[str, str]:
    """Return the facts that a board of this bundle must show."""
    return {"design": bundle.design.digest, "program": bundle.program.digest}


class Editions:
    """The editions of every folder, the latest last. Used on one event loop; files are read in a thread."""

    def __init__(self) -> None:
        self._known: dict[Path, list[Edition]] = {}

    async def shown(self, seat: Seat, model: str, facts: Mapping[str, str]) -> Edition | None:
        """Return the edition of a model whose facts a board shows; None where no folder has held it.

        Raises BundleError as `newest`.
        """
        folder = seat.folders.get(model)
        if folder is None:
            return None
        every: list[Edition] = [*self._known.get(folder, ()), await self.newest(seat, model)]
        for edition in every:
            if edition.is_shown_by(facts):
                return edition
        return None

    async def newest(self, seat: Seat, model: str) -> Edition:
        """Return the edition that is in a board's folder now.

        Raises BundleError for a folder that cannot be read, one whose answers would look different, and for
        a part of a network, which has none.
        """
        folder = seat.folders.get(model)
        if folder is None:
            raise BundleError(f"'{model}' is a part of a network by plan, which is made anew when the fleet is started")
        edition: Edition = await asyncio.get_running_loop().run_in_executor(
            None, _read, folder, model, seat.bundles[model]
        )
        editions = self._known.setdefault(folder, [])
        for loaded in editions:
            if loaded.facts == edition.facts:
                return loaded
        editions.append(edition)
        return edition


def _read(folder: Path, model: str, before: Bundle) -> Edition:
    bundle = Bundle.read(folder)
    if any(look(bundle.program) != look(before.program) for look in (input_of, outputs_of)):
        raise BundleError(f"what replaces '{model}' must have its inputs and outputs, and '{folder}' has others")
    return Edition.of(bundle)
