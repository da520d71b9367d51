"""Modes of subcommands that fill a file of their own."""
