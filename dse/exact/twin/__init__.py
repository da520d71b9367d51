"""The twin of the RTL: NPU and memory cycle by cycle, without data, as one loop that Numba compiles.

A file is a subject, and its head names the RTL modules whose twin it is. Counters, levels of queues and
addresses decide when something happens, so only they are here; no word is moved. The tests hold the counts
of every layer to Verilator.

| file | subject |
|---|---|
| `loop` | the loop, and the modules in their order |
| `parameters` | the hardware, the layers, the counts |
| `records` | registers as named fields, for Numba and for plain Python |
| `queues` | levels of queues |
| `memory`, `stripes`, `masters` | from the DRAM to the read and write masters |
| `sequencer`, `commands`, `walker` | what runs: layers, commands, rows of a row block |
| `windows`, `segments`, `row_buffer` | the input stream |
| `weights`, `residuals`, `outputs`, `addresses` | the other streams |
| `activation`, `filter`, `pool` | what outputs pass on their way to memory |
| `core`, `hls_core` | the control of the core in SystemVerilog, and of the HLS core |

A module's registers are a record with the names of the RTL, and so are its ports where another module reads
them. `step_x` moves module x by a cycle, `reset_x` begins a job or a layer, and `next_x` takes the next
command. ADR 17 tells why records, and what inlining is worth.
"""
