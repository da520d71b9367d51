/// Reads the residual words in the order of the output stream; each row is filled up to whole beats.
module fluidnpu_residual_reader #(
  parameter int unsigned BMax = 4,
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortWords = 8,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                           clk_i,
  input  logic                           rst_ni,
  input  logic                           layer_start_i,
  input  logic [BMax-1:0][AddrWidth-1:0] slot_i,
  input  fluidnpu_formats_pkg::layer_t   layer_i,
  input  logic                           command_valid_i,
  output logic                           command_ready_o,
  input  fluidnpu_formats_pkg::tile_t    command_i,
  output logic                           fetch_valid_o,
  input  logic                           fetch_ready_i,
  output logic [AddrWidth-1:0]           fetch_addr_o,
  output logic [23:0]                    fetch_beats_o,
  input  logic                           data_valid_i,
  output logic                           data_ready_o,
  input  logic [PortWords*16-1:0]        data_i,
  output logic                           beat_valid_o,
  input  logic                           beat_ready_i,
  output logic [OutWords*16-1:0]         beat_o
);
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1;
  localparam int unsigned PortBits = $clog2(PortWords * 2);
  localparam int unsigned SkipWidth = PortWords > 1 ? $clog2(PortWords) : 1;
  localparam int unsigned JobQueue = 32;  // rows asked for ahead, to hide the latency of memory when rows are short

  logic                 row_valid, row_ready, job_ready, head_valid, head_ready;
  logic [AddrWidth-1:0] row_addr;
  logic [11:0]          cols_q;
  logic [SkipWidth-1:0] skip;
  logic [SkipWidth+11:0] head;

  logic [31:0]            row_offset;
  logic [SampleWidth-1:0] row_sample;

  assign row_addr = slot_i[row_sample] + AddrWidth'(row_offset);

  fluidnpu_row_walker #(.BMax(BMax)) rows (
    .clk_i, .rst_ni, .layer_start_i,
    .out_h_i(layer_i.out_h), .out_w_i(layer_i.out_w),
    .row_lanes_i(layer_i.row_lanes), .sample_lanes_i(layer_i.sample_lanes), .b_r_i(layer_i.b_r),
    .step_h_i(layer_i.residual_row), .step_w_i(layer_i.residual_pixel), .rise_i('0), .span_i('0),
    .pass_valid_i(command_valid_i), .pass_ready_o(command_ready_o), .beats_i(command_i.beats),
    .lane1_beats_i(command_i.lane1_beats), .shift_i(command_i.out_shift + layer_i.residual_offset),
    .commit_i(command_i.block_last),
    .row_valid_o(row_valid), .row_ready_i(row_ready), .row_sample_o(row_sample), .row_index_o(), .row_offset_o(row_offset),
    .row_top_o(), .row_lane_o(), .row_ends_beat_o(),
    .row_ends_pass_o(), .row_both_i(1'b0), .other_index_o(), .other_offset_o(), .other_top_o(), .other_ends_pass_o(),
    .start_index_o(), .start_offset_o()
  );

  assign skip          = row_addr[1+:SkipWidth] & SkipWidth'(PortWords - 1);
  assign fetch_valid_o = row_valid && job_ready;
  assign fetch_addr_o  = {row_addr[AddrWidth-1:PortBits], PortBits'(0)};
  assign fetch_beats_o = 24'((32'(skip) + 32'(cols_q) + 32'(PortWords) - 32'd1) / PortWords);
  assign row_ready     = fetch_valid_o && fetch_ready_i;

  always_ff @(posedge clk_i) begin
    if (command_valid_i && command_ready_o) cols_q <= command_i.cols;
  end

  common_fifo #(.Width(SkipWidth + 12), .Depth(JobQueue)) jobs (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(row_ready), .ready_o(job_ready), .data_i({skip, cols_q}),
    .valid_o(head_valid), .ready_i(head_ready), .data_o(head), .level_o()
  );

  fluidnpu_unpack #(.PortWords(PortWords), .BeatWords(OutWords)) unpack (
    .clk_i, .rst_ni, .job_valid_i(head_valid), .job_ready_o(head_ready), .job_skip_i(head[12+:SkipWidth]),
    .job_words_i(32'(head[11:0])), .port_valid_i(data_valid_i), .port_ready_o(data_ready_o), .port_i(data_i),
    .beat_valid_o, .beat_ready_i, .beat_o, .left_o(), .missing_o()
  );
endmodule
