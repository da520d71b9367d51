"""One pass over an ONNX graph: operators open layers, fold into them or move values."""
