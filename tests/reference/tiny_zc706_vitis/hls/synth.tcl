# Vitis HLS 2022.1 or later: synthesise the core of design 123d45333ca2.
# Run in this folder: vitis_hls -f synth.tcl
# Its Verilog in solution1/syn/verilog is packaged as it is (vivado/package.tcl). `export_design` is not used: that
# of 2019.2 fails since 2022 (Xilinx answer record 76960), and no IP of its own is needed.
open_project -reset fluidnpu_core
set_top fluidnpu_core
add_files src/fluidnpu_core.cpp -cflags "-std=c++14"
open_solution -flow_target vivado -reset solution1
set_part {xc7z045ffg900-2}
create_clock -period 6.667 -name default
set_clock_uncertainty 12.5% default
config_rtl -reset control -reset_level low
csynth_design
# A row of sums may be read again 14 cycles after it was written; a deeper pipeline would read stale
# sums. An array that takes a beat every other cycle has half the speed that the latency table says. Such a core is
# thrown away, so that nobody packages it.
set verilog fluidnpu_core/solution1/syn/verilog
set text ""
foreach name [lsort [glob -nocomplain fluidnpu_core/solution1/syn/report/run_array*_csynth.xml]] {
    set report [open $name]
    append text [read $report]
    close $report
}
set fault ""
if {![regexp {<Worst-caseLatency>(\d+)</Worst-caseLatency>} $text all depth]} {
    set fault "the report of run_array must tell how deep its pipeline is, which must be less than 14 cycles, and it does not"
} elseif {$depth >= 14} {
    set fault "the pipeline of run_array must be less than 14 cycles deep, and it has $depth: a slower clock makes it shorter"
} elseif {![regexp {<(PipelineInitiationInterval|Interval-max)>1</} $text]} {
    set fault "run_array must take a beat every cycle, and its report does not say so: a slower clock makes it possible"
}
if {$fault ne ""} {
    file delete -force $verilog
    error $fault
}
if {![regexp {<EstimatedClockPeriod>([0-9.]+)</EstimatedClockPeriod>} $text all period] || $period > 6.667} {
    puts "WARNING: the report of run_array must tell of a clock period of at most 6.667 ns, and it does not: see whether routing meets it"
}
exit
