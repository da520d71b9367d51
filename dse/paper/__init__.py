"""The `paper` cycle model of Fluid Batching, its exhaustive search, its plans and its latency tables."""
