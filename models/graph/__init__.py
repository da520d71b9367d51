"""Networks as graphs of layers: shapes, tensors, parameters, and layer tables."""
