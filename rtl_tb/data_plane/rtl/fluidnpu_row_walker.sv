/// Visits the rows of a row block in the order of the core's beats, lane 0 before lane 1, and gives the place
/// of each.
///
/// The walk begins where the last committed pass ended; a pass without `commit` is walked again by the next
/// one. One row a cycle, or with `row_both_i` the two rows of a beat. Serves windows (steps of the input),
/// outputs and residuals. That a row ends its image's row, a beat its pass, is found out a step ahead. With a
/// pool the steps are those of the pooled map, and are taken where a window ends.
///
/// With a filter it visits the positions of ADR 70: those behind a row's last pixel and below the last row belong to
/// the pixel that they follow. Steps are those of the filter's map, and are taken where a window leaves, or with
/// `Each` at every column.
module fluidnpu_row_walker #(
  parameter int unsigned BMax = 4,
  parameter bit Pools = 1'b0,  // without, `pool_i` is none
  parameter bit Pairs = 1'b1,  // without, `row_both_i` is 0
  parameter bit Filters = 1'b0,  // without, the layer's filter is not looked at
  parameter bit Each = 1'b0,
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1
) (
  input  logic                          clk_i,            // clock
  input  logic                          rst_ni,           // reset, synchronous
  input  logic                          layer_start_i,    // a layer begins
  input  fluidnpu_formats_pkg::layer_t  layer_i,          // that layer
  input  fluidnpu_formats_pkg::steps_t  steps_i,          // from row to row of what is walked through
  input  fluidnpu_pkg::pool_t           pool_i,           // the pool that outputs pass
  input  logic                          pass_valid_i,     // a pass is there
  output logic                          pass_ready_o,     // and is taken
  input  fluidnpu_formats_pkg::pass_t   pass_i,           // that pass
  // rows
  output logic                          row_valid_o,      // a row is there
  input  logic                          row_ready_i,      // and is taken
  output logic [SampleWidth-1:0]        row_sample_o,     // its sample
  output logic [SampleWidth-1:0]        row_index_o,      // sample within its lane
  output fluidnpu_formats_pkg::walked_t row_o,            // that row
  output logic                          row_lane_o,       // its lane
  output fluidnpu_pkg::pooling_t        row_pooling_o,    // what it is to the windows of pool or filter; all ends where there is none
  output fluidnpu_pkg::filtering_t      row_filtering_o,  // what it is to a filter besides; none of it where there is none
  output logic                          row_ends_beat_o,  // it is the last of its beat
  // the row of lane 1 that shares the beat of this one of lane 0, which does not end it: goes when that goes
  input  logic                          row_both_i,       // the row of lane 1 goes as well
  output logic [SampleWidth-1:0]        other_index_o,    // of that row: sample within its lane
  output fluidnpu_formats_pkg::walked_t other_o,          // that row
  // where the next pass begins: nothing above will be visited again
  output logic [SampleWidth-1:0]        start_index_o,    // sample within its lane
  output logic [31:0]                   start_offset_o    // place in the sample
);

  if (BMax < 1 || BMax > 16) begin : gen_illegal
    $fatal(1, "BMax must lie in 1..16 in %m");
  end

  typedef struct packed {
    logic [4:0]  sample;
    logic [15:0] row;
    logic [15:0] column;
    logic [31:0] row_offset;
    logic [31:0] offset;
    logic [23:0] top;
    logic        last_column;
    logic        last_row;
    logic        first_column;
    logic        first_row;
    logic        full_w;  // ends a window of the pool, one that the map does not cut off; or one of the filter
    logic        full_h;
    logic [2:0]  skip_w;  // of a filter: positions until its next window ends
    logic [2:0]  skip_h;
    logic        past_w;  // the next position lies behind the map's last column
    logic        past_h;
    logic        beyond_w;  // this one does
    logic        beyond_h;
  } place_t;

  place_t      place_q, start_q, origin, behind, other, next;
  logic        active_q, lane_q, commit_q;
  logic [15:0] beat_q, beats_q, lane1_beats_q;
  logic [31:0] shift_q;
  logic        two_lanes_q, last_beat_q;  // of beat_q
  logic        ends_beat, ends_pass, step, moves, takes, filters, more, last_w, last_h;
  logic [4:0]  sample;
  logic [15:0] limit_h, limit_w;  // of the positions

  assign filters = Filters && layer_i.filter_kernel != '0;
  assign limit_h = filters ? layer_i.walk_h : layer_i.out_h;
  assign limit_w = filters ? layer_i.walk_w : layer_i.out_w;

  // Along one axis; `odd` is counted from where the first window begins. Full windows are found out a step ahead.
  function automatic logic full(logic odd, logic first);
    full = !Pools || pool_i.kernel == 2'd0 || (pool_i.kernel == 2'd2 ? odd : !odd && !first);
  endfunction
  function automatic logic fresh(logic odd, logic first);
    fresh = first || (pool_i.kernel == 2'd2 && !odd);
  endfunction
  always_comb begin
    origin              = '0;
    origin.last_column  = limit_w[15:1] == '0;  // neither is 0
    origin.last_row     = limit_h[15:1] == '0;
    origin.first_column = 1'b1;
    origin.first_row    = 1'b1;
    origin.full_w       = full(pool_i.left, 1'b1);
    origin.full_h       = full(pool_i.top, 1'b1);
    if (filters) begin
      origin.skip_w = layer_i.filter_kernel[2:0] - 3'd1 - layer_i.filter_left;
      origin.skip_h = layer_i.filter_kernel[2:0] - 3'd1 - layer_i.filter_top;
      origin.full_w = origin.skip_w == '0;
      origin.full_h = origin.skip_h == '0;
      origin.past_w = layer_i.out_w[15:1] == '0;
      origin.past_h = layer_i.out_h[15:1] == '0;
    end
  end

  assign step      = row_valid_o && row_ready_i;
  assign ends_beat = lane_q || !two_lanes_q || row_both_i;
  assign ends_pass = ends_beat && last_beat_q && !more;
  assign moves     = ends_beat || layer_i.row_lanes;
  assign sample    = place_q.sample + (layer_i.sample_lanes && lane_q ? layer_i.b_r : 5'd0);

  function automatic logic [2:0] skipped(logic [2:0] skip);
    skipped = skip != '0 ? skip - 3'd1 : 3'(layer_i.filter_stride) - 3'd1;
  endfunction
  function automatic place_t follow(place_t place);
    place_t after;
    logic [31:0] step_h;
    after  = place;
    step_h = place.full_h || place.last_row ? steps_i.step_h : '0;
    if (!place.last_column) begin
      after.column       = place.column + 16'd1;
      after.offset       = place.offset + (Each || place.full_w || place.last_column ? steps_i.step_w : '0);
      after.last_column  = place.column + 16'd2 == limit_w;
      after.first_column = 1'b0;
      after.full_w       = full(!(place.column[0] ^ pool_i.left), 1'b0);
      if (filters) begin
        after.skip_w   = skipped(place.skip_w);
        after.full_w   = after.skip_w == '0;
        after.past_w   = place.past_w || place.column + 16'd2 == layer_i.out_w;
        after.beyond_w = place.past_w;
      end
    end else if (!place.last_row) begin
      after.column       = '0;
      after.last_column  = origin.last_column;
      after.first_column = 1'b1;
      after.full_w       = origin.full_w;
      after.row          = place.row + 16'd1;
      after.last_row     = place.row + 16'd2 == limit_h;
      after.first_row    = 1'b0;
      after.full_h       = full(!(place.row[0] ^ pool_i.top), 1'b0);
      if (filters) begin
        after.skip_w   = origin.skip_w;
        after.past_w   = origin.past_w;
        after.beyond_w = 1'b0;
        after.skip_h   = skipped(place.skip_h);
        after.full_h   = after.skip_h == '0;
        after.past_h   = place.past_h || place.row + 16'd2 == layer_i.out_h;
        after.beyond_h = place.past_h;
      end
      after.row_offset   = place.row_offset + step_h;
      after.offset       = place.row_offset + step_h;
      after.top          = place.top + steps_i.rise;
    end else begin
      after        = origin;
      after.sample = place.sample + 5'd1;
      after.top    = place.top + steps_i.span;
    end
    follow = after;
  endfunction
  always_comb begin  // a continuous assignment is not sensitive to the signals `follow` reads from module scope
    behind = follow(place_q);
    other  = layer_i.row_lanes ? behind : place_q;
    next   = Pairs && row_both_i && layer_i.row_lanes ? follow(behind) : behind;
  end

  assign pass_ready_o      = !active_q || (row_ready_i && ends_pass);  // passes follow one another without a gap
  assign takes             = pass_valid_i && pass_ready_o;
  assign row_valid_o       = active_q;
  assign row_lane_o        = lane_q;
  always_comb begin
    row_pooling_o.fresh_w = fresh(place_q.column[0] ^ pool_i.left, place_q.first_column);
    row_pooling_o.next_w  = !(place_q.column[0] ^ pool_i.left);
    row_pooling_o.ends_w  = place_q.full_w || (place_q.last_column && !filters);
    row_pooling_o.fresh_h = fresh(place_q.row[0] ^ pool_i.top, place_q.first_row);
    row_pooling_o.next_h  = !(place_q.row[0] ^ pool_i.top);
    row_pooling_o.ends_h  = place_q.full_h || (place_q.last_row && !filters);
  end
  // A filter's last window is the one behind which its stride leads out of the positions.
  always_comb begin
    more   = filters && (place_q.last_column ? place_q.past_h && !place_q.last_row : place_q.past_w || place_q.beyond_h);
    last_w = place_q.last_column || (layer_i.filter_stride[1] && place_q.column + 16'd2 == limit_w);
    last_h = place_q.last_row || (layer_i.filter_stride[1] && place_q.row + 16'd2 == limit_h);
    row_filtering_o.first_w  = place_q.first_column;
    row_filtering_o.first_h  = place_q.first_row;
    row_filtering_o.beyond_w = place_q.beyond_w;
    row_filtering_o.beyond_h = place_q.beyond_h;
    row_filtering_o.last     = filters && place_q.full_w && place_q.full_h && last_w && last_h && place_q.sample + 5'd1 == layer_i.b_r;
  end
  assign row_ends_beat_o   = lane_q || !two_lanes_q;
  assign row_sample_o      = sample[SampleWidth-1:0];
  assign row_index_o       = place_q.sample[SampleWidth-1:0];
  assign other_index_o     = other.sample[SampleWidth-1:0];
  assign start_index_o     = start_q.sample[SampleWidth-1:0];
  assign start_offset_o    = start_q.row_offset;
  always_comb begin
    row_o.offset      = place_q.offset + shift_q;
    row_o.top         = place_q.top;
    row_o.ends_pass   = row_ends_beat_o && last_beat_q && !more;
    other_o.offset    = other.offset + shift_q;
    other_o.top       = other.top;
    other_o.ends_pass = last_beat_q;
  end

  // Of a pass only, so no reset; between passes it follows the start, so it need not wait for a pass to be there.
  always_ff @(posedge clk_i) begin
    if (!active_q || (row_ready_i && moves)) place_q <= !active_q || (ends_pass && !commit_q) ? start_q : next;
  end

  always_ff @(posedge clk_i) begin
    if (step && !more) begin
      lane_q <= !ends_beat;
      if (ends_beat) begin
        beat_q      <= beat_q + 16'd1;
        two_lanes_q <= beat_q + 16'd1 < lane1_beats_q;
        last_beat_q <= beat_q + 16'd2 == beats_q;
      end
      if (ends_pass) begin
        active_q <= 1'b0;
        if (commit_q) start_q <= next;
      end
    end
    if (takes) begin
      active_q      <= 1'b1;
      lane_q        <= 1'b0;
      beat_q        <= '0;
      beats_q       <= pass_i.beats;
      lane1_beats_q <= pass_i.lane1_beats;
      two_lanes_q   <= pass_i.lane1_beats != '0;
      last_beat_q   <= pass_i.beats[15:1] == '0;  // nor is this; a mapper shared one comparison, behind what comes late
      shift_q       <= pass_i.shift;
      commit_q      <= pass_i.commit;
    end
    if (layer_start_i) start_q <= origin;
    if (!rst_ni) begin  // of the others each is set before its use
      active_q <= 1'b0;
      start_q  <= origin;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && row_valid_o) assert (32'(sample) < BMax);
    if (rst_ni && step && row_both_i) assert (Pairs && !row_ends_beat_o);
    if (rst_ni && takes) assert (pass_i.beats != '0 && pass_i.lane1_beats <= pass_i.beats);
    if (rst_ni && row_valid_o && filters) assert (!layer_i.sample_lanes && !row_both_i);
  end
endmodule
