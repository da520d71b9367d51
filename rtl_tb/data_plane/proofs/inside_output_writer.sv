// Inside fluidnpu_output_writer, for any rows: what is packed belongs to the row at hand, from its first word
// to its last, and its strobes say just that; an arbitrary word of the stream goes out once, unchanged, at its
// own address, and nothing else goes out.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // The row at hand, kept apart from the module: where it begins, its words, those that were packed.
  logic [AddrWidth-1:0] row_first_q, row_end_at, addr;
  logic [11:0]          cols_q, word;
  logic                 is_last_q;
  logic [31:0]          piece, offset;  // words that are packed in this cycle, the first one's place in the port word
  logic [31:0]          taken_q;        // of the beat; a row begins at one
  assign word       = cols_q - rest_q;
  assign addr       = row_first_q + (AddrWidth'(word) << ByteBits);
  assign row_end_at = row_first_q + (AddrWidth'(cols_q) << ByteBits);
  assign offset     = 32'(addr[PortBits-1:0]) / WordBytes;
  always_comb begin
    piece = OutWords - taken_q;
    if (piece > 32'(rest_q)) piece = 32'(rest_q);
    if (piece > PortWords - offset) piece = PortWords - offset;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) taken_q <= '0;
    else if (move) taken_q <= piece == 32'(rest_q) || taken_q + piece == OutWords ? '0 : taken_q + piece;
  end

  // The port word where the row before ended.
  logic [AddrWidth-1:PortBits] ended_q;
  logic [AddrWidth-1:0]        last_word;
  assign last_word = row_end_at - AddrWidth'(WordBytes);
  always_ff @(posedge clk_i) begin
    if (row_valid && row_ready) begin
      row_first_q <= row_addr;
      cols_q      <= row_cols;
      is_last_q   <= row_last;
    end
    if (move) ended_q <= row_ends ? last_word[AddrWidth-1:PortBits] : page_q;
  end

  // Some word of the row at hand, from when it is packed until its port word goes out.
  (* anyseq *) logic                  mark;
  (* anyseq *) logic [BeatWidth-1:0]  which;
  logic                   marked_q = 1'b0;
  logic [WordBits-1:0]    value_q;
  logic [AddrWidth-1:0]   place_q, place;
  logic [31:0]            lane, source;
  logic [PortWords-1:0]   packed_q, packing;  // words of the port word at hand that were packed
  assign place  = addr + (AddrWidth'(which) << ByteBits);
  assign source = taken_q + 32'(which);
  assign lane   = 32'(place_q[PortBits-1:0]) / WordBytes;
  always_comb begin
    for (int unsigned i = 0; i < PortWords; i++) packing[i] = move && i >= offset && i < offset + piece;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      marked_q <= 1'b0;
      packed_q <= '0;
    end else begin
      if (push && word_ready_i) marked_q <= 1'b0;
      if (move && mark && 32'(which) < piece) begin
        marked_q <= 1'b1;
        place_q  <= place;
        value_q  <= beat_i[WordBits*source+:WordBits];
      end
      packed_q <= (push && word_ready_i ? '0 : packed_q) | packing;
    end
  end

  // A layer is open from its start until its last row is packed; it is done when its words are out, too.
  logic open_q = 1'b0;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) open_q <= 1'b0;
    else if (layer_start_i) open_q <= 1'b1;
    else if (move && piece == 32'(rest_q) && is_last_q) open_q <= 1'b0;
  end

  always_comb begin
    assume (rst_ni == past_q);
    // A marked word is not marked again before it is out.
    if (marked_q && !(push && word_ready_i)) assume (!mark);
    // Rows as the proof `ahead` has them.
    if (row_valid) begin
      assume (row_cols != '0 && (row_addr & AddrWidth'(WordBytes - 1)) == '0 && row_addr < (AddrWidth)'(1) << (AddrWidth - 1));
      if (row_ready) assume (row_new == (row_addr[AddrWidth-1:PortBits] != (have_q ? last_word[AddrWidth-1:PortBits] : ended_q)));
    end
    assume (!layer_start_i || (!row_valid && !have_q && !any_q));
    // Rows of a layer do not overlap in memory: so the program lays them out.
    if (move && any_q && !push) assume ((strobe_q & strobe) == '0);
    if (past_q) begin
      assert (taken_q < OutWords && 32'(in_beat_q) == OutWords - taken_q);
      if (have_q) begin
        assert (rest_q != '0 && rest_q <= cols_q && (row_first_q & AddrWidth'(WordBytes - 1)) == '0 && row_first_q < (AddrWidth)'(1) << (AddrWidth - 1));
        assert (addr == AddrWidth'({page_q, offset_q}) << ByteBits && last_q == is_last_q);
        if (rest_q == cols_q) assert (new_q == (page_q != ended_q) || !any_q);
        else assert (!new_q && page_q == (full_q || (!any_q && page_q != ended_q) ? ended_q + 1'b1 : ended_q));
      end else begin
        assert (taken_q == '0);
      end
      if (any_q) assert (pack_page_q == ended_q);
      if (move) begin
        assert (piece != '0 && addr >= row_first_q && addr + (AddrWidth'(piece) << ByteBits) <= row_end_at);
        for (int unsigned i = 0; i < PortWords * WordBytes; i++) begin
          assert (strobe[i] == ({addr[AddrWidth-1:PortBits], PortBits'(i)} >= addr
              && {addr[AddrWidth-1:PortBits], PortBits'(i)} < addr + (AddrWidth'(piece) << ByteBits)));
        end
      end
      assert (layer_open_q == open_q);
      assert (layer_done_o == (!open_q && packed_q == '0));
      if (!open_q && packed_q != '0) assert (word_valid_o);  // and what is left goes out
      assert (!word_valid_o || any_q);
      if (any_q) begin
        for (int unsigned i = 0; i < PortWords; i++) assert (word_strb_o[WordBytes*i+:WordBytes] == {WordBytes{packed_q[i]}});
      end else begin
        assert (packed_q == '0 && strobe_q == '0 && pack_q == '0);
      end
      for (int unsigned i = 0; i < PortWords; i++) begin
        if (!packed_q[i]) assert (pack_q[WordBits*i+:WordBits] == '0);
      end
      if (marked_q) begin
        assert (any_q && (place_q & AddrWidth'(WordBytes - 1)) == '0 && word_addr_o == {place_q[AddrWidth-1:PortBits], PortBits'(0)});
        assert (word_strb_o[WordBytes*lane] && word_data_o[WordBits*lane+:WordBits] == value_q);
      end
      // The row and the beat are taken with their last words, no sooner and no later.
      if (move) assert (row_ends == (piece == 32'(rest_q)));
      if (move) assert (beat_ready_o == (row_ends || taken_q + piece == OutWords));
      if (!move) assert (!beat_ready_o && row_ready == !have_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && push && any_q);
    cover (past_q && !open_q && packed_q != '0 && !word_ready_i);
    cover (past_q && marked_q && push && word_ready_i && lane == 32'd2 && packed_q == PortWords'(6));
    cover (past_q && move && any_q && !push);
    cover (past_q && move && word != '0 && last_q);
  end
`endif
`endif
