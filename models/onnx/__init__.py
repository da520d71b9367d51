"""ONNX in and out: files, operators, folding into NPU layers, export."""
