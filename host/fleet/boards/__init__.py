"""Boards of a fleet: their processes, links, states and administration, and workers beside them."""
