"""The `exact` cycle model, equal to the RTL, and the search with it."""
