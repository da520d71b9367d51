/// Replaces fluidnpu_activation_lane in the proof of the unit: any words and saturations at all.
module fluidnpu_activation_lane #(
  parameter bit Dsp = 1'b0,
  parameter int unsigned WordBits = 16,
  localparam int unsigned RowWidth = $clog2(fluidnpu_pkg::PieceRows)
) (
  input  logic                clk_i,
  input  fluidnpu_pkg::unit_t unit_i,
  input  logic                bank_i,
  input  logic [31:0]         below_i,
  input  logic [31:0]         above_i,
  input  logic signed [WordBits-1:0] word_i,
  input  logic signed [WordBits-1:0] residual_i,
  input  logic [RowWidth-1:0] row_i,
  input  logic                used_i,
  output logic [WordBits-1:0] word_o,
  output logic                saturated_o,
  input  logic                write_i,
  input  logic                write_bank_i,
  input  logic [RowWidth-1:0] write_row_i,
  input  logic [31:0]         write_piece_i
);
  (* anyseq *) logic [WordBits:0] any;
  assign {saturated_o, word_o} = any;
endmodule
