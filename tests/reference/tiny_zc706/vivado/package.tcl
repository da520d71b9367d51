# Vivado 2019.2: package data plane and core as the IP fluidnpu:npu:fluid_npu:1.0.
# Run from the project's root: vivado -mode batch -source vivado/package.tcl
set verilog hls/fluidnpu_core/solution1/syn/verilog
set core_rtl [glob -nocomplain $verilog/*.v $verilog/*.dat]
if {[llength $core_rtl] == 0} {
    error "the HLS core is not there yet: run 'make hls' first"
}
if {[llength [glob -nocomplain $verilog/*.tcl]] > 0} {
    error "the HLS core must be Verilog alone, and it asks for IP of its own: see $verilog"
}
create_project -force package build/package -part xc7z045ffg900-2
# Packages come first, whatever the tool makes of the order.
set packages [lsort [glob rtl/*_pkg.sv]]
set modules [list]
foreach file [lsort [glob rtl/*.sv rtl/*.v]] {
    if {[lsearch -exact $packages $file] < 0} {
        lappend modules $file
    }
}
add_files -norecurse [concat $packages $modules]
add_files -norecurse $core_rtl
set_property top fluid_npu [current_fileset]
update_compile_order -fileset sources_1
ipx::package_project -root_dir build/ip -vendor fluidnpu -library npu -taxonomy /UserIP -import_files -force
set npu [ipx::current_core]
set_property name fluid_npu $npu
set_property version 1.0 $npu
set_property display_name "fluidnpu 123d4533" $npu
# An interface that was not recognised would show up much later, and only as an empty argument.
foreach name {s_axil m0_axi m1_axi m2_axi aclk aresetn irq} {
    if {[llength [ipx::get_bus_interfaces $name -of_objects $npu]] != 1} {
        error "the IP must have the interface $name, and Vivado did not recognise it"
    }
}
set registers [ipx::get_address_blocks reg0 -of_objects [ipx::get_memory_maps s_axil -of_objects $npu]]
set_property range 4096 $registers
foreach {name offset} {
    CTRL 0x00
    STATUS 0x04
    IRQ_ENABLE 0x08
    IRQ_STATUS 0x0C
    ERROR 0x10
    BUILD_ID 0x14
    SHAPE 0x18
    SLOT_MASK 0x1C
    ACTIVE 0x20
    FIRST_LAYER 0x24
    LAST_LAYER 0x28
    LAYERS 0x2C
    PROGRAM_LO 0x30
    PROGRAM_HI 0x34
    WEIGHTS_LO 0x38
    WEIGHTS_HI 0x3C
    SLOT_BASE_LO 0x40
    SLOT_BASE_HI 0x44
    SLOT_BYTES 0x48
    WATCHDOG 0x4C
    CYCLES_LO 0x50
    CYCLES_HI 0x54
    SATURATIONS 0x58
    FBCB_INDEX 0x5C
    FBCB_DATA 0x60
    COUNTERS_LAYER 0x64
    LAYER_CYCLES 0x80
    LAYER_INPUTS 0x84
    LAYER_STARVED 0x88
    LAYER_BLOCKED 0x8C
    LAYER_READ_BEATS 0x90
    LAYER_READ_BURSTS 0x94
    LAYER_WRITE_BEATS 0x98
    LAYER_WRITE_BURSTS 0x9C
} {
    set register [ipx::add_register $name $registers]
    set_property address_offset $offset $register
    set_property size 32 $register
}
ipx::create_xgui_files $npu
ipx::update_checksums $npu
ipx::check_integrity $npu
ipx::save_core $npu
close_project
