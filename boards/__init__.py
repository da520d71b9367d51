"""FPGA boards as data: one TOML file each, every fact with the document it comes from."""
