"""Multi-exit networks, their training, files and the golden model that defines every bit."""

from .network import Exit, Kind, Layer, LayerShape, Network, NetworkError, Parameters, Workload

__all__ = ["Exit", "Kind", "Layer", "LayerShape", "Network", "NetworkError", "Parameters", "Workload"]
