"""NPU programs: descriptors, FBCB words and memory layout, compiled from a quantised network."""
