/// The unpacker under any jobs and pauses: a job gives exactly its beats, takes exactly its port words, and
/// never stalls by itself.
module unpack_proof #(
  parameter int unsigned WordBits = 16,
  localparam int unsigned PortWords = 4,
  localparam int unsigned BeatWords = 3
) (
  input logic                          clk_i,
  input logic                          job_valid_i,
  input logic [1:0]                    job_skip_i,
  input logic [7:0]                    job_words_i,
  input logic                          port_valid_i,
  input logic [PortWords*WordBits-1:0] port_i,
  input logic                          beat_ready_i
);
  logic rst_n = 1'b0;
  logic job_ready, port_ready, beat_valid;
  logic [BeatWords*WordBits-1:0] beat;
  logic [31:0] left, missing;

  always_ff @(posedge clk_i) rst_n <= 1'b1;
  always_comb assume (job_words_i != '0);

  fluidnpu_unpack #(.PortWords(PortWords), .BeatWords(BeatWords), .WordBits(WordBits)) dut (
    .clk_i, .rst_ni(rst_n), .job_valid_i, .job_ready_o(job_ready), .job_skip_i, .job_words_i(32'(job_words_i)),
    .port_valid_i, .port_ready_o(port_ready), .port_i, .beat_valid_o(beat_valid), .beat_ready_i, .beat_o(beat),
    .left_o(left), .missing_o(missing)
  );

  // The books of the job at hand, kept apart from the module: words still to give, words still to take with
  // what is skipped.
  logic [31:0] to_give = '0, to_take = '0, taking;
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      if (beat_valid && beat_ready_i) to_give <= to_give > BeatWords ? to_give - BeatWords : '0;
      if (job_valid_i && job_ready) to_give <= 32'(job_words_i);
      to_take <= !(port_valid_i && port_ready) ? taking : taking > PortWords ? taking - PortWords : '0;
    end
  end
  assign taking = job_valid_i && job_ready ? 32'(job_words_i) + 32'(job_skip_i) : to_take;  // a job may take its first word as it begins

  always_comb begin
    if (rst_n) begin
      assert (left == to_give && to_give <= 32'd255);
      assert (to_take == missing);
      if (beat_valid) assert (to_give != '0);
      if (port_ready) assert (taking != '0);
      assert (job_ready == (to_give == '0 || (beat_valid && beat_ready_i && to_give <= BeatWords)));
      if (job_ready) assert (to_take == '0);
      for (int unsigned i = 0; i < BeatWords; i++) if (beat_valid && i >= to_give) assert (beat[i*WordBits+:WordBits] == '0);
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_n && beat_valid && beat_ready_i && to_give == 32'd2);
    cover (rst_n && port_valid_i && port_ready && to_take == 32'd1);
    cover (rst_n && beat_valid && job_valid_i && job_ready && port_valid_i && port_ready && job_skip_i == 2'd3);
    cover (rst_n && job_ready && beat == '0 && missing == '0);
  end
`endif
endmodule
