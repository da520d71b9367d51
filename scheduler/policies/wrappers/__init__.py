"""Wrappers that add one behaviour to any policy."""
