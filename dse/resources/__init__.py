"""DSPs, RAM primitives, LUTs and flip-flops of a design, and what fits a board."""
