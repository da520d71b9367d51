"""Runs a study: its tasks in processes, and the answers that outlive a stop."""
