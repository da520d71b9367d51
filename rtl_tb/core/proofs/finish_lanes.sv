/// Replaces core_requantise and common_skid in the proof of core_finish's count; they do anything at all.
///
/// common_skid itself would not do: its assertion needs a reset, and the proof begins in any state.
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

module common_skid #(
  parameter int unsigned Width = 8
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  output logic             ready_o,
  input  logic [Width-1:0] data_i,
  output logic             valid_o,
  input  logic             ready_i,
  output logic [Width-1:0] data_o
);
  (* anyseq *) logic [Width+1:0] any;
  assign {ready_o, valid_o, data_o} = any;
endmodule
