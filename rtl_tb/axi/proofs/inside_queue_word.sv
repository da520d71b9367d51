// Inside common_fifo, for a proof of its user: the user names a place behind the head (`formal_at`, 0 is the
// head) and sees the word there.
`ifdef FORMAL
  wire  [LevelWidth-1:0] formal_at;
  logic [Width-1:0]      formal_word;
  assign formal_word = store_q[(32'(head_q) + 32'(formal_at)) % Depth];
  always_comb begin
    if (rst_ni) begin
      assert (32'(head_q) < Depth && 32'(tail_q) < Depth && 32'(level_q) <= Depth);
      assert ((32'(head_q) + 32'(level_q)) % Depth == 32'(tail_q));
    end
  end
`endif
