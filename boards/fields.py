"""Meaning of every field of a board file, in the order in which a file has them.

The reference page and the sentence about a field that is missing are made of these tables.
"""

FIELDS = {
    "schema": "the form of the file: 1",
    "name": "name of the board: lower-case letters, digits, '-' and '_'",
    "title": "name of the board for people",
    "part": "the device as the vendor's tools name it",
    "board_part": "the board as the vendor's board files name it",
    "family": "family of the device: 'zynq7000' or 'zynquplus'",
    "dsp": "DSP slices of the device",
    "ramb36": "block RAMs of 36 Kb of the device",
    "uram288": "UltraRAMs of 288 Kb of the device, 0 where there are none",
    "lut": "look-up tables of the device",
    "ff": "flip-flops of the device",
    "clock_hz": "clock of the NPU in Hz, which the design must reach",
    "axi_ports": "memory ports from the programmable logic into the processing system",
    "axi_port_bits": "width of one of these ports in bits, a power of two",
    "dram": "the external memories, a table [dram.NAME] each; the first one is the default",
    "paper_words_per_cycle": "16-bit words a cycle and port that the paper model counts; what two ports carry, by default",
    "paper_memory_bits": "on-chip memory in bits that the paper model counts; what the device has, by default",
    "dsp_columns": "columns of DSP slices, each [height, number of columns of it]; where there are none nothing is asked "
    "of them",
    "dsp_most_pct": "per cent of the DSP slices that a design takes at most; 100 by default",
    "power": "watts of the whole board, a table [power]; without it energies of this board are not modelled",
    "sensors": "where the board's power is measured, a table [sensors.NAME] each; they change no design",
    "sources": "the document behind each fact, by its name; a memory is 'dram.NAME', and its "
    "share of the peak 'dram.NAME.sustained_pct'",
}
OPTIONAL = ("paper_words_per_cycle", "paper_memory_bits", "dsp_columns", "dsp_most_pct", "power", "sensors", "sources")

DRAM_FIELDS = {
    "bytes_per_s": "peak transfer rate of the memory in bytes a second",
    "side": "'ps' where a controller of the processing system holds the memory, 'pl' where one in the programmable "
    "logic does",
    "port_bits": "width in bits of the port that a master of the NPU has there; by default that of its stripes together",
    "stripes": "ports that one master of the NPU is spread over: 1, 2 or 4; 1 by default",
    "sustained_pct": "per cent of the peak that all ports together get for long: row misses and turns of direction take "
    "the rest; 75 by default",
}
DRAM_OPTIONAL = ("port_bits", "stripes", "sustained_pct")

SENSOR_FIELDS = {
    "chip": "the sensor as Linux names it, in the file `name` of its folder in /sys/class/hwmon",
    "address": "its address on the I2C bus, where there are several of the kind",
    "covers": "'board' where it measures the supply of the whole board, 'rails' where it measures some of its rails",
    "rails": "the rails to add up, each the label of its watts, or those of its volts and its amps; by default all that "
    "the chip tells",
}
SENSOR_OPTIONAL = ("address", "rails")

POWER_FIELDS = {
    "idle_w": "watts while the NPU is configured and does nothing",
    "active_w": "watts while it works",
}
