/// Replaces common_fifo in proofs of its users; it promises nothing by itself.
///
/// The user's checker assumes the properties of the proof `fifo`.
module common_fifo #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 16,
  parameter bit Shown = 1'b0,
  localparam int unsigned LevelWidth = $clog2(Depth + 1)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  clear_i,
  input  logic                  valid_i,
  output logic                  ready_o,
  input  logic [Width-1:0]      data_i,
  output logic                  valid_o,
  input  logic                  ready_i,
  output logic [Width-1:0]      data_o,
  output logic [LevelWidth-1:0] level_o
);
  (* anyseq *) logic [Width-1:0]      data;
  (* anyseq *) logic [LevelWidth-1:0] level;
  (* anyseq *) logic                  ready, valid;
  assign data_o  = data;
  assign level_o = level;
  assign ready_o = ready;
  assign valid_o = valid;
endmodule
