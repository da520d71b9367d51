"""Exits of recorded samples."""
