"""Random criteria, and Python itself as an independent evaluator of their canonical text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hypothesis import strategies as st

from fluidnpu.scheduler.exits import Criterion
from fluidnpu.scheduler.exits.criterion import AllOf, AnyOf, Inequality, Never, Node, Not
from fluidnpu.scheduler.exits.quantities import QUANTITIES

EXITS = 4
ORDERS = ("<", "<=", ">", ">=")
FACTORS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "nJ": 1, "uJ": 1e3, "mJ": 1e6, "J": 1e9}
FACTORS |= {"MAC": 1, "kMAC": 1e3, "MMAC": 1e6, "GMAC": 1e9, "": 1}
NUMBER = re.compile(r"(?<![A-Za-z_0-9.])(-?[0-9.]+(?:E[+-]?[0-9]+)?)([A-Za-z]*)")


@st.composite
def comparisons(draw: st.DrawFn) -> Inequality:
    name = draw(st.sampled_from(sorted(QUANTITIES)))
    if name == "exit_number":
        return Inequality(name, draw(st.sampled_from((*ORDERS, "==", "!="))), float(draw(st.integers(0, EXITS + 1))))
    if name in ("confidence", "accuracy"):
        shares = st.sampled_from([0.0, 0.125, 0.3, 0.5, 0.7, 1.0])
        if name == "confidence" and draw(st.booleans()):
            values = tuple(draw(st.lists(shares, min_size=EXITS - 1, max_size=EXITS)))
            return Inequality(name, draw(st.sampled_from(ORDERS)), values)
        return Inequality(name, draw(st.sampled_from(ORDERS)), draw(shares))
    return Inequality(name, draw(st.sampled_from(ORDERS)), float(draw(st.integers(-50, 400))))


criteria = st.recursive(
    st.one_of(comparisons(), st.just(Never())),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: AllOf(tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda parts: AnyOf(tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=8,
).map(lambda tree: Criterion(tree))


def by_python(text: str, facts: Mapping[str, float], exit: int) -> bool:
    """Evaluate a canonical text as the Python that it nearly is."""
    plain = NUMBER.sub(lambda found: repr(float(found[1]) * FACTORS[found[2]]), text)
    plain = re.sub(r"(\[[^]]*\])", rf"\1[{exit}]", plain).replace("false", "False")
    return bool(eval(plain, {"__builtins__": {}}, dict(facts)))


def trees(node: Node) -> int:
    """Count the nodes of a tree."""
    if isinstance(node, Not):
        return 1 + trees(node.part)
    return 1 + sum(map(trees, node.parts)) if isinstance(node, AllOf | AnyOf) else 1
