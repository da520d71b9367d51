/// The activation unit: what a table, a product, slopes or a batch norm make of the core's output stream (ADR 69).
///
/// Beats come in the order of the core: the rows of a command, each `ceil(cols / OutWords)` beats; column tiles
/// go over the rows of a row block again. A beat is taken when a command is at hand, its residual is there if
/// the layer multiplies, and there is room for all that are under way. It reaches the queue of those that leave
/// after the lanes' twelve cycles. Beats of a layer without a unit pass at once. `Behind` a filter (ADR 70) it
/// knows a table alone, that of the filter, and no commands: each beat comes with the lanes that have a column.
module fluidnpu_activation #(
  parameter int unsigned OutWords = 4,
  parameter int unsigned WordBits = 16,
  parameter bit Behind = 1'b0,
  parameter bit Dsp = 1'b0,  // multipliers in DSP slices
  localparam int unsigned RowWidth = $clog2(fluidnpu_pkg::PieceRows)
) (
  input  logic                         clk_i,             // clock
  input  logic                         rst_ni,            // reset, synchronous
  input  logic                         layer_start_i,     // takes the bank; no beat of the layer before is left
  input  fluidnpu_formats_pkg::layer_t layer_i,           // that runs; its first beat comes later
  input  logic                         command_valid_i,   // of a layer with a unit only
  output logic                         command_ready_o,   // and is taken
  input  fluidnpu_formats_pkg::tile_t  command_i,         // that command
  input  logic                         beat_valid_i,      // of the core
  output logic                         beat_ready_o,      // and is taken
  input  logic [OutWords*WordBits-1:0] beat_i,            // that beat
  input  logic [OutWords-1:0]          used_i,            // behind a filter: its lanes that have a column
  input  logic                         residual_valid_i,  // of a layer that multiplies only; goes with a beat
  output logic                         residual_ready_o,  // and is taken
  input  logic [OutWords*WordBits-1:0] residual_i,        // that residual
  output logic                         given_valid_o,     // in the order of the beats
  input  logic                         given_ready_i,     // and is taken
  output logic [OutWords*WordBits-1:0] given_o,           // a lane without a column is 0
  input  logic                         bank_i,            // that was filled last
  input  logic                         write_i,           // a piece goes into the other bank, two cycles later
  input  logic [OutWords-1:0]          write_lanes_i,     // in these lanes
  input  logic [RowWidth-1:0]          write_row_i,       // in this row
  input  logic                         write_outer_i,     // not into the RAM: below the window, or with row 1 above it
  input  logic [31:0]                  write_piece_i,     // base in the low half, slope above
  input  logic                         clear_i,           // the count begins again
  output logic [31:0]                  saturations_o      // words that could not hold what they should; saturates
);
  localparam int unsigned Steps = 12;  // of the lanes
  localparam int unsigned Depth = 32;  // beats from where they are taken to the queue's end
  localparam int unsigned CountWidth = $clog2(OutWords + 1);

  // -- what the layer asks of the unit
  typedef struct packed {
    fluidnpu_formats_pkg::activation_e what;
    logic [3:0]  window;
    logic [4:0]  shift;
    logic [15:0] lo;
    logic [15:0] hi;
  } asked_t;
  asked_t asked;
  always_comb begin
    asked.what   = layer_i.activation;
    asked.window = layer_i.activation_window;
    asked.shift  = layer_i.activation_shift;
    asked.lo     = layer_i.activation_lo;
    asked.hi     = layer_i.activation_hi;
    if (Behind) begin
      asked.what   = layer_i.filter_table ? fluidnpu_formats_pkg::ActivationTable : fluidnpu_formats_pkg::ActivationNone;
      asked.window = layer_i.filter_window;
      asked.shift  = layer_i.filter_unit_shift;
      asked.lo     = layer_i.filter_unit_lo;
      asked.hi     = layer_i.filter_unit_hi;
    end
  end

  // -- the place of the beat at hand
  (* max_fanout = 64 *) logic uses_q;
  logic                multiplies_q, active_q, room_q, give, left, row_ends_q, last_row_q, block_last_q;
  logic [11:0]         cols_q, rest_q;
  logic [16:0]         rows_q;          // still to come, with this one
  logic [RowWidth-1:0] beat_q, base_q;  // within the row; of the tile's first
  logic [5:0]          level_q;         // beats under way

  assign command_ready_o  = !active_q;
  assign give             = uses_q && (Behind || active_q) && room_q && beat_valid_i && (!multiplies_q || residual_valid_i);
  assign residual_ready_o = multiplies_q && give;

  always_ff @(posedge clk_i) begin  // a layer's first beat comes later
    uses_q       <= asked.what != fluidnpu_formats_pkg::ActivationNone;
    multiplies_q <= asked.what == fluidnpu_formats_pkg::ActivationProduct;
    room_q       <= rst_ni && 32'(level_q) + 2 <= Depth;  // one may go in the cycle before
    level_q      <= !rst_ni ? '0 : level_q + 6'(give) - 6'(left);
    if (!rst_ni) active_q <= 1'b0;
    else if (command_valid_i && command_ready_o) active_q <= 1'b1;
    else if (give && row_ends_q && last_row_q) active_q <= 1'b0;
  end
  always_ff @(posedge clk_i) begin  // set by a layer and a command before a beat is taken, so no reset
    if (give) begin
      beat_q     <= row_ends_q ? '0 : beat_q + 1'b1;
      rest_q     <= row_ends_q ? cols_q : rest_q - 12'(OutWords);
      row_ends_q <= row_ends_q ? 32'(cols_q) <= OutWords : 32'(rest_q) <= 2 * OutWords;
      if (row_ends_q) begin
        rows_q     <= rows_q - 1'b1;
        last_row_q <= rows_q == 17'd2;
        if (last_row_q) base_q <= block_last_q ? '0 : base_q + beat_q + 1'b1;
      end
    end
    if (command_valid_i && command_ready_o) begin
      beat_q       <= '0;
      cols_q       <= command_i.cols;
      rest_q       <= command_i.cols;
      row_ends_q   <= 32'(command_i.cols) <= OutWords;
      rows_q       <= 17'(command_i.beats) + 17'(command_i.lane1_beats);
      last_row_q   <= command_i.beats[15:1] == '0 && command_i.lane1_beats == '0;
      block_last_q <= command_i.block_last;
    end
    if (layer_start_i) base_q <= '0;
  end

  // -- the layer, as lanes take it
  (* max_fanout = 64 *) fluidnpu_pkg::unit_t unit_q;
  (* max_fanout = 64 *) logic                bank_q;
  logic                                      tables;
  assign tables = asked.what == fluidnpu_formats_pkg::ActivationTable;
  always_ff @(posedge clk_i) begin
    unit_q.tables     <= tables;
    unit_q.multiplies <= asked.what == fluidnpu_formats_pkg::ActivationProduct;
    unit_q.bends      <= asked.what == fluidnpu_formats_pkg::ActivationSlope;
    unit_q.window     <= asked.window[2:0];
    unit_q.beyond     <= tables ? 7'h7F << asked.window[2:0] : '0;
    unit_q.bound      <= 8'd1 << asked.window[2:0];
    unit_q.rest       <= tables ? ~(16'hFFFE << asked.window[2:0]) : '1;
    unit_q.shift      <= asked.shift;
    unit_q.lo         <= asked.lo;
    unit_q.hi         <= asked.hi;
    if (layer_start_i) bank_q <= bank_i;
  end

  // -- pieces
  logic [OutWords-1:0]  write_q;
  logic [1:0]           write_outer_q;
  logic                 write_bank_q;
  logic [RowWidth-1:0]  write_row_q;
  (* max_fanout = 64 *) logic [31:0] write_piece_q;
  logic [1:0][1:0][31:0] outer_q;  // of a bank: below and above
  (* max_fanout = 64 *) logic [31:0] below_q, above_q;

  always_ff @(posedge clk_i) begin
    write_q          <= write_lanes_i & {OutWords{rst_ni && write_i && !write_outer_i}};
    write_outer_q[0] <= rst_ni && write_i && write_outer_i && !write_row_i[0];
    write_outer_q[1] <= rst_ni && write_i && write_outer_i && write_row_i[0];
    write_bank_q     <= !bank_i;
    write_row_q      <= write_row_i;
    write_piece_q    <= write_piece_i;
    for (int unsigned i = 0; i < 2; i++) if (write_outer_q[i]) outer_q[write_bank_q][i] <= write_piece_q;
    below_q          <= outer_q[bank_q][0];
    above_q          <= outer_q[bank_q][1];
  end

  // -- the lanes
  logic [Steps:1]                       valid_q;
  logic [Steps-2:1]                     row_ends_at_q;
  logic [Steps-2:1][CountWidth-1:0]     rest_at_q;  // columns of the row's last beat
  (* max_fanout = 64 *) logic [RowWidth-1:0] row_q;
  logic [Steps-2:1][OutWords-1:0]       used_at_q;  // of a beat of the filter
  logic [OutWords-1:0]                  used_q, saturated;
  logic [OutWords-1:0][WordBits-1:0]    words;

  always_ff @(posedge clk_i) begin
    valid_q       <= rst_ni ? {valid_q[Steps-1:1], give} : '0;
    row_ends_at_q <= {row_ends_at_q[Steps-3:1], row_ends_q};
    rest_at_q     <= {rest_at_q[Steps-3:1], rest_q[CountWidth-1:0]};
    row_q         <= base_q + beat_q;
    used_at_q     <= {used_at_q[Steps-3:1], used_i};
    for (int unsigned i = 0; i < OutWords; i++) used_q[i] <= !row_ends_at_q[Steps-2] || 32'(rest_at_q[Steps-2]) > i;
    if (Behind) used_q <= used_at_q[Steps-2];
    if (!rst_ni) begin  // of flip-flops, faster than a shift register, which knows no reset
      row_ends_at_q[Steps-2] <= '0;
      rest_at_q[Steps-2]     <= '0;
    end
  end

  for (genvar i = 0; i < OutWords; i++) begin : gen_lane
    fluidnpu_activation_lane #(.Dsp(Dsp), .WordBits(WordBits)) lane (
      .clk_i, .unit_i(unit_q), .bank_i(bank_q), .below_i(below_q), .above_i(above_q), .word_i(beat_i[WordBits*i+:WordBits]),
      .residual_i(residual_i[WordBits*i+:WordBits]), .row_i(row_q), .used_i(used_q[i]), .word_o(words[i]), .saturated_o(saturated[i]),
      .write_i(write_q[i]), .write_bank_i(write_bank_q), .write_row_i(write_row_q), .write_piece_i(write_piece_q)
    );
  end

  // -- those that leave
  logic                   fits, kept_valid, kept_ready, shown_valid;
  logic [OutWords*WordBits-1:0] kept, shown;

  common_fifo #(.Width(OutWords * WordBits), .Depth(Depth)) queue (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(valid_q[Steps]), .ready_o(fits), .data_i(words),
    .valid_o(kept_valid), .ready_i(kept_ready), .data_o(kept), .level_o()
  );
  common_skid #(.Width(OutWords * WordBits)) leaving (  // who takes them needs them early, and tells late
    .clk_i, .rst_ni, .valid_i(kept_valid), .ready_o(kept_ready), .data_i(kept),
    .valid_o(shown_valid), .ready_i(uses_q && given_ready_i), .data_o(shown)
  );

  assign left          = kept_valid && kept_ready;
  assign beat_ready_o  = uses_q ? give : given_ready_i;
  assign given_valid_o = uses_q ? shown_valid : beat_valid_i;
  assign given_o       = uses_q ? shown : beat_i;

  // -- saturations, counted two cycles after the beat has left its lanes
  logic [CountWidth-1:0] count, count_q;
  logic [31:0]           saturations_q;
  logic [32:0]           total;

  always_comb begin
    count = '0;
    for (int unsigned i = 0; i < OutWords; i++) count = count + CountWidth'(saturated[i]);
  end
  assign total = {1'b0, saturations_q} + 33'(count_q);
  always_ff @(posedge clk_i) begin
    count_q       <= rst_ni && valid_q[Steps] ? count : '0;
    saturations_q <= !rst_ni || clear_i ? '0 : total[32] ? '1 : total[31:0];
  end
  assign saturations_o = saturations_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (valid_q[Steps]) assert (fits);
      if (give && !Behind) assert (row_ends_q == (32'(rest_q) <= OutWords) && rest_q != '0 && rows_q != '0 && last_row_q == (rows_q == 17'd1));
      if (beat_valid_i) assert (uses_q == (asked.what != fluidnpu_formats_pkg::ActivationNone));
      if (layer_start_i) assert (level_q == '0);
    end
  end
endmodule
