# Vivado HLS 2019.2: synthesise the core of design 417535330264 and export it. Run in this folder: vivado_hls -f synth.tcl
open_project -reset fluidnpu_core
set_top fluidnpu_core
add_files src/fluidnpu_core.cpp -cflags "-std=c++0x"
open_solution -reset solution1
set_part {xc7z045ffg900-2}
create_clock -period 6.667 -name default
config_rtl -reset all -reset_level low
csynth_design
export_design -format ip_catalog -rtl verilog -vendor fluidnpu -library hls -ipname fluidnpu_core -version 1.0
exit
