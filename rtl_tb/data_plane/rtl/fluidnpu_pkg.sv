/// Sizes that the modules of the data plane share; what they pass to one another is in
/// `fluidnpu_formats_pkg`.
package fluidnpu_pkg;
  localparam int unsigned AddrWidth = 40;
  localparam int unsigned MaxSlots = 32;
endpackage
