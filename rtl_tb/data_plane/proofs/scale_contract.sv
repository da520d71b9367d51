/// Replaces core_scale in proofs of its users: any result at all, which the checker follows.
module core_scale #(
  localparam int unsigned Bits = 32,
  localparam int unsigned MultiplierBits = core_pkg::MultiplierBits
) (
  input  logic                             clk_i,
  input  logic                             enable_i,
  input  logic signed [Bits-1:0]           value_i,
  input  logic        [MultiplierBits-1:0] multiplier_i,
  input  logic        [1:0]                coarse_shift_i,
  input  logic        [3:0]                fine_shift_i,
  output logic signed [Bits-1:0]           value_o
);
  (* anyseq *) logic signed [Bits-1:0] any;
  assign value_o = any;
endmodule
