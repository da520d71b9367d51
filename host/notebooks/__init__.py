"""Notebooks for a board, delivered by `pynq get-notebooks fluidnpu` (entry point `pynq.notebooks`)."""
