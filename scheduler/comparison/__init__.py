"""Comparison of policies on the same streams, and decision logs."""
