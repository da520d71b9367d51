"""The study of the paper Fluid Batching."""
