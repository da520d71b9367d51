"""Formal proofs, their seeded bugs, mutation."""
