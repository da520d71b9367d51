# Constraints of Xilinx ZC706 (Zynq-7000 XC7Z045).
# Every pin belongs to the processing system or to the memory controller (mig_0); each brings its own
# constraints, but for the controller's clock. There are two clocks: clock_0/clk_out1 (150 MHz, derived from FCLK_CLK0), and
# mig_0/ui_clk on the controller's side of memory_0, which crosses between them.
# The controller's clock comes from the board's oscillator (github.com/analogdevicesinc/hdl, projects/common/zc706).
set_property -dict {PACKAGE_PIN H9 IOSTANDARD LVDS} [get_ports sys_clk_clk_p]
set_property -dict {PACKAGE_PIN G9 IOSTANDARD LVDS} [get_ports sys_clk_clk_n]
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
