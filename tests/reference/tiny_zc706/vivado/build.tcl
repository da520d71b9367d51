# Vivado 2019.2: from the packaged NPU to bitstream, hardware description and platform.
# Run from the project's root: vivado -mode batch -source vivado/build.tcl
# The columns of DSP slices as the part has them, before any hours are spent: the board's file is only a file.
create_project -in_memory -part xc7z045ffg900-2
link_design -part xc7z045ffg900-2
set names [list]
foreach site [get_sites -quiet DSP48*] {
    lappend names [lindex [split $site Y] 0]
}
close_project
file mkdir build
set report [open build/dsp_columns.txt w]
set heights [list]
foreach name [lsort -unique $names] {
    lappend heights [llength [lsearch -all -exact $names $name]]
    puts $report "$name [lindex $heights end]"
}
close $report
set columns [list]
foreach height [lsort -integer -decreasing -unique $heights] {
    lappend columns [list $height [llength [lsearch -all -exact $heights $height]]]
}
set given [list [list 140 5] [list 100 2]]
if {$columns ne $given} {
    set differ "columns of DSP slices (height, number) must be those of xc7z045ffg900-2, $columns, and dsp_columns of the board's file has $given"
    puts "WARNING: $differ; the HLS core asks nothing of them"
}
create_project -force system build/vivado -part xc7z045ffg900-2
# The board's files of the version that its file names, or the newest that are there: they hold the preset.
set board [get_board_parts -quiet xilinx.com:zc706:part0:1.4]
if {[llength $board] == 0} {
    set board [get_board_parts -quiet -latest_file_version xilinx.com:zc706:part0:*]
}
if {[llength $board] == 0} {
    error "the board files of xilinx.com:zc706:part0:1.4 are not installed; the processing system needs their preset"
}
set_property board_part [lindex $board 0] [current_project]
set_property ip_repo_paths [list build/ip] [current_project]
update_ip_catalog -rebuild
source vivado/block_design.tcl
set design [get_files system.bd]
generate_target all $design
add_files -norecurse [make_wrapper $design -top]
set_property top system_wrapper [current_fileset]
add_files -fileset constrs_1 vivado/fluidnpu.xdc
update_compile_order -fileset sources_1
# A full device needs the tool's effort: timing-driven synthesis, physical optimisation before and after routing.
set_property strategy Flow_PerfOptimized_high [get_runs synth_1]
set_property strategy Performance_ExplorePostRoutePhysOpt [get_runs impl_1]
set_property STEPS.PHYS_OPT_DESIGN.IS_ENABLED true [get_runs impl_1]
set_property STEPS.POST_ROUTE_PHYS_OPT_DESIGN.IS_ENABLED true [get_runs impl_1]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
    error "implementation did not end in a bitstream; see build/vivado/system.runs/impl_1/runme.log"
}
open_run impl_1
report_utilization -file build/utilization.rpt -hierarchical
report_timing_summary -file build/timing.rpt
# What the first real runs teach, even where they miss their clock.
report_high_fanout_nets -timing -max_nets 50 -file build/high_fanout.rpt
report_design_analysis -congestion -complexity -file build/design_analysis.rpt
report_methodology -file build/methodology.rpt
report_cdc -details -file build/cdc.rpt
# What was built stays in build/ in any case. Only what meets timing reaches the board's bundle, unless
# ALLOW_SLACK=1 asks for a bitstream to bring a board up with.
file copy -force build/vivado/system.runs/impl_1/system_wrapper.bit build/fluidnpu.bit
file copy -force build/vivado/system.srcs/sources_1/bd/system/hw_handoff/system.hwh build/fluidnpu.hwh
write_hw_platform -fixed -include_bit -force -file build/fluidnpu.xsa
set allowed [expr {[info exists env(ALLOW_SLACK)] && $env(ALLOW_SLACK) eq "1"}]
set late ""
if {[get_property STATS.WNS [get_runs impl_1]] < 0} {
    set late "timing is not met at 150 MHz: see build/timing.rpt"
} elseif {[get_property STATS.WHS [get_runs impl_1]] < 0} {
    set late "hold times are not met, whatever the clock: see build/timing.rpt"
}
if {$late ne "" && !$allowed} {
    error "$late; build/fluidnpu.bit is kept, and ALLOW_SLACK=1 would put it into bundle/"
} elseif {$late ne ""} {
    puts "WARNING: $late; bundle/fluidnpu.bit is for bringing a board up, and its results may be wrong"
}
file copy -force build/fluidnpu.bit bundle/fluidnpu.bit
file copy -force build/fluidnpu.hwh bundle/fluidnpu.hwh
