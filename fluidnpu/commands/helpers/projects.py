"""The files of a project and its bundle, which holds everything that a board needs to serve."""

from __future__ import annotations

from collections.abc import Mapping

from fluidnpu import boards, dse, hls, rtl_tb
from fluidnpu.host import kit

from .wheel import board_wheel


def project_files(
    design: dse.Design,
    program: hls.Program,
    board: boards.Board,
    core: str,
    *,
    tools: str = "2019.2",
    first_run: bool = False,
    notes: Mapping[str, str] | None = None,
) -> dict[str, str | bytes]:
    """Render a project whose bundle has the installer, fluidnpu as a wheel and the kit of a server.

    `notes`: further texts of the bundle, by file name; for the other arguments see `hls.render_project`.
    """
    texts = {f"kit/{name}": text for name, text in kit.kit_files(program.network).items()} | dict(notes or {})
    return hls.render_project(
        design,
        program,
        board,
        core,
        rtl=rtl_tb.sources(),
        tools=tools,
        wheel=board_wheel(),
        first_run=first_run,
        notes=texts,
    )
