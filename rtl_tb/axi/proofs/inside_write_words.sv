// Inside axi_write_master: an arbitrary word that was taken goes out unchanged at its address with its
// strobes, behind just those that were taken before it; whatever else goes out after a flush writes nothing.
`ifdef FORMAL
  localparam int unsigned CountWidth = 8;
  typedef logic [CountWidth-1:0] count_t;

  // What is to go out on W: a word that a flush found there, the rest of that burst, the words that were
  // taken since.
  logic                 held_q, fresh_q = 1'b0, sent, real_word;
  count_t               nothing_q, words_q, nothing, words_d, behind;
  logic [AddrWidth-1:0] place_q, place;  // where the next word on W belongs: its burst began there, and so many went out
  assign sent      = m_axi_wvalid && m_axi_wready;
  assign real_word = held_q || nothing_q == '0;
  assign nothing   = nothing_q - count_t'(sent && !held_q && nothing_q != '0);
  assign words_d   = words_q - count_t'(sent && !held_q && nothing_q == '0) + count_t'(take);
  assign behind    = count_t'(held_q) + nothing_q + words_q - count_t'(sent);
  assign place     = m_axi_awvalid && fresh_q ? m_axi_awaddr : place_q;
  always_ff @(posedge clk_i) begin
    fresh_q <= rst_ni && (!m_axi_awvalid || m_axi_awready);
    place_q <= place + (sent ? AddrWidth'(DataBytes) : '0);
    if (!rst_ni) begin
      held_q    <= 1'b0;
      nothing_q <= '0;
      words_q   <= '0;
    end else if (flush_i) begin
      held_q    <= m_axi_wvalid && !m_axi_wready && real_word;
      nothing_q <= count_t'(unsent_o) - count_t'(sent) - count_t'(m_axi_wvalid && !m_axi_wready && real_word);
      words_q   <= '0;
    end else begin
      held_q    <= held_q && !sent;
      nothing_q <= nothing;
      words_q   <= words_d;
    end
  end

  // Some word, from when it is taken until it goes out or is flushed: how many are before it.
  (* anyseq *) logic      mark;
  logic                   marked_q = 1'b0;
  count_t                 before_q;
  logic [AddrWidth-1:0]   addr_q;
  logic [DataBytes*8-1:0] value_q;
  logic [DataBytes-1:0]   strobe_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      marked_q <= 1'b0;
    end else if (marked_q) begin
      before_q <= before_q - count_t'(sent);
      if (before_q == '0 && sent) marked_q <= 1'b0;
      if (flush_i && !(before_q == '0 && m_axi_wvalid)) marked_q <= 1'b0;
    end else if (take && mark) begin
      marked_q <= 1'b1;
      before_q <= behind;
      addr_q   <= word_addr_i;
      value_q  <= word_data_i;
      strobe_q <= word_strb_i;
    end
  end

  // The queue holds what was taken and is not on its way out.
  localparam int unsigned LevelWidth = $clog2(QueueBeats + 1);
  (* hierconn *) wire [LevelWidth-1:0]  \words.formal_at ;
  (* hierconn *) wire [LevelWidth-1:0]  \words.level_q ;
  (* hierconn *) wire [DataBytes*9-1:0] \words.formal_word ;
  count_t now, gathered, lost;
  assign now      = count_t'(unsent_o);
  assign gathered = burst_valid_q ? count_t'(burst_words_q) : '0;
  assign lost     = dummy_q ? count_t'(left_q) : '0;
  assign \words.formal_at = LevelWidth'(before_q - count_t'(wvalid_q) - lost);

  always_comb begin
    if (rst_ni) begin
      if (m_axi_wvalid && !real_word) assert (m_axi_wstrb == '0);
      if (m_axi_wvalid && real_word) assert (held_q || words_q != '0);
      if (marked_q && before_q == '0 && m_axi_wvalid) assert (place == addr_q && m_axi_wdata == value_q && m_axi_wstrb == strobe_q);

      assert (count_t'(held_q) + nothing_q + words_q == now + gathered + count_t'(open_q));
      assert (count_t'(\words.level_q ) == now + gathered + count_t'(open_q) - count_t'(wvalid_q) - lost);
      assert (nothing_q <= now && (!dummy_q || left_q != '0));
      if (held_q) assert (wvalid_q && nothing_q == count_t'(left_q));
      if (dummy_q) assert (nothing_q == now - count_t'(held_q));
      if (!dummy_q && !held_q) assert (nothing_q == '0 || (wvalid_q && nothing_q == count_t'(1)));
      if (!dummy_q && held_q) assert (left_q == '0);
      if (wvalid_q && !real_word) assert (wstrb_q == '0);
      if (now != '0) assert (place == awaddr_q + ((AddrWidth'(awlen_q) + AddrWidth'(1) - AddrWidth'(now)) << Size));
      if (awvalid_q && fresh_q) assert (now == count_t'(awlen_q) + count_t'(1));
      if (marked_q) begin
        assert (before_q < count_t'(held_q) + nothing_q + words_q);
        if (!(before_q == '0 && held_q)) assert (before_q >= count_t'(held_q) + nothing_q);
        if (before_q == '0 && wvalid_q) assert (wdata_q == value_q && wstrb_q == strobe_q);
        else assert (\words.formal_word == {strobe_q, value_q});
        if (before_q < now) assert (addr_q == place + (AddrWidth'(before_q) << Size));
        else if (before_q < now + gathered) assert (addr_q == burst_addr_q + (AddrWidth'(before_q - now) << Size));
        else assert (addr_q == start_q + (AddrWidth'(before_q - now - gathered) << Size));
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_ni && marked_q && before_q == '0 && sent && words_q > count_t'(4) && strobe_q == DataBytes'(1) && m_axi_awlen == 8'd2);
    cover (rst_ni && held_q && sent && nothing_q == count_t'(2));
    cover (rst_ni && marked_q && before_q == count_t'(1) && nothing_q == count_t'(1) && !flush_i && sent);
    cover (rst_ni && error_o);
  end
`endif
`endif
