"""Solvers behind policies: the decision process on counts, and the rule for a queue that never runs dry."""
