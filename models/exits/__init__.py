"""Early exits: the exit rule, heads, cuts of a workload, and the choice of thresholds."""
