"""Open synthesis with Yosys and the calibration of resource estimates."""
