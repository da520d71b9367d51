"""Design-space exploration: legal designs, cycle and resource models, search, and the design file everyone else works from."""

from .design import (
    B_MAX_LIMIT,
    BatchPlan,
    Design,
    DesignError,
    LatencyTable,
    Mode,
    Stack,
)

__all__ = [
    "B_MAX_LIMIT",
    "BatchPlan",
    "Design",
    "DesignError",
    "LatencyTable",
    "Mode",
    "Stack",
]
