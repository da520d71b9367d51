/// Replaces fluidnpu_beat_builder in proofs of its users; it promises nothing by itself.
///
/// The user's checker assumes the properties of the proof `guard`.
module fluidnpu_beat_builder #(
  parameter int unsigned InWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned LineWords = 16,
  localparam int unsigned CountWidth = $clog2(InWords + 1),
  localparam int unsigned OffsetBits = $clog2(LineWords)
) (
  input  logic                              clk_i,
  input  logic                              rst_ni,
  input  logic                              maximum_i,
  input  logic                              valid_i,
  input  logic                              two_i,
  input  logic                              ends_i,
  input  logic [1:0][1:0][LineWords*WordBits-1:0] lines_i,
  input  logic [1:0]                        odd_i,
  input  logic [1:0][OffsetBits-1:0]        offset_i,
  input  logic [1:0][CountWidth-1:0]        words_i,
  input  logic [1:0][CountWidth-1:0]        place_i,
  output logic                              beat_valid_o,
  output logic [InWords*WordBits-1:0]             beat_o
);
  (* anyseq *) logic                  valid;
  (* anyseq *) logic [InWords*WordBits-1:0] beat;
  assign beat_valid_o = valid;
  assign beat_o       = beat;
endmodule
