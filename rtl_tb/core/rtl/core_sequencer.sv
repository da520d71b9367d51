/// Hands input beats to the array or the pool and holds back those whose weights, sums or output rows are not
/// ready.
///
/// GEMM: a P-tile begins when its weights are loaded and when the sums of the previous tile can be read back
/// (`Turnaround` cycles after they began); rows of the last P-tile wait until the previous command's row at
/// that place was fetched. Both are found out a step ahead, and so are a P-tile's first and last beats.
module core_sequencer #(
  parameter int unsigned Turnaround = 8,
  parameter int unsigned HalfRows = 0  // Split designs: rows from here on lie in the upper half bank
) (
  input  logic                                clk_i,           // clock
  input  logic                                rst_ni,          // reset, synchronous
  input  logic                                cmd_valid_i,     // a command waits for its inputs
  output logic                                cmd_ready_o,     // its last beat is handed on
  input  fluidnpu_formats_pkg::core_command_t cmd_i,           // its mode, beats and P-tiles count
  input  logic                                cmd_one_beat_i,  // it has one beat
  input  logic                                cmd_one_tile_i,  // it has one P-tile
  input  logic                                input_valid_i,   // an input beat is there
  output logic                                input_ready_o,   // and is taken
  input  logic                                loaded_i,        // the waiting weights are whole
  output core_pkg::beat_t                     beat_o,          // the beat that goes to the array, or zero
  input  core_pkg::fetch_t                    fetch_i,         // rows of the oldest GEMM command that is not fetched in full
  output core_pkg::taps_t                     taps_o,          // the beat goes to the pool
  input  logic                                pool_ready_i     // and is taken
);
  localparam int unsigned AgeBits = $clog2(Turnaround + 1);

  logic [15:0]        inner_q, outer_q, inner_size, outer_size;
  logic               gemm, last_inner, last_outer, weights_ok, row_ok, mode_ok, issue, take;
  logic               first_inner_q, first_outer_q, last_inner_q, last_outer_q;  // last: of those behind the first
  logic [AgeBits-1:0] age_q;  // Turnaround after a beat, then down to zero
  logic [1:0]         unfetched_q;
  logic               split, split_q;  // split_q: the previous command's
  logic               aged_q, turns;   // sums of the tile before can be read; they can, right behind a beat
  logic               fetched_q;       // fetch_i.rows > inner_q

  assign gemm        = cmd_i.mode < fluidnpu_formats_pkg::ModeMaxPool;
  assign split       = HalfRows != 0 && cmd_i.mode == fluidnpu_formats_pkg::ModeSplit;
  assign inner_size  = gemm ? cmd_i.beats : cmd_i.p_tiles;
  assign outer_size  = gemm ? cmd_i.p_tiles : cmd_i.beats;
  assign last_inner  = first_inner_q ? (gemm ? cmd_one_beat_i : cmd_one_tile_i) : last_inner_q;
  assign last_outer  = first_outer_q ? (gemm ? cmd_one_tile_i : cmd_one_beat_i) : last_outer_q;

  // Chains of two lengths must not meet in a bank, so a change between them waits until the array is empty;
  // and rows of the two kinds lie at different places, so it also waits until all of them are fetched.
  assign mode_ok    = HalfRows == 0 || split == split_q || age_q == '0;
  assign weights_ok = !first_inner_q || (loaded_i && (first_outer_q ? mode_ok : aged_q));
  assign row_ok     = !last_outer || unfetched_q == '0 || (unfetched_q == 2'd1 && split == split_q && fetched_q);

  assign turns         = 16'(Turnaround) <= cmd_i.beats;
  assign issue         = cmd_valid_i && input_valid_i && gemm && weights_ok && row_ok;
  assign taps_o        = {cmd_valid_i && input_valid_i && !gemm, first_inner_q, last_inner};
  assign take          = issue || (taps_o.valid && pool_ready_i);
  assign input_ready_o = take;
  assign cmd_ready_o   = take && last_inner && last_outer;

  always_comb begin
    beat_o = '0;
    if (issue) begin
      beat_o.swap      = first_inner_q;
      beat_o.zero      = first_outer_q;
      beat_o.partial   = !last_outer;
      beat_o.final_sum = last_outer;
      beat_o.wide      = cmd_i.mode == fluidnpu_formats_pkg::ModeWide;
      beat_o.split     = split;
      beat_o.upper     = HalfRows != 0 && inner_q >= 16'(HalfRows);
      beat_o.row       = beat_o.upper ? inner_q - 16'(HalfRows) : inner_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      inner_q     <= '0;
      outer_q     <= '0;
      age_q       <= '0;
      unfetched_q <= '0;
      split_q     <= 1'b0;
      aged_q      <= 1'b0;
      fetched_q   <= 1'b0;
      first_inner_q <= 1'b1;
      first_outer_q <= 1'b1;
    end else begin
      last_inner_q <= (take ? inner_q + 16'd2 : inner_q + 16'd1) == inner_size;
      last_outer_q <= (take && last_inner ? outer_q + 16'd2 : outer_q + 16'd1) == outer_size;
      if (take) begin
        inner_q       <= last_inner ? '0 : inner_q + 16'd1;
        first_inner_q <= last_inner;
        if (last_inner) begin
          outer_q       <= last_outer ? '0 : outer_q + 16'd1;
          first_outer_q <= last_outer;
        end
      end
      if (issue && cmd_ready_o) split_q <= split;
      if (issue) age_q <= AgeBits'(Turnaround);
      else if (age_q != '0) age_q <= age_q - 1'b1;
      aged_q <= issue ? turns : age_q == '0 || 16'(age_q) - 16'd1 <= cmd_i.beats;
      if (fetch_i.command) fetched_q <= 1'b0;
      else if (take && last_inner) fetched_q <= fetch_i.valid || fetch_i.rows != '0;
      else if (take && !fetch_i.valid) fetched_q <= fetched_q && fetch_i.rows != inner_q + 16'd1;
      else if (fetch_i.valid && !take) fetched_q <= fetched_q || fetch_i.rows == inner_q;
      unfetched_q <= unfetched_q + 2'(issue && cmd_ready_o) - 2'(fetch_i.command);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (!(unfetched_q == 2'd3 && issue && cmd_ready_o));
    if (rst_ni) assert (fetched_q == (fetch_i.rows > inner_q) && (!fetch_i.command || fetch_i.valid));
    if (rst_ni) assert (first_inner_q == (inner_q == '0) && first_outer_q == (outer_q == '0));
    if (rst_ni && take) assert (last_inner == (inner_q + 16'd1 == inner_size) && last_outer == (outer_q + 16'd1 == outer_size));
    if (rst_ni && cmd_valid_i && outer_q != '0) assert (aged_q == (16'(age_q) <= cmd_i.beats));
  end
endmodule
