"""The compute core: its five streams, a NumPy reference, the HLS C++ and its C simulation."""
