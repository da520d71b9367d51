"""SystemVerilog of the data plane and reference core, cocotb benches, proofs, open synthesis."""
