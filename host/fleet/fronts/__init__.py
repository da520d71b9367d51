"""Fronts of a fleet: what clients see of a dispatcher and its boards, and what steers it."""
