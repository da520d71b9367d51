"""The notebooks of the documentation, and their execution.

python tests/docs/docs_notebooks.py NOTEBOOK...    # writes what the cells print now into notebooks
"""

from __future__ import annotations

import copy
import sys
import tempfile
from pathlib import Path

import nbformat
from docs_pages import DOCS, environment, shape
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SLOWEST_CELL_S = 1800  # of a machine with much else to do


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a notebook in the newest form."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def executed(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Run all cells in a fresh kernel of this checkout, and give the notebook with their outputs."""
    run = copy.deepcopy(notebook)
    where = {"metadata": {"path": str(folder)}}
    with tempfile.TemporaryDirectory() as sockets:  # a short path, as sockets need, and no port is opened
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        limits = {"timeout": SLOWEST_CELL_S, "startup_timeout": SLOWEST_CELL_S}
        client = NotebookClient(run, km=kernel, resources=where, coalesce_streams=True, **limits)
        client.execute(cleanup_kc=True, env=dict(environment()))
    for number, cell in enumerate(cell for cell in run.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
        cell.metadata.clear()  # no times of this run
        cell.outputs = [one for one in cell.outputs if "application/javascript" not in one.get("data", {})]  # of pynq
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number + 1
    return run


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """Give the shape of what the cells print, and where they show a picture."""
    return [shape(said(output)) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def said(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if "image/svg+xml" in output.get("data", {}):
        return "a picture"
    return str(output.get("data", {}).get("text/plain", output.output_type))


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as scratch:
            nbformat.write(executed(read_notebook(file), Path(scratch)), file)  # type: ignore[no-untyped-call]
