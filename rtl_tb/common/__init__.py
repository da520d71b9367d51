"""The ground of the room: texts of the SystemVerilog, the cells of every subject, parts of benches."""
