"""Fault campaigns: requests, devices, boards and fronts fail on order; no answer may be wrong or missing."""
