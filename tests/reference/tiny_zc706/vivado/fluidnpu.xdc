# Constraints of Xilinx ZC706 (Zynq-7000 XC7Z045).
# Every pin belongs to the processing system, whose IP brings its own constraints; the one clock (150 MHz,
# clock_0/clk_out1) is derived from FCLK_CLK0.
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
