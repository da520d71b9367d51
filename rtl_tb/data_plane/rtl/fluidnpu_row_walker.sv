/// Visits the rows of a row block in the order of the core's beats, lane 0 before lane 1, and gives the place
/// of each.
///
/// The walk begins where the last committed pass ended; a pass without `commit_i` is walked again by the next
/// one. One row a cycle, or with `row_both_i` the two rows of a beat. Serves windows (steps of the input),
/// outputs and residuals. That a row ends its image's row, a beat its pass, is found out a step ahead. With a
/// pool the steps are those of the pooled map, and are taken where a window ends.
module fluidnpu_row_walker #(
  parameter int unsigned BMax = 4,
  parameter bit Pools = 1'b0,  // without, `pool_i` is none
  parameter bit Pairs = 1'b1,  // without, `row_both_i` is 0
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1
) (
  input  logic                                        clk_i,              // clock
  input  logic                                        rst_ni,             // reset, synchronous
  input  logic                                        layer_start_i,      // a layer begins
  input  logic [15:0]                                 out_h_i,            // rows of the map
  input  logic [15:0]                                 out_w_i,            // pixels of a row
  input  logic                                        row_lanes_i,        // neighbouring rows share a beat
  input  logic                                        sample_lanes_i,     // samples i and i + b_r share a beat
  input  logic [4:0]                                  b_r_i,              // samples of lane 0
  input  logic [31:0]                                 step_h_i,           // bytes from row to row
  input  logic [31:0]                                 step_w_i,           // bytes from pixel to pixel
  input  logic [23:0]                                 rise_i,             // input rows from the first of a window to that of the next below
  input  logic [23:0]                                 span_i,             // the same from a sample's last window to the next sample's first
  input  fluidnpu_pkg::pool_t                         pool_i,             // the pool that outputs pass
  // pass
  input  logic                                        pass_valid_i,       // a pass is there
  output logic                                        pass_ready_o,       // and is taken
  input  logic [15:0]                                 beats_i,            // its rows of lane 0
  input  logic [15:0]                                 lane1_beats_i,      // of lane 1
  input  logic [31:0]                                 shift_i,            // bytes added to the place of each
  input  logic                                        commit_i,           // the next pass begins behind this one
  // rows
  output logic                                        row_valid_o,        // a row is there
  input  logic                                        row_ready_i,        // and is taken
  output logic [SampleWidth-1:0]                      row_sample_o,       // its sample
  output logic [SampleWidth-1:0]                      row_index_o,        // sample within its lane
  output logic [31:0]                                 row_offset_o,       // in the sample
  output logic [23:0]                                 row_top_o,          // first input row of the window, counted through a lane
  output logic                                        row_lane_o,         // its lane
  output fluidnpu_pkg::pooling_t                      row_pooling_o,      // what it is to the pool's windows; all ends where there is none
  output logic                                        row_ends_beat_o,    // it is the last of its beat
  output logic                                        row_ends_pass_o,    // it is the last of the pass
  // the row of lane 1 that shares the beat of this one of lane 0, which does not end it: goes when that goes
  input  logic                                        row_both_i,         // the row of lane 1 goes as well
  output logic [SampleWidth-1:0]                      other_index_o,      // of that row: sample within its lane
  output logic [31:0]                                 other_offset_o,     // its place in the sample
  output logic [23:0]                                 other_top_o,        // its first input row
  output logic                                        other_ends_pass_o,  // it is the last of the pass
  // where the next pass begins: nothing above will be visited again
  output logic [SampleWidth-1:0]                      start_index_o,      // sample within its lane
  output logic [31:0]                                 start_offset_o      // place in the sample
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
    logic        full_w;  // ends a window of the pool, one that the map does not cut off
    logic        full_h;
  } place_t;

  place_t      place_q, start_q, origin, behind, other, next;
  logic        active_q, lane_q, commit_q;
  logic [15:0] beat_q, beats_q, lane1_beats_q;
  logic [31:0] shift_q;
  logic        two_lanes_q, last_beat_q;  // of beat_q
  logic        ends_beat, ends_pass, step, moves, takes;
  logic [4:0]  sample;

  // Along one axis; `odd` is counted from where the first window begins. Full windows are found out a step ahead.
  function automatic logic full(logic odd, logic first);
    full = !Pools || pool_i.kernel == 2'd0 || (pool_i.kernel == 2'd2 ? odd : !odd && !first);
  endfunction
  function automatic logic fresh(logic odd, logic first);
    fresh = first || (pool_i.kernel == 2'd2 && !odd);
  endfunction
  always_comb begin
    origin              = '0;
    origin.last_column  = out_w_i[15:1] == '0;  // neither is 0
    origin.last_row     = out_h_i[15:1] == '0;
    origin.first_column = 1'b1;
    origin.first_row    = 1'b1;
    origin.full_w       = full(pool_i.left, 1'b1);
    origin.full_h       = full(pool_i.top, 1'b1);
  end

  assign step      = row_valid_o && row_ready_i;
  assign ends_beat = lane_q || !two_lanes_q || row_both_i;
  assign ends_pass = ends_beat && last_beat_q;
  assign moves     = ends_beat || row_lanes_i;
  assign sample    = place_q.sample + (sample_lanes_i && lane_q ? b_r_i : 5'd0);

  function automatic place_t follow(place_t place);
    place_t after;
    logic [31:0] step_h;
    after  = place;
    step_h = place.full_h || place.last_row ? step_h_i : '0;
    if (!place.last_column) begin
      after.column       = place.column + 16'd1;
      after.offset       = place.offset + (place.full_w || place.last_column ? step_w_i : '0);
      after.last_column  = place.column + 16'd2 == out_w_i;
      after.first_column = 1'b0;
      after.full_w       = full(!(place.column[0] ^ pool_i.left), 1'b0);
    end else if (!place.last_row) begin
      after.column       = '0;
      after.last_column  = origin.last_column;
      after.first_column = 1'b1;
      after.full_w       = origin.full_w;
      after.row          = place.row + 16'd1;
      after.last_row     = place.row + 16'd2 == out_h_i;
      after.first_row    = 1'b0;
      after.full_h       = full(!(place.row[0] ^ pool_i.top), 1'b0);
      after.row_offset   = place.row_offset + step_h;
      after.offset       = place.row_offset + step_h;
      after.top          = place.top + rise_i;
    end else begin
      after        = origin;
      after.sample = place.sample + 5'd1;
      after.top    = place.top + span_i;
    end
    follow = after;
  endfunction
  always_comb begin  // a continuous assignment is not sensitive to the signals `follow` reads from module scope
    behind = follow(place_q);
    other  = row_lanes_i ? behind : place_q;
    next   = Pairs && row_both_i && row_lanes_i ? follow(behind) : behind;
  end

  assign pass_ready_o      = !active_q || (row_ready_i && ends_pass);  // passes follow one another without a gap
  assign takes             = pass_valid_i && pass_ready_o;
  assign row_valid_o       = active_q;
  assign row_lane_o        = lane_q;
  always_comb begin
    row_pooling_o.fresh_w = fresh(place_q.column[0] ^ pool_i.left, place_q.first_column);
    row_pooling_o.next_w  = !(place_q.column[0] ^ pool_i.left);
    row_pooling_o.ends_w  = place_q.full_w || place_q.last_column;
    row_pooling_o.fresh_h = fresh(place_q.row[0] ^ pool_i.top, place_q.first_row);
    row_pooling_o.next_h  = !(place_q.row[0] ^ pool_i.top);
    row_pooling_o.ends_h  = place_q.full_h || place_q.last_row;
  end
  assign row_ends_beat_o   = lane_q || !two_lanes_q;
  assign row_ends_pass_o   = row_ends_beat_o && last_beat_q;
  assign row_sample_o      = sample[SampleWidth-1:0];
  assign row_index_o       = place_q.sample[SampleWidth-1:0];
  assign row_offset_o      = place_q.offset + shift_q;
  assign row_top_o         = place_q.top;
  assign other_index_o     = other.sample[SampleWidth-1:0];
  assign other_offset_o    = other.offset + shift_q;
  assign other_top_o       = other.top;
  assign other_ends_pass_o = last_beat_q;
  assign start_index_o     = start_q.sample[SampleWidth-1:0];
  assign start_offset_o    = start_q.row_offset;

  // Of a pass only, so no reset; between passes it follows the start, so it need not wait for a pass to be there.
  always_ff @(posedge clk_i) begin
    if (!active_q || (row_ready_i && moves)) place_q <= !active_q || (ends_pass && !commit_q) ? start_q : next;
  end

  always_ff @(posedge clk_i) begin
    if (step) begin
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
      beats_q       <= beats_i;
      lane1_beats_q <= lane1_beats_i;
      two_lanes_q   <= lane1_beats_i != '0;
      last_beat_q   <= beats_i[15:1] == '0;  // nor is this; a mapper shared one comparison, behind what comes late
      shift_q       <= shift_i;
      commit_q      <= commit_i;
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
    if (rst_ni && takes) assert (beats_i != '0 && lane1_beats_i <= beats_i);
  end
endmodule
