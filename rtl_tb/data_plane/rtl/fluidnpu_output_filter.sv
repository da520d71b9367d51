/// Filters the core's output stream on its way to memory: the depthwise layer behind it, a word a lane (ADR 70).
///
/// Pixels come in the order of the image, each `ceil(cols / OutWords)` beats; column tiles go over the pixels of a row
/// block again. `fluidnpu_row_walker` visits the positions; those outside the map take no beat. A beat of a position
/// is given a cycle, one whose window leaves every `filter_steps`. Given at cycle 0, the beat of a window comes to the
/// queue of those that leave in cycle 22 + `filter_steps`. Beats of a layer without a filter pass at once.
module fluidnpu_output_filter #(
  parameter int unsigned BMax = 4,
  parameter int unsigned OutWords = 4,
  parameter int unsigned WordBits = 16,
  parameter int unsigned Kernel = 3,     // the largest
  parameter int unsigned Windows = 8,    // beats of a pixel, those of all its column tiles
  parameter int unsigned Rows = 64,      // beats of a row of the map
  parameter int unsigned DeepRows = 1,   // of the map of a kernel above 3
  parameter int unsigned Weights = 8,    // rows of weights of a bank
  parameter int unsigned Cells = core_pkg::CellsInferred,  // of the multipliers, as in `core_mac`
  localparam int unsigned WeightWidth = Weights > 1 ? $clog2(Weights) : 1
) (
  input  logic                         clk_i,             // clock
  input  logic                         rst_ni,            // reset, synchronous
  input  logic                         layer_start_i,     // takes the bank; no beat of the layer before is left
  input  fluidnpu_formats_pkg::layer_t layer_i,           // that runs; its first beat comes later
  input  logic                         command_valid_i,   // of a layer with a filter only
  output logic                         command_ready_o,   // and is taken
  input  fluidnpu_formats_pkg::tile_t  command_i,         // that command
  input  logic                         beat_valid_i,      // a beat of outputs is there
  output logic                         beat_ready_o,      // and is taken
  input  logic [OutWords*WordBits-1:0] beat_i,            // that beat
  output logic                         filtered_valid_o,  // a beat of the filter's map is there
  input  logic                         filtered_ready_i,  // and is taken
  output logic [OutWords*WordBits-1:0] filtered_o,        // that beat; a lane without a column is 0
  output logic [OutWords-1:0]          filtered_lanes_o,  // which have one; of a layer without a filter all
  output logic                         busy_o,            // a command is at hand: positions are still to come
  input  logic                         bank_i,            // that was filled last
  input  logic                         write_i,           // weights go into the other bank
  input  logic [OutWords-1:0]          write_lanes_i,     // in these lanes
  input  logic [2:0]                   write_pair_i,      // a pair of the twelve words of
  input  logic [WeightWidth-1:0]       write_row_i,       // this row
  input  logic [OutWords*32-1:0]       write_pairs_i,     // that pair, of each lane
  input  logic                         clear_i,           // the count begins again
  output logic [31:0]                  saturations_o      // words that could not hold what they should; saturates
);
  localparam int unsigned WindowWidth = Windows > 1 ? $clog2(Windows) : 1;
  localparam int unsigned RowWidth = Rows > 1 ? $clog2(Rows) : 1;
  localparam int unsigned ChoiceWidth = Kernel > 5 ? 5 : Kernel > 3 ? 3 : 1;
  localparam int unsigned Pairs = 6;
  localparam bit Bytes = WordBits == 8;
  localparam int unsigned SumsAt = Bytes ? 12 : 16;  // cycle in which sums of a window begin
  localparam int unsigned Tail = 18;  // from the last step of a window to its word
  localparam int unsigned Depth = 32;  // beats from where they are given to the queue's end
  localparam int unsigned CountWidth = $clog2(OutWords + 1);

  if (Kernel < 2 || Kernel > 7) begin : gen_illegal
    $fatal(1, "Kernel must lie in 2..7 in %m");
  end

  // -- the layer, as stages take it
  (* max_fanout = 64 *) logic uses_q;
  logic                   one_step_q, deep_q, bank_q;
  logic [2:0]             steps_q;
  logic [ChoiceWidth-1:0] first_choice_q;
  (* max_fanout = 64 *) logic [5:0]  shift_q;
  (* max_fanout = 64 *) logic [WordBits-1:0] lo_q, hi_q;

  always_ff @(posedge clk_i) begin  // a layer's first beat comes later
    uses_q     <= layer_i.filter_kernel != '0;
    steps_q    <= layer_i.filter_steps;
    one_step_q <= layer_i.filter_steps == 3'd1;
    deep_q     <= layer_i.filter_kernel > 4'd3;
    shift_q    <= layer_i.filter_shift;
    lo_q       <= layer_i.filter_lo[WordBits-1:0];
    hi_q       <= layer_i.filter_hi[WordBits-1:0];
    case (layer_i.filter_kernel)  // the first of a kernel's steps among those of all
      4'd2:    first_choice_q <= ChoiceWidth'(0);
      4'd3:    first_choice_q <= ChoiceWidth'(1);
      4'd4:    first_choice_q <= ChoiceWidth'(2);
      4'd5:    first_choice_q <= ChoiceWidth'(4);
      4'd6:    first_choice_q <= ChoiceWidth'(7);
      default: first_choice_q <= ChoiceWidth'(11);
    endcase
    if (layer_start_i) bank_q <= bank_i;
  end

  // -- the place of the beat at hand
  logic                   walks, give, room_q, free_q, pixel_ends_q, block_last_q, outside, leaves;
  logic [2:0]             hold_q;           // steps of the window that was given, still to come
  logic [11:0]            cols_q, rest_q;
  logic [WindowWidth-1:0] beat_q, base_q;   // within the pixel's tile; of the tile's first
  logic [WeightWidth-1:0] weight_q, weight_base_q, weight_next;  // row of weights; of the tile's first
  logic [5:0]             level_q;          // beats that leave, from where they are given
  logic                   left;
  fluidnpu_formats_pkg::steps_t  steps;
  fluidnpu_formats_pkg::pass_t   walk;
  fluidnpu_formats_pkg::walked_t position;
  fluidnpu_pkg::pooling_t        windows;
  fluidnpu_pkg::filtering_t      place;

  assign command_ready_o = !walks;
  assign busy_o          = walks;
  assign outside         = place.beyond_w || place.beyond_h;
  assign leaves          = windows.ends_w && windows.ends_h;
  assign give            = uses_q && walks && room_q && free_q && (outside || beat_valid_i);

  fluidnpu_row_walker #(.BMax(BMax), .Pairs(1'b0), .Filters(1'b1), .Each(1'b1)) positions (
    .clk_i, .rst_ni, .layer_start_i, .layer_i, .steps_i(steps), .pool_i('0), .pass_valid_i(command_valid_i && !walks),
    .pass_ready_o(), .pass_i(walk), .row_valid_o(walks), .row_ready_i(give && pixel_ends_q), .row_sample_o(), .row_index_o(),
    .row_o(position), .row_lane_o(), .row_pooling_o(windows), .row_filtering_o(place), .row_ends_beat_o(), .row_both_i(1'b0),
    .other_index_o(), .other_o(), .start_index_o(), .start_offset_o()
  );
  always_comb begin
    steps            = '0;
    steps.step_w     = 32'(layer_i.pool_pitch);
    walk.beats       = command_i.beats;
    walk.lane1_beats = command_i.lane1_beats;
    walk.shift       = 32'(base_q);
    walk.commit      = command_i.block_last;
  end

  assign weight_next = weight_q + WeightWidth'(steps_q);
  always_ff @(posedge clk_i) begin
    room_q  <= rst_ni && 32'(level_q) + 2 <= Depth;  // one may go in the cycle before
    level_q <= !rst_ni ? '0 : level_q + 6'(give && leaves) - 6'(left);
    if (!rst_ni) free_q <= 1'b1;
    else if (give) free_q <= !leaves || one_step_q;
    else if (hold_q == 3'd1) free_q <= 1'b1;
    hold_q <= give ? steps_q - 3'd1 : hold_q - 3'd1;  // looked at after a window only
  end
  always_ff @(posedge clk_i) begin  // set by a layer and a command before a beat is given, so no reset
    if (give) begin
      beat_q       <= pixel_ends_q ? '0 : beat_q + 1'b1;
      weight_q     <= pixel_ends_q ? weight_base_q : weight_next;
      rest_q       <= pixel_ends_q ? cols_q : rest_q - 12'(OutWords);
      pixel_ends_q <= pixel_ends_q ? 32'(cols_q) <= OutWords : 32'(rest_q) <= 2 * OutWords;
      if (pixel_ends_q && position.ends_pass) begin
        base_q        <= block_last_q ? '0 : base_q + beat_q + 1'b1;
        weight_base_q <= block_last_q ? '0 : weight_next;
      end
    end
    if (command_valid_i && command_ready_o) begin
      beat_q       <= '0;
      weight_q     <= weight_base_q;
      cols_q       <= command_i.cols;
      rest_q       <= command_i.cols;
      pixel_ends_q <= 32'(command_i.cols) <= OutWords;
      block_last_q <= command_i.block_last;
    end
    if (layer_start_i) begin
      base_q        <= '0;
      weight_base_q <= '0;
    end
  end

  // -- a position on its way, by the cycles since it was given
  typedef struct packed {
    logic                   leaves;
    logic                   no_rows;     // its column has no words above
    logic                   no_columns;  // its window has no columns to the left
    logic                   stored;      // a column of the map
    logic [WindowWidth-1:0] window;
    logic [RowWidth-1:0]    row;
    logic [CountWidth-1:0]  lanes;       // that have a column
  } place_t;
  place_t                 given;
  place_t                 place_1_q, place_2_q, place_3_q;
  logic   [4:1]           valid_q;
  logic   [2:1][WeightWidth-1:0] weight_row_q;
  (* max_fanout = 64 *) logic [OutWords*WordBits-1:0] beat_1_q;
  (* max_fanout = 64 *) logic [RowWidth-1:0]    row_1_q, row_4_q;
  (* max_fanout = 64 *) logic [WindowWidth-1:0] window_4_q;
  (* max_fanout = 64 *) logic no_rows_3_q, no_columns_4_q, store_4_q, store_deep_4_q, valid_4_q;
  logic                   leaves_4_q;
  logic [CountWidth-1:0]  lanes_4_q;

  always_comb begin
    given.leaves     = leaves;
    given.no_rows    = place.first_h || place.beyond_w;
    given.no_columns = place.first_w;
    given.stored     = !place.beyond_w;
    given.window     = base_q + beat_q;
    given.row        = position.offset[RowWidth-1:0] + RowWidth'(beat_q);
    given.lanes      = 32'(rest_q) < OutWords ? rest_q[CountWidth-1:0] : CountWidth'(OutWords);
  end
  always_ff @(posedge clk_i) begin
    valid_q        <= rst_ni ? {valid_q[3:1], give} : '0;
    place_1_q      <= given;
    place_2_q      <= place_1_q;
    place_3_q      <= place_2_q;
    leaves_4_q     <= place_3_q.leaves;
    lanes_4_q      <= place_3_q.lanes;
    weight_row_q   <= {weight_row_q[1], weight_q};
    beat_1_q       <= outside ? '0 : beat_i;
    row_1_q        <= given.row;
    no_rows_3_q    <= place_2_q.no_rows;
    row_4_q        <= place_3_q.row;
    window_4_q     <= place_3_q.window;
    no_columns_4_q <= place_3_q.no_columns;
    valid_4_q      <= rst_ni && valid_q[3];
    store_4_q      <= rst_ni && valid_q[3] && place_3_q.stored;
    store_deep_4_q <= rst_ni && valid_q[3] && place_3_q.stored && deep_q;
    if (!rst_ni) begin  // flip-flops, which can be doubled; a shift register knows no reset
      no_rows_3_q    <= 1'b0;
      row_4_q        <= '0;
      window_4_q     <= '0;
      no_columns_4_q <= 1'b0;
    end
  end

  // -- the steps of a window: row of its weights, from cycle 3; which taps, in cycle 5
  (* max_fanout = 64 *) logic [10:3][WeightWidth:0] weight_at_q;
  (* max_fanout = 64 *) logic [ChoiceWidth-1:0] choice_5_q;
  logic                   first_5_q, done_5;
  logic [CountWidth-1:0]  lanes_5_q;
  logic [Pairs-1:0][WeightWidth:0] weight_at;

  always_ff @(posedge clk_i) begin
    weight_at_q <= {weight_at_q[9:3], {bank_q, valid_q[2] ? weight_row_q[2] : weight_at_q[3][WeightWidth-1:0] + 1'b1}};
    choice_5_q  <= valid_4_q ? first_choice_q : choice_5_q + 1'b1;
    first_5_q   <= valid_4_q;
    if (valid_4_q) lanes_5_q <= lanes_4_q;
  end
  // Multipliers of bytes take all at once, and what follows them the last two pairs.
  assign weight_at = Bytes ? {weight_at_q[10], weight_at_q[10], weight_at_q[10], {3{weight_at_q[4]}}} : {weight_at_q[5], weight_at_q[3], weight_at_q[10], weight_at_q[8], weight_at_q[6], weight_at_q[4]};
  if (Kernel > 3) begin : gen_steps
    logic [2:0] left_5_q;  // steps still to come, with this one
    always_ff @(posedge clk_i) begin
      if (!rst_ni) left_5_q <= '0;
      else if (valid_4_q) left_5_q <= leaves_4_q ? steps_q : '0;
      else if (left_5_q != '0) left_5_q <= left_5_q - 3'd1;
    end
    assign done_5 = left_5_q == 3'd1;
  end else begin : gen_step
    logic leaves_5_q;
    always_ff @(posedge clk_i) leaves_5_q <= rst_ni && valid_4_q && leaves_4_q;
    assign done_5 = leaves_5_q;
  end

  // -- from a step to its sum, and from the last one to the word
  (* max_fanout = 64 *) logic      first_sum_q;
  logic [SumsAt-1:6]               first_q;
  logic [Tail-1:0]                 done_q;
  logic [Tail-2:0][CountWidth-1:0] lanes_q;
  logic [OutWords-1:0]             used_q, saturated;
  logic [OutWords-1:0][WordBits-1:0] words, given_words;

  always_ff @(posedge clk_i) begin
    first_q     <= {first_q[SumsAt-2:6], first_5_q};
    first_sum_q <= first_q[SumsAt-1];
    done_q      <= rst_ni ? {done_q[Tail-2:0], done_5} : '0;
    lanes_q     <= {lanes_q[Tail-3:0], lanes_5_q};
    for (int unsigned i = 0; i < OutWords; i++) used_q[i] <= 32'(lanes_q[Tail-2]) > i;
  end

  // -- the lanes
  logic [OutWords-1:0]    write_q;
  logic [2:0]             write_pair_q;
  (* max_fanout = 64 *) logic [WeightWidth:0] write_row_q;
  logic [OutWords*32-1:0] write_pairs_q;

  always_ff @(posedge clk_i) begin
    write_q       <= write_lanes_i & {OutWords{rst_ni && write_i}};
    write_pair_q  <= write_pair_i;
    write_row_q   <= {!bank_i, write_row_i};
    write_pairs_q <= write_pairs_i;
  end
  for (genvar i = 0; i < OutWords; i++) begin : gen_lane
    fluidnpu_output_filter_lane #(
      .WordBits(WordBits), .Kernel(Kernel), .Windows(Windows), .Rows(Rows), .DeepRows(DeepRows), .Weights(Weights), .Cells(Cells)
    ) lane (
      .clk_i, .word_i(beat_1_q[WordBits*i+:WordBits]), .row_i(row_1_q), .no_rows_i(no_rows_3_q), .store_i(store_4_q),
      .store_deep_i(store_deep_4_q), .row_store_i(row_4_q), .valid_i(valid_4_q), .window_i(window_4_q),
      .no_columns_i(no_columns_4_q), .choice_i(choice_5_q), .weight_i(weight_at), .first_i(first_sum_q),
      .shift_i(shift_q), .lo_i(lo_q), .hi_i(hi_q), .word_o(given_words[i]), .saturated_o(saturated[i]),
      .write_i(write_q[i]), .write_pair_i(write_pair_q), .write_row_i(write_row_q), .write_words_i(write_pairs_q[32*i+:32])
    );
    assign words[i] = used_q[i] ? given_words[i] : '0;
  end

  // -- those that leave
  typedef struct packed {
    logic [OutWords-1:0]    lanes;
    logic [OutWords*WordBits-1:0] words;
  } beat_t;
  logic  fits, kept_valid, kept_ready, shown_valid, comes;
  beat_t kept, shown;

  assign comes = done_q[Tail-1];
  common_fifo #(.Width(OutWords * (WordBits + 1)), .Depth(Depth)) queue (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(comes), .ready_o(fits), .data_i({used_q, words}),
    .valid_o(kept_valid), .ready_i(kept_ready), .data_o(kept), .level_o()
  );
  common_skid #(.Width(OutWords * (WordBits + 1))) leaving (  // who takes them needs them early, and tells late
    .clk_i, .rst_ni, .valid_i(kept_valid), .ready_o(kept_ready), .data_i(kept),
    .valid_o(shown_valid), .ready_i(uses_q && filtered_ready_i), .data_o(shown)
  );

  assign left             = kept_valid && kept_ready;
  assign beat_ready_o     = uses_q ? give && !outside : filtered_ready_i;
  assign filtered_valid_o = uses_q ? shown_valid : beat_valid_i;
  assign filtered_o       = uses_q ? shown.words : beat_i;
  assign filtered_lanes_o = uses_q ? shown.lanes : '1;

  // -- saturations, counted two cycles after the beat has left its lanes; the sum of one without a column is 0
  logic [CountWidth-1:0] count, count_q;
  logic [31:0]           saturations_q;
  logic [32:0]           total;

  always_comb begin
    count = '0;
    for (int unsigned i = 0; i < OutWords; i++) count = count + CountWidth'(saturated[i]);
  end
  assign total = {1'b0, saturations_q} + 33'(count_q);
  always_ff @(posedge clk_i) begin
    count_q       <= rst_ni && comes ? count : '0;
    saturations_q <= !rst_ni || clear_i ? '0 : total[32] ? '1 : total[31:0];
  end
  assign saturations_o = saturations_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (comes) assert (fits);
      if (give) assert (pixel_ends_q == (32'(rest_q) <= OutWords) && rest_q != '0 && 32'(layer_i.filter_kernel) <= Kernel);
      if (give) assert (32'(base_q) + 32'(beat_q) < Windows && 32'(weight_q) + 32'(steps_q) <= Weights);
      if (give && !place.beyond_w) assert (position.offset + 32'(beat_q) < (deep_q ? DeepRows : Rows));
      if (beat_valid_i) assert (uses_q == (layer_i.filter_kernel != '0));
      if (layer_start_i) assert (level_q == '0 && !walks);
      // A row of the map lies between two uses of an entry.
      if (valid_q[1] && place_1_q.stored) begin
        if (valid_q[2] && place_2_q.stored) assert (place_1_q.row != place_2_q.row);
        if (valid_q[3] && place_3_q.stored) assert (place_1_q.row != place_3_q.row);
        if (store_4_q) assert (place_1_q.row != row_4_q);
      end
    end
  end
endmodule
