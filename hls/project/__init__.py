"""Vivado projects: rendering, writing, checks of the generated text, and reports read back."""
