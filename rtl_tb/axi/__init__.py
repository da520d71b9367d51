"""AXI masters and their stripes over several narrow ports."""
