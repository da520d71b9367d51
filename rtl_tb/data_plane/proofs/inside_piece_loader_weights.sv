// Inside fluidnpu_piece_loader with a filter, for any constants and any pace of the bus: pieces, weights and the
// table behind follow one another, each from a port word on; the n-th port word of weights goes once into the lanes,
// the pair and the row that follow from n, and the n-th piece of the table once into row n of all lanes behind;
// just the port words that hold constants are asked for, and all of them are taken.
`ifdef FORMAL
  localparam int unsigned TableWords = (TablePieces + WordPieces - 1) / WordPieces;
  logic        past_q = 1'b0;
  logic [2:0]  shown_q;   // cycles that this plan has been shown for
  logic [23:0] taken_q;   // of the section: pieces, or port words of weights
  logic [23:0] popped_q;  // port words of this load
  logic        asked_q;   // the request of this load was taken
  logic [23:0] front_words, all_weights, size, base;
  logic        used_table;
  fluidnpu_formats_pkg::layer_t before_q;
  logic                         planned_q;

  assign front_words = 24'((32'(layer_i.pieces) + WordPieces - 1) / WordPieces);
  assign all_weights = 24'(layer_i.filter_rows) * 24'(6 * PairWords);
  assign used_table  = layer_i.activation == fluidnpu_formats_pkg::ActivationTable;
  always_comb begin
    unique case (section_q)
      Weights: begin size = all_weights; base = front_words; end
      Behind:  begin size = 24'(TablePieces); base = front_words + all_weights; end
      default: begin size = 24'(layer_i.pieces); base = '0; end
    endcase
  end

  always_ff @(posedge clk_i) begin
    past_q    <= 1'b1;
    before_q  <= layer_i;
    planned_q <= planned_i && !loaded_o;
    shown_q   <= !past_q || layer_i != before_q ? '0 : shown_q == 3'd3 ? 3'd3 : shown_q + 3'd1;
    if (begins) taken_q <= '0;
    else if (take) taken_q <= taken_q + 24'd1;
    if (state_q == Rest || state_q == Ask) begin
      popped_q <= '0;
      asked_q  <= 1'b0;
    end else begin
      if (data_valid_i && data_ready_o) popped_q <= popped_q + 24'd1;
      if (fetch_valid_o && fetch_ready_i) asked_q <= 1'b1;
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (past_q && planned_q) assume (planned_i);
    if (past_q && (planned_i || planned_q)) assume (layer_i == before_q && shown_q == 3'd3);
    if (planned_i) begin
      assume (32'(layer_i.pieces) <= (used_table ? TablePieces : fluidnpu_pkg::PieceRows * OutWords));
      assume (32'(layer_i.filter_rows) <= FilterWeights && (layer_i.filter_rows != '0) == (layer_i.filter_kernel != '0));
      assume (!layer_i.filter_table || layer_i.filter_kernel != '0);
    end
    if (past_q) begin
      assert (state_q <= Loaded);
      assert (wanted_q == (before_q.pieces != '0 || before_q.filter_kernel != '0));
      assert (weights_q == 24'(before_q.filter_rows) * 24'(6 * PairWords));
      if (shown_q != '0 && layer_i == before_q) assert (fetch_beats_o == front_words + (filters ? all_weights : '0) + (filters && layer_i.filter_table ? 24'(TableWords) : '0));
      if (state_q != Rest) assert (planned_i && wanted_q);
      assert (!data_ready_o || (reads_o && asked_q));
      if (state_q == Fetch) assert (taken_q == '0 && popped_q == '0 && !asked_q && section_q == (layer_i.pieces != '0 ? Front : Weights));
      if (state_q == Read) assert (asked_q);
      if (state_q == Fetch || state_q == Read) begin
        assert (section_q <= Behind && lane_q != '0 && 32'(slot_q) < WordPieces);
        assert (section_q == Front ? layer_i.pieces != '0 : section_q == Weights ? filters : filters && layer_i.filter_table);
        assert (left_q == size - taken_q && taken_q < size);
        if (section_q == Weights) begin
          assert (popped_q == base + taken_q && pair_q <= 3'd5 && 32'(part_q) < PairWords);
          assert (32'(taken_q) == (32'(weights_row_q) * 6 + 32'(pair_q)) * PairWords + 32'(part_q));
        end else begin
          assert ((32'(popped_q) - 32'(base)) * WordPieces + 32'(slot_q) == 32'(taken_q));
          if (section_q == Front) assert (part_q == '0 && pair_q == '0 && weights_row_q == '0);
          assert (table_q == (section_q == Behind || used_table));
          if (table_q) assert (24'(row_q) == taken_q);
        end
      end
      if (state_q == Loaded) assert (popped_q == fetch_beats_o);
    end
  end

  // What is written is what was taken the cycle before.
  logic                    took_q;
  section_e                of_q;
  logic [23:0]             number_q;
  logic [31:0]             piece_q;
  logic [PortWords*16-1:0] data_q;
  always_ff @(posedge clk_i) begin
    took_q   <= rst_ni && take;
    of_q     <= section_q;
    number_q <= taken_q;
    data_q   <= data_i;
    for (int unsigned i = 0; i < WordPieces; i++) if (32'(taken_q) % WordPieces == i) piece_q <= data_i[32*i+:32];
  end
  always_comb begin
    if (past_q) begin
      assert (write_o == (took_q && of_q == Front) && weights_o == (took_q && of_q == Weights) && write_behind_o == (took_q && of_q == Behind));
      if (weights_o) begin
        assert (weights_words_o == data_q);
        for (int unsigned i = 0; i < OutWords; i++)
          assert (weights_lanes_o[i] == (32'(number_q) == (32'(weights_row_o) * 6 + 32'(weights_pair_o)) * PairWords + i / WordPieces));
      end
      if (write_behind_o) assert (write_lanes_o == '1 && 24'({write_outer_o, write_row_o}) == number_q && write_piece_o == piece_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && weights_o && weights_pair_o == 3'd1 && weights_lanes_o[OutWords-1]);
    cover (past_q && write_behind_o && write_row_o == RowWidth'(1));
  end
`endif
`endif
