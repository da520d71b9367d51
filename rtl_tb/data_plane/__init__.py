"""The NPU's data plane: parameters and functional coverage."""
