"""The ground of the room: texts of the SystemVerilog, cells that every subject uses, parts of benches."""
