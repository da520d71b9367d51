// Inside fluidnpu_output_writer, for any rows: what is packed belongs to the row at hand in the slot of its
// own sample, from its first word to its last, and its strobes say just that; an arbitrary word of the stream
// goes out once, unchanged, at its own address, and nothing else goes out.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  logic [AddrWidth-1:0] row_first, row_end;
  assign row_first = slot_i[row_sample] + AddrWidth'(row_offset);
  assign row_end   = row_first + AddrWidth'({cols_q, 1'b0});

  // Some word of the row at hand, from when it is packed until its port word goes out.
  (* anyseq *) logic                  mark;
  (* anyseq *) logic [PieceWidth-1:0] which;
  logic                   marked_q = 1'b0;
  logic [15:0]            value_q;
  logic [AddrWidth-1:0]   place_q, place;
  logic [31:0]            lane, source;
  logic [PortWords-1:0]   packed_q, packing;  // words of the port word at hand that were packed
  assign place  = row_first + AddrWidth'({word_q, 1'b0}) + AddrWidth'({which, 1'b0});
  assign source = (32'(word_q) + 32'(which)) % OutWords;  // a row begins at a beat
  assign lane   = 32'(place_q[PortBits-1:0]) / 2;
  always_comb begin
    for (int unsigned i = 0; i < PortWords; i++) packing[i] = move && i >= 32'(offset) && i < 32'(offset) + 32'(piece);
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      marked_q <= 1'b0;
      packed_q <= '0;
    end else begin
      if (push && word_ready_i) marked_q <= 1'b0;
      if (move && mark && which < piece) begin
        marked_q <= 1'b1;
        place_q  <= place;
        value_q  <= beat_i[16*source+:16];
      end
      packed_q <= (push && word_ready_i ? '0 : packed_q) | packing;
    end
  end

  // A layer is open from its start until the last row of its last command is taken; it is done when its words
  // are out, too.
  logic open_q = 1'b0, ends_layer_q = 1'b0;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      open_q       <= 1'b0;
      ends_layer_q <= 1'b0;
    end else begin
      if (command_valid_i && command_ready_o) ends_layer_q <= command_i.layer_last;
      if (layer_start_i) open_q <= 1'b1;
      else if (row_valid && row_ready && row_ends_pass && ends_layer_q) open_q <= 1'b0;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    // A marked word is not marked again before it is out.
    if (marked_q && !(push && word_ready_i)) assume (!mark);
    assume (row_first[0] == 1'b0 && row_first < (AddrWidth)'(1) << (AddrWidth - 1));
    assume (!(command_valid_i && command_ready_o) || command_i.cols != '0);
    assume (!layer_start_i || (!row_valid && !command_valid_i && !any_q));
    // Rows of a layer do not overlap in memory: so the program lays them out.
    if (move && any_q && !push) assume ((strobe_q & strobe) == '0);
    if (past_q) begin
      if (row_valid) assert (word_q < cols_q && cols_q != '0);
      if (!row_valid) assert (word_q == '0);
      assert (taken_q < PieceWidth'(OutWords));
      assert (16'(word_q) % OutWords == 16'(taken_q));
      if (move) begin
        assert (piece != '0 && addr >= row_first && addr + AddrWidth'({piece, 1'b0}) <= row_end);
        assert (32'(offset) + 32'(piece) <= PortWords && 32'(taken_q) + 32'(piece) <= OutWords);  // no word is lost
        for (int unsigned i = 0; i < 2 * PortWords; i++) begin
          assert (strobe[i] == ({addr[AddrWidth-1:PortBits], PortBits'(i)} >= addr
              && {addr[AddrWidth-1:PortBits], PortBits'(i)} < addr + AddrWidth'({piece, 1'b0})));
        end
      end
      assert (layer_open_q == open_q && last_q == ends_layer_q);
      assert (layer_done_o == (!open_q && packed_q == '0));
      if (!open_q && packed_q != '0) assert (word_valid_o);  // and what is left goes out
      if (any_q) assert (pack_addr_q[PortBits-1:0] == '0);
      assert (!word_valid_o || any_q);
      if (any_q) begin
        for (int unsigned i = 0; i < PortWords; i++) assert (word_strb_o[2*i+:2] == {2{packed_q[i]}});
      end else begin
        assert (packed_q == '0 && strobe_q == '0 && pack_q == '0);
      end
      for (int unsigned i = 0; i < PortWords; i++) begin
        if (!packed_q[i]) assert (pack_q[16*i+:16] == '0);
      end
      if (marked_q) begin
        assert (any_q && !place_q[0] && word_addr_o == {place_q[AddrWidth-1:PortBits], PortBits'(0)});
        assert (word_strb_o[2*lane] && word_data_o[16*lane+:16] == value_q);
      end
      // The row and the beat are taken with their last words, no sooner and no later.
      if (move) assert (row_ready == (16'(word_q) + 16'(piece) == 16'(cols_q)));
      if (move) assert (beat_ready_o == (row_ready || 32'(taken_q) + 32'(piece) == OutWords));
      if (!move) assert (!row_ready && !beat_ready_o);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && push && any_q);
    cover (past_q && !open_q && packed_q != '0 && !word_ready_i);
    cover (past_q && marked_q && push && word_ready_i && lane == 32'd2 && packed_q == PortWords'(6));
    cover (past_q && move && any_q && !push);
    cover (past_q && move && word_q != '0 && row_sample != '0);
  end
`endif
`endif
