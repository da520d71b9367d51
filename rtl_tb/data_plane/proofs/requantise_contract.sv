/// Replaces core_requantise in proofs of its users: any words at all.
module core_requantise #(
  parameter int unsigned AccBits = 48
) (
  input  logic                      clk_i,
  input  logic                      enable_i,
  input  logic signed [15:0]        residual_i,
  input  logic        [4:0]         residual_shift_i,
  input  logic signed [AccBits-1:0] bias_i,
  input  logic signed [AccBits-1:0] sum_i,
  input  logic        [1:0]         coarse_shift_i,
  input  logic        [3:0]         fine_shift_i,
  input  logic signed [15:0]        lo_i,
  input  logic signed [15:0]        hi_i,
  output logic signed [15:0]        word_o,
  output logic                      saturated_o
);
  (* anyseq *) logic [16:0] any;
  assign {saturated_o, word_o} = any;
endmodule
