"""The table of all committed texts that are computed: what makes each, from which sources, at what cost.

Rows stand in the order in which they are made: what a row reads is made before it. A row with `hours` is made
only where it is named (`python -m workshop.refresh NAME`); its pages say from which tree their figures are.
"""

from __future__ import annotations

from .output import Artefact
from .pages import notebooks, pages
from .sources import Tree

REWRITE = {"FLUIDNPU_REWRITE_REFERENCE": "1"}
PYTEST = "python -m pytest -q -p no:cacheprovider"
FIGURES = "exits batches fluid array tiles stacking fbcb slots ports roofline arithmetic latencies"
FASHION = "--data /usr/share/datasets/fashion-mnist"
# Fitted constants stand in the rooms that read them; what is fitted or trained does not depend on them.
FITTED = ("dse/resources/*.json", "scheduler/policies/tuned/*")
NO_RTL_CODE = ("rtl_tb/*/proofs/*", "rtl_tb/*/benches/*", "rtl_tb/proving/*", "models/data/*")


def study(
    name: str, folder: str, pages: str, size: str, figures: str, hours: str = "", summary: bool = False
) -> Artefact:
    """Give the row of a paper's study, whose tables and statements documents quote.

    `pages`: their folder; `figures`: names of those that statements and pages show; `summary`: the numbers in
    brief, too. A run that was stopped goes on where it was.
    """
    out = f"build/study/{name}"
    copies = {f"{pages}{kind}.md": f"{out}/{kind}.md" for kind in ("statements", "tables")}
    copies |= {f"{pages}figures/{figure}.svg": f"{out}/figures/{figure}.svg" for figure in figures.split()}
    if summary:
        copies[f"{pages}study.json"] = f"{out}/summary.json"
    return Artefact(
        name=f"study-{name}",
        files=tuple(copies),
        command=f"fluidnpu simulate --study {name} {size} --processes 2 --out {out}",
        roots=(f"studies/{folder}/study.py", "studies/running/study.py"),
        copies=copies,
        hours=hours,
    )


