// Inside fluidnpu_hls_core, which a bitstream project brings, for a core of known answers: the count of
// saturations is the sum of those that the core told since the last clear, or the largest number; each stream is
// the core's own.
`ifdef FORMAL
  reg        past_q = 1'b0;
  reg [63:0] total_q;
  always @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni || clear_i) total_q <= 64'd0;
    else if (count_valid) total_q <= total_q + {32'd0, count};
  end
  always @* begin
    assume (rst_ni == past_q);
    assume (total_q < 64'h7FFF_FFFF_FFFF_FFFF);
    if (past_q) begin
      assert (saturations_o == (total_q > 64'hFFFF_FFFF ? 32'hFFFF_FFFF : total_q[31:0]));
      assert (cmd_ready_o == (cmd_valid_i && ^cmd_i) && input_ready_o == (input_valid_i && !(^input_i)));
      assert (weight_ready_o == (!weight_valid_i && ^weight_i) && residual_ready_o == (residual_valid_i || ^residual_i));
      assert (output_o == ~residual_i && output_valid_o == (residual_valid_i ^ output_ready_i));
    end
  end
`endif
