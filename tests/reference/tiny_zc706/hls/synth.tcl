# Vivado HLS 2019.2: synthesise the core of design 123d45333ca2 and export it.
# Run in this folder: vivado_hls -f synth.tcl
open_project -reset fluidnpu_core
set_top fluidnpu_core
add_files src/fluidnpu_core.cpp -cflags "-std=c++0x"
open_solution -reset solution1
set_part {xc7z045ffg900-2}
create_clock -period 6.667 -name default
config_array_partition -maximum_size 4096
config_rtl -reset control -reset_level low
csynth_design
# A row of sums may be read again 14 cycles after it was written. A deeper pipeline would read
# stale sums: such a core is not exported.
set name fluidnpu_core/solution1/syn/report/run_array_csynth.xml
set text ""
if {[file exists $name]} {
    set report [open $name]
    set text [read $report]
    close $report
}
if {![regexp {<Worst-caseLatency>(\d+)</Worst-caseLatency>} $text all depth]} {
    error "$name must tell how deep the pipeline of run_array is, which must be less than 14 cycles, and it does not"
} elseif {$depth >= 14} {
    error "the pipeline of run_array must be less than 14 cycles deep, and it has $depth: a slower clock makes it shorter"
}
if {![regexp {<EstimatedClockPeriod>([0-9.]+)</EstimatedClockPeriod>} $text all period] || $period > 6.667} {
    puts "WARNING: $name must tell of a clock period of at most 6.667 ns, and it does not: see whether routing meets it"
}
if {![regexp {<(PipelineInitiationInterval|Interval-max)>1</} $text]} {
    puts "WARNING: $name does not tell that run_array takes a beat every cycle; if it does not, layers take longer than the latency table says"
}
export_design -format ip_catalog -rtl verilog -vendor fluidnpu -library hls -ipname fluidnpu_core -version 1.0
exit
