"""Studies of published systems, one folder a paper: its data, its tasks, its statements and our verdicts."""
