"""Fixtures that several files of this room's tests share."""

from __future__ import annotations

import numpy as np
import pytest
from hls_cases import CHAIN, network_of

from fluidnpu.models import QuantisedNetwork


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture(scope="module")
def chain() -> QuantisedNetwork:
    return network_of(np.random.default_rng(5), (7, 6, 3), CHAIN)
