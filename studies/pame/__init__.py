"""The study of PAME: recorded networks of ours, the paper's statements, and the verdicts."""
