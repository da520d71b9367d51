"""The PE array and the memory behind it: geometry, DRAM model, input buffer, roofline."""
