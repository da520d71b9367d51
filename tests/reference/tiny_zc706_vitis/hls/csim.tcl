# Vitis HLS 2022.1 or later: run the test vectors of the core in C simulation.
# Run in this folder: vitis_hls -f csim.tcl
open_project -reset fluidnpu_core_csim
set_top fluidnpu_core
add_files src/fluidnpu_core.cpp -cflags "-std=c++14"
add_files -tb tb/tb_core.cpp -cflags "-std=c++14 -Isrc"
add_files -tb tb/jobs.bin
add_files -tb tb/expected.bin
open_solution -flow_target vivado -reset solution1
set_part {xc7z045ffg900-2}
create_clock -period 6.667 -name default
csim_design -clean -argv {jobs.bin expected.bin}
exit
