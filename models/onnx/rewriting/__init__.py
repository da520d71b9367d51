"""Rewriting of ONNX graphs before they are read: constants folded, quantised operators as floats."""
