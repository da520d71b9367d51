"""The runtime loop over a driver and the inference server around it."""
