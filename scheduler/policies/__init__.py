"""The serving policies, each a small class that decides and touches nothing, and the registry that makes them from text."""

from .basic import Adaptive, Greedy, Serial
from .fluid import Fluid
from .registry import REGISTRY, make_policy

__all__ = ["REGISTRY", "Adaptive", "Fluid", "Greedy", "Serial", "make_policy"]
