"""Several networks on a fleet: the allocation matrix, ways to fill it, and rules that combine answers."""
