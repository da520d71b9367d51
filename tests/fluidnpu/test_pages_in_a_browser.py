"""Pages in Chromium as wide as a telephone: nothing is wider than the page, but what scrolls by itself."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_report_design import explored
from test_report_placement import ASKED, SLO_NS
from waiting import PATIENCE_S

from fluidnpu.reports.design import render_design_report
from fluidnpu.reports.placement import render_placement
from fluidnpu.scheduler import placement
from fluidnpu.scheduler.placement.testing import toy_fleet

CHROMIUM = shutil.which("chromium")
PROBE = """<iframe id=page src="page.html" style="width:{width}px;height:4000px;border:0"></iframe><pre id=wide></pre>
<script>document.getElementById("page").onload = () => {{
  const page = document.getElementById("page").contentDocument, width = page.documentElement.clientWidth;
  const wide = [...page.querySelectorAll("body *")].filter((box) => box.getBoundingClientRect().right > width + 1
    && !box.closest(".wide") && !box.closest("svg"));
  document.getElementById("wide").textContent = "wider than " + width + ":"
    + wide.map((box) => ` <${{box.tagName}} ${{box.className}}>`).join("")
    + (page.documentElement.scrollWidth > width ? " the page itself" : "");
}};</script>"""


def wider(page: str, width: int, folder: Path) -> str:
    """Return the elements of a page that are wider than it, as Chromium lays it out."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "probe.html").write_text(PROBE.format(width=width), encoding="utf-8")
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    words += ["--virtual-time-budget=3000", f"--user-data-dir={folder / 'profile'}", f"file://{folder / 'probe.html'}"]
    done = subprocess.run([str(CHROMIUM), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    (laid,) = re.findall(r"<pre id=\"wide\">wider than \d+:(.*?)</pre>", done.stdout, re.DOTALL)
    return html.unescape(laid)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_a_page(width: int, tmp_path: Path) -> None:
    fleet = toy_fleet(4)
    plan = placement.place(fleet, slo_ns=SLO_NS)
    for page in (render_design_report(explored(), explained=["why"]), render_placement(fleet, plan, ASKED)):
        assert wider(page, width, tmp_path) == ""
    broken = render_design_report(explored()).replace("</h1>", "<br>" + "x" * 300 + "</h1>")
    assert "the page itself" in wider(broken, width, tmp_path)
