"""The reference core as a shared library."""