QUICK = (
    *(
        Artefact(
            name=f"protobuf-{name}",
            files=(f"host/oip/wire/{name}.protoset",),
            command=f"python -m grpc_tools.protoc -I host/oip/wire --descriptor_set_out host/oip/wire/{name}.protoset {name}.proto",
            data=(f"host/oip/wire/{name}.proto",),
        )
        for name in ("inference", "health", "reflection")
    ),
    Artefact(
        name="cycles-of-networks",
        files=("studies/running/data/resnet50_cycles.json",),
        command="python benchmarks/network_cycles.py",
        roots=("benchmarks/network_cycles.py",),
        prints=True,
    ),
    Artefact(
        name="reference-projects",
        files=("tests/reference/tiny_zc706/**/*", "tests/reference/tiny_zc706_*.diff"),
        command=f"{PYTEST} tests/hls/test_hls_project.py -k 'reference or variant'",
        roots=("tests/hls/hls_cases.py", "tests/hls/test_hls_project.py"),
        env=REWRITE,
    ),
    Artefact(
        name="index-of-rtl",
        files=("rtl_tb/README.md",),
        command=f"{PYTEST} tests/rtl_tb/test_rtl_readme.py -k tables",
        roots=("tests/rtl_tb/test_rtl_readme.py",),
        data=("dse/exact/twin/**/*.py",),
        part=r"<!-- (commands|index) -->.*?<!-- end of \1 -->",
        env=REWRITE,
    ),
    Artefact(
        name="tables-of-operators",
        files=("docs/reference/operators.md",),
        command="python -m fluidnpu.models.onnx.catalogue docs/reference/operators.md",
        roots=("models/onnx/catalogue.py",),
        part=r"<!-- generated: .*?<!-- end -->",
    ),
    Artefact(
        name="pictures-of-concepts",
        files=tuple(f"docs/pictures/{name}.svg" for name in FIGURES.split()),
        command="python docs/make_pictures.py",
        roots=("docs/concept_pictures.py",),
    ),
    Artefact(
        name="picture-of-the-demo",
        files=("docs/pictures/demo.svg",),
        command="python docs/make_pictures.py --demo",
        roots=("docs/make_pictures.py", "fluidnpu/commands/demo.py"),
    ),
    Artefact(
        name="whole-networks",
        files=("docs/explanation/cycles/networks.md",),
        command="python benchmarks/networks.py",
        roots=("benchmarks/networks.py",),
        prints=True,
    ),
    Artefact(
        name="either-core",
        files=("docs/explanation/cycles/cores.md",),
        command="python benchmarks/either_core.py",
        roots=("benchmarks/either_core.py",),
        prints=True,
    ),
    Artefact(
        name="price-of-chains",
        files=("docs/explanation/chains.md",),
        command="python benchmarks/chains.py",
        roots=("benchmarks/chains.py",),
        part=r"<!-- computed -->\n\n(.*?)\n<!-- end -->",
        prints=True,
    ),
    Artefact(
        name="list-of-verdicts",
        files=("docs/explanation/verdicts.md",),
        command=f"{PYTEST} tests/studies/test_verdicts.py -k list_of_verdicts",
        roots=("tests/studies/test_verdicts.py",),
        data=("tests/studies/bodies/*.json",),
        env=REWRITE,
    ),
    study("tetris", "tetris", "docs/explanation/placement/tetris/", "--seeds 1 --requests 8000", "goodput cost"),
    study("ensemble", "ensemble", "docs/explanation/placement/ensemble/", "--seeds 30 --requests 20000", "rate"),
)
LONG = (
    Artefact(
        name="trained-network",
        files=("models/data/resnet8_fashion_mnist.onnx",),
        command="fluidnpu train --architecture resnet8 --epochs 12 --seed 1 --out build/resnet8.onnx",
        roots=("fluidnpu/commands/train.py",),
        ignore=("models/data/*", *FITTED),
        copies={"models/data/resnet8_fashion_mnist.onnx": "build/resnet8.onnx"},
        hours="a quarter of an hour, and Debian's dataset-fashion-mnist",
    ),
    Artefact(
        name="fit-of-logic",
        files=("dse/resources/logic.json",),
        command="python -m fluidnpu.rtl_tb.synthesis.calibration fit",
        roots=("rtl_tb/synthesis/calibration.py",),
        ignore=("rtl_tb/synthesis/*", "boards/*", *NO_RTL_CODE, *FITTED),
        hours="an hour",
    ),
    Artefact(
        name="clocks",
        files=("dse/resources/clocks.json",),
        command="python -m fluidnpu.rtl_tb.synthesis.timing --write",
        roots=("rtl_tb/synthesis/timing.py",),
        ignore=("boards/*", *NO_RTL_CODE, *FITTED),
        hours="half an hour",
    ),
    Artefact(
        name="routes",
        files=("docs/explanation/route.md",),
        command="python -m fluidnpu.rtl_tb.synthesis.route --page docs/explanation/route.md",
        roots=("rtl_tb/synthesis/route.py",),
        ignore=("boards/*", *NO_RTL_CODE, *FITTED),
        part=r"<!-- routes -->\n\n(.*?)\n<!-- end -->",
        hours="tens of minutes, and nextpnr, which `make route` installs",
    ),
    Artefact(
        name="every-layer",
        files=("docs/explanation/cycles/index.md",),
        command="make --no-print-directory --keep-going -j 2 layers",
        roots=("benchmarks/exact_cycles.py", "benchmarks/cycles_index.py"),
        ignore=NO_RTL_CODE,
        copies={"docs/explanation/cycles/index.md": "build/cycles-index.md"},
        hours="an hour and a half of two cores",
    ),
    Artefact(
        name="tuned-weights",
        files=("scheduler/policies/tuned/*.json",),
        command="python benchmarks/table2_tune.py",
        roots=("benchmarks/table2_tune.py",),
        ignore=("models/data/*", "boards/*", *FITTED),
        hours="not timed; its head names the runs",
    ),
    Artefact(
        name="recorded-exits",
        files=("studies/pame/data/fashion.npz", "studies/pame/data/digits.npz"),
        command=f"python -m fluidnpu.studies.pame.record {FASHION} --work build/record/exits studies/pame/data",
        roots=("studies/pame/record.py",),
        ignore=("models/data/*", "boards/*", *FITTED),
        hours="minutes of training, and Debian's dataset-fashion-mnist",
    ),
    Artefact(
        name="recorded-maps",
        files=("studies/pame/data/landmarks.npz", "studies/pame/data/segmentation.npz"),
        command=f"python -m fluidnpu.studies.pame.record_maps {FASHION} --work build/record/maps studies/pame/data",
        roots=("studies/pame/record_maps.py",),
        ignore=("models/data/*", "boards/*", *FITTED),
        hours="minutes of training, and Debian's dataset-fashion-mnist",
    ),
    Artefact(
        name="recorded-delen",
        files=("studies/delen/data/recorded.npz",),
        command="python -m fluidnpu.studies.delen.recording",
        roots=("studies/delen/recording.py",),
        ignore=("boards/*", *FITTED),
        hours="some four minutes, and Debian's dataset-fashion-mnist",
    ),
    study(
        "fluid-batching",
        "fluid_batching",
        "docs/explanation/scheduling/",
        "--seeds 30 --requests 20000",
        "fig-7 fig-8 fig-9a fig-9b fig-10 frontier map-resnet-50-zc706",
        "a quarter of an hour",
        summary=True,
    ),
    study(
        "pame",
        "pame",
        "docs/explanation/pame/",
        "--seeds 30 --requests 20000",
        "fig-2 fig-12 fig-13 splits maps",
        "thirty seeds, not timed",
    ),
    study("delen", "delen", "docs/explanation/delen/", "--seeds 30 --requests 20000", "fig-10 figs-11-12", "a minute"),
    *(
        Artefact(
            name=f"{tables}-tables",
            files=("docs/explanation/scheduling/foreign.md",),
            command=f"python benchmarks/foreign.py --set {tables} --seeds 8 --few-seeds 4 --out build/{tables}",
            roots=("benchmarks/foreign.py",),
            data=(f"benchmarks/{tables}_tables.json",),
            part=rf"<!-- {tables} -->\n\n(.*?)\n<!-- end -->",
            prints=True,
            hours="a quarter of an hour",
        )
        for tables in ("foreign", "batching")
    ),
    Artefact(
        name="coverage",
        files=("docs/reference/coverage.md",),
        command="python benchmarks/coverage.py --zoo build/coverage/env/bin/python",
        roots=("benchmarks/coverage.py", "benchmarks/coverage_zoo.py"),
        part=r"<!-- coverage -->\n\n(.*?)\n<!-- end -->",
        prints=True,
        hours="twenty minutes, with an environment of its own",
    ),
    Artefact(
        name="way-out",
        files=("docs/explanation/cycles/way-out.md",),
        command="python benchmarks/way_out.py",
        roots=("benchmarks/way_out.py",),
        data=("benchmarks/way_out_before.json",),
        part=r"<!-- computed -->\n\n(.*?)\n<!-- end -->",
        prints=True,
        hours="three minutes, after the scoreboard, which makes the networks",
    ),
    Artefact(
        name="filters",
        files=("docs/explanation/cycles/filters.md",),
        command="python benchmarks/filters.py",
        roots=("benchmarks/filters.py",),
        part=r"<!-- computed -->\n\n(.*?)\n<!-- end -->",
        prints=True,
        hours="ten minutes, after the scoreboard, which makes two of the networks",
    ),
    Artefact(
        name="int8",
        files=("docs/explanation/cycles/int8.md",),
        command="python benchmarks/int8.py",
        roots=("benchmarks/int8.py",),
        part=r"<!-- computed -->\n\n(.*?)\n<!-- end -->",
        prints=True,
        hours="ten minutes, after the scoreboard, which makes one of the networks",
    ),
    Artefact(
        name="full-size-networks",
        files=("docs/explanation/pame/full-size.md",),
        command="python benchmarks/full_size.py",
        roots=("benchmarks/full_size.py",),
        prints=True,
        hours="not timed",
    ),
)
GIVEN = {
    "models/data/layers_*.json": "derived from the published architectures by arithmetic (models/data/README.md)",
    "models/data/fashion_mnist_test_1000.npz": "Debian's dataset-fashion-mnist, unchanged",
    "studies/fluid_batching/data/table2_latency.json": "fitted to the paper's averages, as its note says",
    "rtl_tb/synthesis/clock_paths.json": "benchmarks/clock_paths.py, from checkouts of other projects",
    "tests/studies/bodies/*.json": "small runs of the studies, by tests/studies/small_bodies.py",
    "benchmarks/foreign_tables.json": "drawn once by benchmarks/foreign_tables.py, before anything was tuned",
    "benchmarks/batching_tables.json": "drawn once by benchmarks/foreign_tables.py, before any policy met them",
    "tests/reference/bundle_0.1/*": "written by version 0.1, which must stay readable",
    "docs/pictures/logo.svg": "drawn by hand",
    "docs/pictures/yolov8-*.jpg": "drawn by the blocks of docs/tutorial/yolov8.md",
    "benchmarks/way_out_before.json": "benchmarks/way_out.py --pointwise, on the tree 8bce7153",
    "benchmarks/extras.json": "benchmarks/extras.py WHEEL, from a package index",
    "workshop/digests.json": "kept by `make refresh` itself",
}  # committed data that no command of today's tree makes, and where they come from


def outputs(tree: Tree) -> list[Artefact]:
    """List all rows, those of pages and notebooks with the sources that their blocks name."""
    return [*QUICK, *LONG, *pages(tree), *notebooks(tree)]
