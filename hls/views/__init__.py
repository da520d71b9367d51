"""Texts rendered from the register map and the bit formats: SystemVerilog, C, C++ and Markdown."""
