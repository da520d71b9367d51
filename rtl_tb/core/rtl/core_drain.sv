/// Walks through the output of every command in order: fetches rows from the output banks or the pool and
/// issues their beats.
///
/// A row is fetched in the cycle in which the last beat of the one before is issued; with lanes it holds two
/// rows of the output. Views have the numbers of `core_gather`.
module core_drain #(
  parameter int unsigned OutWords = 4,
  parameter int unsigned HalfRows = 0,
  parameter int unsigned ViewBits = 3,
  parameter int unsigned LaneBase = 0,
  parameter int unsigned HalfViews = 0,
  parameter int unsigned SplitBase = 0,
  parameter int unsigned PoolBase = 2,
  parameter int unsigned GroupBits = 1
) (
  input  logic                                clk_i,              // clock
  input  logic                                rst_ni,             // reset, synchronous
  input  logic                                cmd_valid_i,        // a command waits for its output
  output logic                                cmd_ready_o,        // its last beat is issued
  input  fluidnpu_formats_pkg::core_command_t cmd_i,              // that command
  input  logic                                written_i,          // a row is finished in the output banks
  input  logic                                bias_ready_i,       // the biases of the command are loaded
  input  logic [1:0]                          bias_generation_i,  // which these are
  output core_pkg::fetch_t                    fetch_o,            // what is read of the output banks
  input  logic                                pool_valid_i,       // a row of the pool is there
  output logic                                pool_take_o,        // and is fetched
  input  logic                                enable_i,           // post-processing moves
  input  logic                                residual_valid_i,   // a residual beat is there
  output logic                                residual_ready_o,   // and is taken
  output core_pkg::issue_t                    issue_o,            // a beat is issued
  output logic [ViewBits-1:0]                 view_o,             // where its sums lie in the row fetched
  output logic [OutWords-1:0]                 used_o,             // which of its lanes have a column
  output logic [1:0]                          generation_o,       // of its biases
  output logic [GroupBits-1:0]                group_o             // of its columns
);
  logic        pool, fetch, gemm_fetch, last_row, available, upper;
  logic [15:0] row_q, stored_q;
  logic [15:0] gemm_row_q;  // row_q of a GEMM, zero of a pool

  // The fetched row with what its command said.
  logic                 valid_q, pool_q, residual_q, has_lane1_q, lane1_q, issue, last_beat, last_issue;
  logic [11:0]          cols_q, left_q;
  logic [1:0]           generation_q;
  logic [ViewBits-1:0]  lane1_view_q;
  (* max_fanout = 64 *) logic [ViewBits-1:0] view_q;  // for every word of every lane
  logic [GroupBits-1:0] group_q;
  core_pkg::finish_t    finish_q;

  // Fetching.
  assign pool      = cmd_i.mode >= fluidnpu_formats_pkg::ModeMaxPool;
  assign available = pool ? pool_valid_i : stored_q != '0 && bias_ready_i;
  assign fetch     = cmd_valid_i && available && (!valid_q || last_issue);
  assign last_row  = row_q + 16'd1 == cmd_i.beats;
  assign upper     = HalfRows != 0 && row_q >= 16'(HalfRows);

  assign cmd_ready_o       = fetch && last_row;
  assign gemm_fetch        = fetch && !pool;
  assign fetch_o           = {gemm_fetch, upper ? row_q - 16'(HalfRows) : row_q, gemm_row_q, gemm_fetch && last_row};
  assign pool_take_o       = fetch && pool;

  // Issuing.
  assign issue            = valid_q && enable_i && (!residual_q || residual_valid_i);
  assign last_beat        = left_q <= 12'(OutWords);
  assign last_issue       = issue && last_beat && (lane1_q || !has_lane1_q);
  assign issue_o          = {issue, pool_q, residual_q, finish_q};
  assign residual_ready_o = issue && residual_q;
  assign view_o           = view_q;
  assign generation_o     = generation_q;
  assign group_o          = group_q;

  for (genvar o = 0; o < OutWords; o++) begin : gen_used
    assign used_o[o] = left_q > 12'(o);
  end

  logic [ViewBits-1:0] first_view;
  always_comb begin
    first_view = upper ? ViewBits'(HalfViews) : '0;
    if (HalfRows != 0 && cmd_i.mode == fluidnpu_formats_pkg::ModeSplit) first_view = ViewBits'(SplitBase);
    if (pool) first_view = ViewBits'(PoolBase);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      row_q      <= '0;
      gemm_row_q <= '0;
      stored_q   <= '0;
      valid_q    <= 1'b0;
    end else begin
      stored_q <= stored_q + 16'(written_i) - 16'(gemm_fetch);
      if (fetch) row_q <= last_row ? '0 : row_q + 16'd1;
      if (gemm_fetch) gemm_row_q <= last_row ? '0 : gemm_row_q + 16'd1;
      if (fetch) valid_q <= 1'b1;
      else if (last_issue) valid_q <= 1'b0;
    end
    if (fetch) begin
      pool_q       <= pool;
      residual_q   <= cmd_i.has_residual;
      cols_q       <= cmd_i.cols;
      left_q       <= cmd_i.cols;
      has_lane1_q  <= row_q < cmd_i.lane1_beats;
      lane1_q      <= 1'b0;
      generation_q <= bias_generation_i;
      view_q       <= first_view;
      lane1_view_q <= ViewBits'(LaneBase) + first_view;
      group_q      <= '0;
      finish_q     <= {cmd_i.hi, cmd_i.lo, cmd_i.shift, cmd_i.residual_shift, cmd_i.residual_multiplier};
    end else if (issue) begin
      left_q  <= last_beat ? cols_q : left_q - 12'(OutWords);
      lane1_q <= last_beat || lane1_q;
      view_q  <= last_beat ? lane1_view_q : view_q + 1'b1;
      group_q <= last_beat ? '0 : group_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && gemm_fetch) assert (stored_q != '0);
    if (rst_ni) assert (gemm_row_q == (cmd_valid_i && !pool ? row_q : 16'd0) && (cmd_valid_i || row_q == '0));
  end
endmodule
