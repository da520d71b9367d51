// Inside fluidnpu_piece_loader, for any number of pieces and any pace of the bus: the n-th piece of the n-th
// place of the port words goes into its lane and row, once; just the port words that hold pieces are asked for,
// once, when nothing else is under way, and all of them are taken; the bank changes when the last piece is in.
`ifdef FORMAL
  logic        past_q = 1'b0;
  logic [15:0] taken_q;   // pieces of this load
  logic [15:0] popped_q;  // port words
  logic        asked_q;   // the request of this load was taken
  logic        quiet_q;   // in a cycle of this turn
  logic        bank_q;    // as this load began
  logic [15:0] most;
  logic        tables;
  assign tables = layer_i.activation == fluidnpu_formats_pkg::ActivationTable;
  assign most   = tables ? 16'(fluidnpu_pkg::PieceRows + 2) : 16'(fluidnpu_pkg::PieceRows * OutWords);

  // The planner shows a plan for long before it is done, and then until its pieces are there.
  fluidnpu_formats_pkg::layer_t before_q;
  logic                         planned_q;
  always_ff @(posedge clk_i) begin
    past_q    <= 1'b1;
    before_q  <= layer_i;
    planned_q <= planned_i && !loaded_o;
    if (state_q == Rest) bank_q <= bank_o;
    if (state_q == Rest || state_q == Ask) begin
      taken_q  <= '0;
      popped_q <= '0;
      asked_q  <= 1'b0;
    end else begin
      if (take) taken_q <= taken_q + 16'd1;
      if (data_valid_i && data_ready_o) popped_q <= popped_q + 16'd1;
      if (fetch_valid_o && fetch_ready_i) asked_q <= 1'b1;
    end
    quiet_q <= turn_o && (quiet_q || quiet_i);
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (past_q && planned_q) assume (planned_i);
    if (past_q && (planned_i || planned_q)) assume (layer_i == before_q);
    if (planned_i) assume (layer_i.pieces <= most);
    if (past_q) begin
      assert (state_q <= Loaded);
      if (state_q != Rest) begin
        assert (planned_i && wanted_q && layer_i.pieces != '0);
        assert (fetch_addr_o == image_i_q + AddrWidth'(layer_i.piece_address));
        assert (32'(fetch_beats_o) * WordPieces >= 32'(layer_i.pieces) && 32'(fetch_beats_o) * WordPieces < 32'(layer_i.pieces) + WordPieces);
      end
      assert (wanted_q == (before_q.pieces != '0));
      // Turns
      assert (turn_o == (state_q == Ask || state_q == Fetch || state_q == Read));
      assert (!fetch_valid_o || (turn_o && quiet_q && !asked_q && !reads_o));
      assert (!data_ready_o || (reads_o && turn_o && asked_q));
      if (state_q == Read) assert (asked_q && quiet_q);
      if (state_q == Fetch) assert (taken_q == '0 && popped_q == '0);
      // Places
      if (state_q == Fetch || state_q == Read) begin
        assert (table_q == tables && left_q == layer_i.pieces - taken_q && taken_q < layer_i.pieces);
        assert (32'(popped_q) * WordPieces + 32'(slot_q) == 32'(taken_q) && 32'(slot_q) < WordPieces);
        assert (!data_ready_o || 32'(slot_q) == WordPieces - 1 || taken_q + 16'd1 == layer_i.pieces);
        if (tables) assert (16'(row_q) == taken_q && lane_q != '0);
        else begin
          assert (32'(row_q) * OutWords <= 32'(taken_q) && 32'(taken_q) < (32'(row_q) + 1) * OutWords);
          assert (lane_q == OutWords'(1) << (32'(taken_q) - 32'(row_q) * OutWords));
        end
      end
      if (state_q == Loaded) assert (taken_q == layer_i.pieces && popped_q == 16'(fetch_beats_o));
      if (planned_i && planned_q) assert (loaded_o == (layer_i.pieces == '0 || state_q == Loaded));
      if (state_q != Rest) assert (bank_o == bank_q);
    end
  end

  // What is written is what was taken the cycle before.
  logic        took_q;
  logic [15:0] number_q;
  logic [31:0] piece_q;
  logic        of_table_q;
  logic [AddrWidth-1:0] image_i_q;
  always_ff @(posedge clk_i) begin
    took_q     <= rst_ni && take;
    number_q   <= taken_q;
    of_table_q <= tables;
    image_i_q  <= image_i;
    for (int unsigned i = 0; i < WordPieces; i++) if (32'(taken_q) - 32'(popped_q) * WordPieces == i) piece_q <= data_i[32*i+:32];
  end
  always_comb begin
    if (past_q) assume (image_i == image_i_q);
    if (past_q) begin
      assert (write_o == took_q);
      if (took_q) begin
        assert (write_piece_o == piece_q);
        assert (number_q < most_q);
        if (of_table_q) begin
          assert (write_lanes_o == '1 && {write_outer_o, write_row_o} == number_q[RowWidth:0]);
        end else begin
          assert (!write_outer_o && 32'(write_row_o) * OutWords <= 32'(number_q));
          assert (write_lanes_o == OutWords'(1) << (32'(number_q) - 32'(write_row_o) * OutWords));
        end
      end
    end
  end
  logic [15:0] most_q;
  always_ff @(posedge clk_i) most_q <= most;
`ifdef COVER
  always_comb begin
    cover (past_q && state_q == Loaded && !tables && layer_i.pieces == 16'd5);
    cover (past_q && write_o && write_lanes_o == OutWords'(4) && write_row_o == RowWidth'(1));
  end
`endif
`endif
