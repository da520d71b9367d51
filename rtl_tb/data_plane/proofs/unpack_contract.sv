/// Replaces fluidnpu_unpack in proofs of its users, which concern requests to memory only; it promises
/// nothing.
module fluidnpu_unpack #(
  parameter int unsigned PortWords = 8,
  parameter int unsigned BeatWords = 4,
  parameter int unsigned WordBits = 16,
  parameter int unsigned WordsWidth = 32,
  localparam int unsigned SkipWidth = PortWords > 1 ? $clog2(PortWords) : 1
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    job_valid_i,
  output logic                    job_ready_o,
  input  logic [SkipWidth-1:0]    job_skip_i,
  input  logic [WordsWidth-1:0]   job_words_i,
  input  logic                    port_valid_i,
  output logic                    port_ready_o,
  input  logic [PortWords*WordBits-1:0] port_i,
  output logic                    beat_valid_o,
  input  logic                    beat_ready_i,
  output logic [BeatWords*WordBits-1:0] beat_o,
  output logic [WordsWidth-1:0]   left_o,
  output logic [WordsWidth-1:0]   missing_o
);
  (* anyseq *) logic job_ready, port_ready, beat_valid;
  (* anyseq *) logic [BeatWords*WordBits-1:0] beat;
  assign job_ready_o  = job_ready;
  assign port_ready_o = port_ready;
  assign beat_valid_o = beat_valid;
  assign beat_o       = beat;
  assign left_o       = '0;
  assign missing_o    = '0;
endmodule
