/// Replaces fluidnpu_row_walker in proofs of its users: rows come at any pace and hold still until they are
/// taken.
///
/// A pass ends once. A row that does not end its beat is one of lane 0; the row of lane 1 that was told with
/// it comes next, unless both are taken. Without a pool each row ends its windows. A user's checker assumes the
/// properties of the proof `rows` beyond that.
module fluidnpu_row_walker #(
  parameter int unsigned BMax = 4,
  parameter bit Pools = 1'b0,
  parameter bit Pairs = 1'b1,
  parameter bit Filters = 1'b0,
  parameter bit Each = 1'b0,
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  logic                          layer_start_i,
  input  fluidnpu_formats_pkg::layer_t  layer_i,
  input  fluidnpu_formats_pkg::steps_t  steps_i,
  input  fluidnpu_pkg::pool_t           pool_i,
  input  logic                          pass_valid_i,
  output logic                          pass_ready_o,
  input  fluidnpu_formats_pkg::pass_t   pass_i,
  output logic                          row_valid_o,
  input  logic                          row_ready_i,
  output logic [SampleWidth-1:0]        row_sample_o,
  output logic [SampleWidth-1:0]        row_index_o,
  output fluidnpu_formats_pkg::walked_t row_o,
  output logic                          row_lane_o,
  output fluidnpu_pkg::pooling_t        row_pooling_o,
  output fluidnpu_pkg::filtering_t      row_filtering_o,
  output logic                          row_ends_beat_o,
  input  logic                          row_both_i,
  output logic [SampleWidth-1:0]        other_index_o,
  output fluidnpu_formats_pkg::walked_t other_o,
  output logic [SampleWidth-1:0]        start_index_o,
  output logic [31:0]                   start_offset_o
);
  typedef struct packed {
    logic [SampleWidth-1:0] sample;
    logic [SampleWidth-1:0] index;
    logic [31:0]            offset;
    logic [23:0]            top;
    logic                   lane;
    fluidnpu_pkg::pooling_t pooling;
    fluidnpu_pkg::filtering_t filtering;
    logic                   ends_beat;
    logic                   ends_pass;
  } row_t;
  typedef struct packed {
    logic [SampleWidth-1:0] index;
    logic [31:0]            offset;
  } start_t;

  (* anyseq *) row_t   any_row, any_other;
  (* anyseq *) start_t any_start;
  row_t   row, other, held_row_q, held_other_q;
  start_t start, held_start_q;
  logic   active_q = 1'b0, held_q = 1'b0, kept_q = 1'b0, ends, alone;

  assign row               = held_q ? held_row_q : any_row;
  assign other             = held_q ? held_other_q : any_other;
  assign start             = kept_q ? held_start_q : any_start;
  assign row_sample_o      = row.sample;
  assign row_index_o       = row.index;
  assign row_lane_o        = row.lane;
  always_comb begin
    row_pooling_o = row.pooling;
    if ((!Pools || pool_i.kernel == '0) && (!Filters || layer_i.filter_kernel == '0)) begin
      row_pooling_o.ends_w = 1'b1;
      row_pooling_o.ends_h = 1'b1;
    end
    row_filtering_o = row.filtering;
  end
  assign row_ends_beat_o   = row.lane || row.ends_beat;
  always_comb begin
    row_o.offset      = row.offset;
    row_o.top         = row.top;
    row_o.ends_pass   = row.ends_pass && row_ends_beat_o;
    other_o.offset    = other.offset;
    other_o.top       = other.top;
    other_o.ends_pass = other.ends_pass;
  end
  assign other_index_o     = other.index;
  assign start_index_o     = start.index;
  assign start_offset_o    = start.offset;
  assign row_valid_o       = active_q;
  assign ends              = active_q && row_ready_i && (row_both_i ? other_o.ends_pass : row_o.ends_pass);
  assign alone             = row_ready_i && !row_ends_beat_o && !row_both_i;  // lane 1's row is still to come
  assign pass_ready_o      = !active_q || ends;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      held_q   <= 1'b0;
      kept_q   <= 1'b0;
    end else begin
      if (ends) active_q <= 1'b0;
      if (pass_valid_i && pass_ready_o) active_q <= 1'b1;
      held_q <= active_q && (!row_ready_i || alone);
      kept_q <= !layer_start_i && !ends;  // the start moves between passes only
    end
    held_row_q   <= row;
    held_other_q <= other;
    held_start_q <= start;
    if (alone) begin
      held_row_q      <= other;
      held_row_q.lane <= 1'b1;
    end
  end
endmodule
