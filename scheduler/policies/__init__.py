"""Serving policies, their tables and weights, and the registry that makes them by name."""
