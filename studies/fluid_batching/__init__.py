"""Fluid Batching: every table and figure about serving, run again and set beside the paper's numbers."""
