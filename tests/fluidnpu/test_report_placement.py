"""The page of a plan: a picture that shows every pool, job and load, and curves that are runs of the twin."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from narrow_pages import check_narrow

from fluidnpu.cli import main
from fluidnpu.reports.placement import OFFERED, Asked, render_placement
from fluidnpu.reports.plan_picture import plan_picture
from fluidnpu.scheduler import placement
from fluidnpu.scheduler.placement.testing import random_fleet, toy_fleet, two_networks

SLO_NS = 200_000_000
ASKED = Asked(network=None, slo_ns=SLO_NS, slack=0.1, headroom=0.1, nodes=5)


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def mixed(seed: int) -> placement.Fleet:
    """Boards of three types on fast links, where a mix of pieces is best."""
    fleet = random_fleet(np.random.default_rng(seed), blocks=5, counts=(3, 2, 2))
    return replace(
        fleet, links={name: replace(one, bytes_per_s=50 * one.bytes_per_s) for name, one in fleet.links.items()}
    )


@pytest.mark.parametrize(("seed", "form"), [(3, "serial"), (4, "pipeline")])
def test_the_picture_shows_every_pool_job_and_load(seed: int, form: str) -> None:
    fleet = mixed(seed)
    plan = placement.place(fleet, slo_ns=SLO_NS, forms=(form,)).plan
    assert ("pipeline" in plan.form) == (form == "pipeline")
    svg = str(plan_picture(fleet, plan))
    said = texts(svg)
    for pool, load in zip(plan.pools, placement.loads(fleet, plan), strict=True):
        assert f"{len(pool.devices)} x {pool.type}" in said
        assert f"busy {100 * load.total:.0f} %" in said
        assert load.total <= 0.9 + 1e-6, "headroom is kept"
        for job in pool.jobs:
            assert any(f"blocks {job.first}..{job.last}, batch {job.batch}" in one for one in said)
    assert max(load.total for load in placement.loads(fleet, plan)) == pytest.approx(0.9, abs=0.02)
    bands = {(a, b) for route in plan.routes for a, b in zip((-1, *route.pools), route.pools, strict=False)}
    assert svg.count("<path") == len(bands)
    assert "var(--ink)" in svg, "so that it is legible by night"


def test_shares_of_networks_on_a_board_are_stacked() -> None:
    fleet = two_networks(3)
    plan = placement.place_together(fleet, slo_ns=10**9)
    loads = placement.loads(fleet, plan)
    for pool, load in zip(plan.pools, loads, strict=True):
        assert set(load.busy) == set(pool.networks)
        for job in pool.jobs:
            assert load.busy[job.network] == pytest.approx(0.9 * job.weight, rel=0.02), "weights are of the whole"
    page = render_placement(fleet, placement.Placement(plan=plan, forms=()), ASKED)
    assert "The twin serves one network at a time" in page
    assert "Goodput against rate" not in page
    assert all(name in page for name in ("big", "small"))


def test_link_and_head_loads_are_bytes_over_bandwidth() -> None:
    fleet = replace(toy_fleet(2, bytes_per_s=10**7), head="lan")
    plan = placement.place(fleet, slo_ns=10**9, forms=("data parallel",)).plan
    (load,) = placement.loads(fleet, plan)
    facts = fleet.networks["toy"]
    assert load.link_in == pytest.approx(plan.rate_per_s / 2 * facts.input_bytes / 10**7)
    assert load.link_out == pytest.approx(plan.rate_per_s / 2 * facts.answer_bytes / 10**7)
    assert placement.head_load(fleet, plan) == pytest.approx(plan.rate_per_s * facts.input_bytes / 10**7)


def test_the_page_has_curves_of_the_twin(tmp_path: Path) -> None:
    fleet = toy_fleet(4)
    found = placement.place(fleet, slo_ns=SLO_NS)
    page = render_placement(fleet, found, ASKED)
    for heading in ("What runs where", "Forms of serving", "Goodput against rate", "Cost against rate", "Pools"):
        assert f"<h2>{heading}</h2>" in page
    check_narrow(page)
    assert page.count("<svg") == 6  # picture, two of goodput, two of cost, lost devices
    lost = re.search(
        r"board-0 is away .*? and nobody plans anew: ([\d.]+) % in time before, ([\d.]+) % meanwhile", page
    )
    assert lost is not None
    before, meanwhile = map(float, lost.groups())
    assert before > 99
    assert meanwhile < before, "three boards of four do not carry what four do"
    assert len(OFFERED) > 5


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text(toy_fleet().types["board"].profiles["toy"].dumps())
    (tmp_path / "fleet.toml").write_text(
        'schema = 1\nname = "a <b>"\n[networks.toy]\nexit_rates = [0.4, 0.6]\n[links.lan]\nbytes_per_s = 1000000000\n'
        '[types.board]\nmemory_bytes = 1000000000\nnetworks.toy.profile = "toy.json"\n[[devices]]\ntype = "board"\n'
    )
    words = ["place", str(tmp_path / "fleet.toml"), "--report", str(tmp_path / "plan.html")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "report written to" in done.output
    page = (tmp_path / "plan.html").read_text()
    assert "a &lt;b&gt;" in page
    assert "<script" not in page
