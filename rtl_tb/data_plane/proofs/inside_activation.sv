// Inside fluidnpu_activation, for lanes that give anything: a command's rows are taken beat by beat, with a residual
// where the layer multiplies; each beat reaches the queue twelve cycles later, none is lost, and its lanes get
// the row of its channels and are used just where they have a column. Constants, pieces and banks reach the lanes
// as they were given. Every word that saturates is counted. Without a unit beats pass unchanged.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  always_comb assume (rst_ni == past_q);

  // The layer and what the unit makes of it.
  (* anyconst *) fluidnpu_formats_pkg::activation_e kind;
  (* anyconst *) logic [3:0]  window;
  (* anyconst *) logic [4:0]  shift;
  (* anyconst *) logic [15:0] lo, hi;
  logic uses, table_is;
  assign uses     = kind != fluidnpu_formats_pkg::ActivationNone;
  assign table_is = kind == fluidnpu_formats_pkg::ActivationTable;

  // The place of the beat at hand by counting: its row of the command, its beat of the row, beats of the tiles
  // before; a tile has as many beats as its columns need.
  logic        at_q = 1'b0, started_q = 1'b0;
  logic [11:0] columns_q;
  logic [16:0] rows_of_q, row_at_q;  // of the command; of the beat at hand
  logic [9:0]  column_q;             // first of the beat at hand
  logic [7:0]  place_q, first_q;
  logic        block_ends_q, ends;
  assign ends = 12'(column_q) + 12'(OutWords) >= columns_q;
  always_ff @(posedge clk_i) begin
    if (give) begin
      column_q <= ends ? '0 : column_q + 10'(OutWords);
      place_q  <= ends ? '0 : place_q + 1'b1;
      if (ends) row_at_q <= row_at_q + 1'b1;
      if (ends && row_at_q + 1'b1 == rows_of_q) begin
        at_q    <= 1'b0;
        first_q <= block_ends_q ? '0 : first_q + place_q + 1'b1;
      end
    end
    if (command_valid_i && command_ready_o) begin
      at_q         <= 1'b1;
      columns_q    <= command_i.cols;
      rows_of_q    <= 17'(command_i.beats) + 17'(command_i.lane1_beats);
      row_at_q     <= '0;
      column_q     <= '0;
      place_q      <= '0;
      block_ends_q <= command_i.block_last;
    end
    if (layer_start_i) first_q <= '0;
    if (layer_start_i) started_q <= 1'b1;
    if (!rst_ni) at_q <= 1'b0;
  end

  // What was taken in the last twelve cycles, the newest lowest, and the lanes that have a column.
  logic [Steps-1:0]               gave_q = '0;
  logic [Steps-1:0][OutWords-1:0] columns_of_q;
  logic [OutWords-1:0]            columns_now;
  logic [7:0]                     channels_q;  // the row of its channels' pieces
  for (genvar i = 0; i < OutWords; i++) begin : gen_columns
    assign columns_now[i] = 12'(column_q) + 12'(i) < columns_q;
  end
  always_ff @(posedge clk_i) begin
    gave_q       <= rst_ni ? {gave_q[Steps-2:0], give} : '0;
    columns_of_q <= {columns_of_q[Steps-2:0], columns_now};
    channels_q   <= first_q + place_q;
  end
  function automatic logic [OutWords-1:0] mask(logic row_ends, logic [CountWidth-1:0] rest);
    for (int i = 0; i < OutWords; i++) mask[i] = !row_ends || 32'(rest) > i;
  endfunction

  // The queue as the proof `fifo` has it.
  logic [5:0] stored_q = '0;
  always_ff @(posedge clk_i) stored_q <= rst_ni ? stored_q + 6'(valid_q[Steps]) - 6'(left) : '0;

  // Pieces: the last one written outside of an arbitrary bank's window, below or above.
  (* anyconst *) logic bank, upper;
  logic [31:0] written_q, piece_q;
  logic        written_known_q = 1'b0, lands_q = 1'b0, other_q;
  logic [OutWords-1:0] write_lanes_q;
  logic [RowWidth-1:0] row_was_q;
  always_ff @(posedge clk_i) begin
    piece_q       <= write_piece_i;
    row_was_q     <= write_row_i;
    other_q       <= !bank_i;
    lands_q       <= rst_ni && write_i && write_outer_i && write_row_i[0] == upper && !bank_i == bank;
    write_lanes_q <= rst_ni && write_i && !write_outer_i ? write_lanes_i : '0;
    if (lands_q) written_q <= piece_q;
    if (lands_q) written_known_q <= 1'b1;
  end
  logic [31:0] shown_q;
  logic        shown_known_q = 1'b0;
  always_ff @(posedge clk_i) begin
    shown_q       <= written_q;
    shown_known_q <= written_known_q && bank_q == bank;
  end

  // The count.
  logic                  cleared_q, counts_q;
  logic [31:0]           before_q;
  logic [CountWidth-1:0] more_q;
  logic [OutWords-1:0]   over_q;
  always_ff @(posedge clk_i) begin
    cleared_q <= !rst_ni || clear_i;
    counts_q  <= rst_ni && valid_q[Steps];
    over_q    <= saturated;
    before_q  <= saturations_q;
    more_q    <= count_q;
  end

  logic given_bank_q, began_q = 1'b0;
  always_ff @(posedge clk_i) begin
    began_q      <= layer_start_i;
    given_bank_q <= bank_i;
  end

  always_comb begin
    assume (layer_i.activation == kind && layer_i.activation_window == window && layer_i.activation_shift == shift);
    assume (layer_i.activation_lo == lo && layer_i.activation_hi == hi);
    assume (kind <= fluidnpu_formats_pkg::ActivationAffine && (window[3] || !table_is));
    assume (fits == (stored_q != 6'(Depth)) && kept_valid == (stored_q != '0));
    if (command_valid_i) assume (command_i.cols != '0 && command_i.cols < 12'd1000 && command_i.beats != '0 && command_i.lane1_beats <= command_i.beats);
    if (layer_start_i) assume (level_q == '0 && !active_q && !command_valid_i);
    if (!past_q) assume (!layer_start_i);

    if (past_q) begin
      assert (uses_q == uses && multiplies_q == (kind == fluidnpu_formats_pkg::ActivationProduct));
      // The place
      assert (active_q == at_q && command_ready_o == !at_q);
      if (active_q) begin
        assert (columns_q != '0 && columns_q < 12'd1000 && 12'(column_q) < columns_q && row_at_q < rows_of_q);
        assert (cols_q == columns_q && rest_q == columns_q - 12'(column_q) && row_ends_q == ends && beat_q == place_q);
        assert (rows_q == rows_of_q - row_at_q && last_row_q == (rows_q == 17'd1) && block_last_q == block_ends_q);
      end
      if (started_q) assert (base_q == first_q);
      // On the way
      for (int s = 0; s < Steps; s++) assert (valid_q[s+1] == gave_q[s]);
      for (int s = 0; s < Steps - 2; s++) if (gave_q[s]) assert (mask(row_ends_at_q[s+1], rest_at_q[s+1]) == columns_of_q[s]);
      if (gave_q[0] && started_q) assert (row_q == channels_q);
      if (gave_q[Steps-2]) assert (used_q == columns_of_q[Steps-2]);
      assert (32'(level_q) == 32'(stored_q) + $countones(gave_q) && 32'(level_q) <= Depth);
      if (room_q) assert (32'(level_q) < Depth);
      if (valid_q[Steps]) assert (fits);
      if (give) assert (at_q && beat_valid_i && (kind != fluidnpu_formats_pkg::ActivationProduct || residual_valid_i));
      // Ports
      assert (residual_ready_o == (give && kind == fluidnpu_formats_pkg::ActivationProduct));
      if (uses) assert (beat_ready_o == give && given_valid_o == shown_valid && given_o == shown);
      else assert (beat_ready_o == given_ready_i && given_valid_o == beat_valid_i && given_o == beat_i && !give);
      // Constants
      assert (unit_q.tables == table_is && unit_q.shift == shift && unit_q.lo == lo && unit_q.hi == hi && unit_q.window == window[2:0]);
      assert (unit_q.multiplies == multiplies_q && unit_q.bends == (kind == fluidnpu_formats_pkg::ActivationSlope));
      assert (unit_q.beyond == (table_is ? 7'h7F << window[2:0] : 7'd0) && unit_q.bound == 8'd1 << window[2:0]);
      assert (unit_q.rest == (table_is ? (16'd1 << 32'(window[2:0]) + 1) - 16'd1 : 16'hFFFF));
      // Pieces
      assert (write_q == write_lanes_q && write_row_q == row_was_q && write_piece_q == piece_q && write_bank_q == other_q);
      assert ((write_outer_q[upper] && write_bank_q == bank) == lands_q);
      if (written_known_q) assert (outer_q[bank][upper] == written_q);
      if (shown_known_q) assert ((upper ? above_q : below_q) == shown_q);
      if (began_q) assert (bank_q == given_bank_q);
      // The count
      if (cleared_q) assert (saturations_q == '0);
      else if (before_q > 32'hFFFF_FFFF - 32'(more_q)) assert (saturations_q == 32'hFFFF_FFFF);
      else assert (saturations_q == before_q + 32'(more_q));
      assert (32'(count_q) == (counts_q ? $countones(over_q) : 0));
      assert (saturations_o == saturations_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && gave_q[Steps-1] && columns_of_q[Steps-1] == 1 && valid_q[Steps]);
    cover (past_q && give && first_q == 8'd2 && place_q == 8'd1 && row_at_q == 17'd1);
    cover (past_q && !room_q && level_q == 6'd31);
    cover (past_q && !uses && given_valid_o && given_ready_i);
    cover (past_q && residual_ready_o);
  end
`endif
`endif
