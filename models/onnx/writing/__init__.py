"""Networks written as ONNX: layers, activations, tails and metadata."""
