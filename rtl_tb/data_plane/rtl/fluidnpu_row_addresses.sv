/// Visits the rows of commands ahead of their use and keeps the address of each until it is taken.
///
/// One row a cycle while there is room, in the order of `fluidnpu_row_walker`. Addresses are added up in
/// registered steps, so nothing goes back from the taker to the walk but the level of the queue: the first row
/// is shown five cycles behind its command. With a pool or a filter only the rows are kept that end a window of it.
module fluidnpu_row_addresses #(
  parameter int unsigned BMax = 4,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned Depth = 8,  // rows
  parameter bit Pools = 1'b0,        // without, `pool_i` is none
  parameter bit Filters = 1'b0,      // without, the layer's filter is not looked at
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                           clk_i,            // clock
  input  logic                           rst_ni,           // reset, synchronous
  input  logic                           layer_start_i,    // a layer begins
  input  logic [BMax-1:0][AddrWidth-1:0] slot_i,           // where each active slot begins
  input  fluidnpu_formats_pkg::layer_t   layer_i,          // that layer
  input  fluidnpu_pkg::pool_t            pool_i,           // the pool that its outputs pass
  input  logic [31:0]                    step_h_i,         // bytes from row to row of what is written or read
  input  logic [31:0]                    step_w_i,         // bytes from pixel to pixel
  input  logic [31:0]                    offset_i,         // of the first row in its slot
  input  logic                           command_valid_i,  // a command is there
  output logic                           command_ready_o,  // and is taken
  input  fluidnpu_formats_pkg::tile_t    command_i,        // that command
  output logic                           row_valid_o,      // a row is there
  input  logic                           row_ready_i,      // and is taken
  output logic [AddrWidth-1:0]           row_addr_o,       // its first byte
  output logic [11:0]                    row_cols_o,       // its words
  output logic                           row_new_o,        // begins in another port word than where the row before it ended
  output logic                           row_last_o,       // the last of the layer
  output logic                           busy_o            // a command is at hand: positions are still to come
);
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1;
  localparam int unsigned ByteBits = $clog2(WordBits / 8);
  localparam int unsigned PortBits = $clog2(PortWords) + ByteBits;
  localparam int unsigned Steps = 3;  // in which an address is added up

  if (Depth <= Steps) begin : gen_illegal
    $fatal(1, "Depth must be larger than the %0d rows on their way in %m", Steps);
  end

  typedef struct packed {
    logic [AddrWidth-1:0] addr;
    logic [11:0]          cols;
    logic                 fresh;
    logic                 last;
  } row_t;

  logic                       walks, room_q, last_q;
  logic [11:0]                cols_q;
  logic [SampleWidth-1:0]     row_sample, sample_1_q;
  logic [31:0]                offset_1_q;
  fluidnpu_formats_pkg::steps_t  steps;
  fluidnpu_formats_pkg::pass_t   walk;
  fluidnpu_formats_pkg::walked_t row;
  logic [Steps-1:0]           valid_q;
  logic [Steps-1:0]           last_s_q;
  logic [Steps-1:0][11:0]     cols_s_q;
  logic [11:0]                behind_2_q;  // columns behind the first
  logic [AddrWidth-1:0]       addr_2_q, addr_3_q, end_3_q;
  logic [AddrWidth-1:PortBits] end_q;      // port word of the last column of the row before
  logic [$clog2(Depth+1)-1:0] level;
  row_t                       pushed, head;
  fluidnpu_pkg::pooling_t     pooling;
  fluidnpu_pkg::filtering_t   filtering;
  logic                       filters;

  assign filters = Filters && layer_i.filter_kernel != '0;
  assign busy_o  = walks;

  fluidnpu_row_walker #(.BMax(BMax), .Pools(Pools), .Pairs(1'b0), .Filters(Filters)) rows (
    .clk_i, .rst_ni, .layer_start_i,
    .layer_i, .steps_i(steps), .pool_i, .pass_valid_i(command_valid_i), .pass_ready_o(command_ready_o), .pass_i(walk),
    .row_valid_o(walks), .row_ready_i(room_q), .row_sample_o(row_sample), .row_index_o(), .row_o(row), .row_lane_o(),
    .row_pooling_o(pooling), .row_filtering_o(filtering), .row_ends_beat_o(), .row_both_i(1'b0), .other_index_o(), .other_o(), .start_index_o(), .start_offset_o()
  );
  always_comb begin
    steps            = '0;
    steps.step_h     = step_h_i;
    steps.step_w     = step_w_i;
    walk.beats       = command_i.beats;
    walk.lane1_beats = command_i.lane1_beats;
    walk.shift       = command_i.out_shift + offset_i;
    walk.commit      = command_i.block_last;
  end

  // What is on its way must fit as well. Found out a step ahead, of the level behind what comes and goes.
  localparam int unsigned Most = Depth - Steps - 1;  // rows stored where another may set out
  logic comes, goes;
  assign comes = valid_q[2];
  assign goes  = row_valid_o && row_ready_i;
  always_ff @(posedge clk_i) begin
    room_q <= 32'(level) < Most || (32'(level) == Most && (!comes || goes)) || (32'(level) == Most + 1 && goes && !comes);
    if (!rst_ni) room_q <= 1'b1;
    if (rst_ni) assert (room_q == (32'(level) + Steps + 1 <= Depth));
  end

  always_comb begin
    pushed.addr  = addr_3_q;
    pushed.cols  = cols_s_q[2];
    pushed.fresh = addr_3_q[AddrWidth-1:PortBits] != end_q;
    pushed.last  = last_s_q[2];
  end

  always_ff @(posedge clk_i) begin
    if (command_valid_i && command_ready_o) begin
      cols_q <= command_i.cols;
      last_q <= filters ? command_i.block_last : command_i.layer_last;  // its last windows may end before the last command
    end
    offset_1_q <= row.offset;
    sample_1_q <= row_sample;
    addr_2_q   <= slot_i[sample_1_q] + AddrWidth'(offset_1_q);
    behind_2_q <= cols_s_q[0] - 12'd1;
    addr_3_q   <= addr_2_q;
    end_3_q    <= addr_2_q + (AddrWidth'(behind_2_q) << ByteBits);
    cols_s_q   <= {cols_s_q[1:0], cols_q};
    last_s_q   <= {last_s_q[1:0], last_q && (filters ? filtering.last : row.ends_pass)};
    if (valid_q[2]) end_q <= end_3_q[AddrWidth-1:PortBits];
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[1:0], walks && room_q && pooling.ends_w && pooling.ends_h};
  end

  logic fits;
  common_fifo #(.Width($bits(pushed)), .Depth(Depth)) queue (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(valid_q[2]), .ready_o(fits), .data_i(pushed),
    .valid_o(row_valid_o), .ready_i(row_ready_i), .data_o(head), .level_o(level)
  );
  assign row_addr_o = head.addr;
  assign row_cols_o = head.cols;
  assign row_new_o  = head.fresh;
  assign row_last_o = head.last;

  always_ff @(posedge clk_i) begin
    if (rst_ni && valid_q[2]) assert (fits);
  end
endmodule
