/// The NPU's data plane: registers, Fluid Batching Engine, layer sequencer, DMA.
///
/// Five streams connect the core (ADR 4). AXI ports: `m0` reads descriptors and weights, `m1` reads inputs,
/// `m2` reads residuals and constants and writes outputs. Those pass an activation unit (ADR 69), a filter with a
/// table behind it (ADR 70) and a pool (ADR 51), each where a design has it. `core_rst_no` is low while a job is
/// dropped: the core must forget its half-done command. `saturations_i` counts since then and since
/// `core_clear_o`, one cycle as a job starts: a counter that has saturated could not tell the next job's share.
module fluidnpu_data_plane #(
  parameter int unsigned TR = 64,
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned BMax = 4,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WordBits = 16,    // of a word: 16 or 8 (ADR 75)
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned OutWords = 4,
  parameter int unsigned InWords = 8,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  parameter int unsigned Layers = 2,
  parameter int unsigned BuildId = 0,
  parameter int unsigned PortBytes = 16,
  parameter int unsigned MaxBurst = 16,
  parameter int unsigned LineWords = 16,
  parameter int unsigned Sets = 64,
  parameter int unsigned PoolWindows = 0,  // of `fluidnpu_output_pool`; 0: no layer's outputs pass a pool
  parameter int unsigned PoolRows = 0,
  parameter bit Activation = 1'b0,         // outputs can pass an activation unit (ADR 69)
  parameter bit ActivationDsp = 1'b0,      // whose multipliers are DSPs
  parameter int unsigned FilterKernel = 0,    // taps a side of `fluidnpu_output_filter` at most; 0: there is none
  parameter int unsigned FilterWindows = 0,
  parameter int unsigned FilterRows = 0,
  parameter int unsigned FilterDeepRows = 0,
  parameter int unsigned FilterWeights = 0,   // rows of a bank
  parameter bit FilterActivation = 1'b0,      // and a unit behind it
  parameter bit UltraBuffer = 1'b0,        // the input buffer in UltraRAM: UltraScale+ only
  parameter int unsigned QueueBeats = 128, // port words asked for and not yet used, for each master
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth,
  localparam int unsigned CommandBits = fluidnpu_formats_pkg::CoreCommandWireBits
) (
  input  logic                               clk_i,                   // clock
  input  logic                               rst_ni,                  // reset, synchronous
  output logic                               irq_o,                   // the interrupt
  // AXI4-Lite
  input  logic [11:0]                        s_axil_awaddr,           // register to write
  input  logic                               s_axil_awvalid,          // the write is asked for
  output logic                               s_axil_awready,          // and is taken
  input  logic [31:0]                        s_axil_wdata,            // its new value
  input  logic [3:0]                         s_axil_wstrb,            // all bytes, or the write is refused
  input  logic                               s_axil_wvalid,           // the value is there
  output logic                               s_axil_wready,           // and is taken
  output logic [1:0]                         s_axil_bresp,            // how the write went
  output logic                               s_axil_bvalid,           // that answer is there
  input  logic                               s_axil_bready,           // and is taken
  input  logic [11:0]                        s_axil_araddr,           // register to read
  input  logic                               s_axil_arvalid,          // the read is asked for
  output logic                               s_axil_arready,          // and is taken
  output logic [31:0]                        s_axil_rdata,            // the register's value
  output logic [1:0]                         s_axil_rresp,            // how the read went
  output logic                               s_axil_rvalid,           // the answer is there
  input  logic                               s_axil_rready,           // and is taken
  // m0: program and weights
  output logic [AddrWidth-1:0]               m0_axi_araddr,           // first byte of a burst to read
  output logic [7:0]                         m0_axi_arlen,            // its words, less one
  output logic [2:0]                         m0_axi_arsize,           // log2 of the bytes of a word
  output logic [1:0]                         m0_axi_arburst,          // INCR
  output logic                               m0_axi_arvalid,          // the burst is asked for
  input  logic                               m0_axi_arready,          // and is taken
  input  logic [PortBytes*8-1:0]             m0_axi_rdata,            // a word read
  input  logic [1:0]                         m0_axi_rresp,            // how its access went
  input  logic                               m0_axi_rlast,            // it is the last of its burst
  input  logic                               m0_axi_rvalid,           // the word is there
  output logic                               m0_axi_rready,           // and is taken
  // m1: inputs
  output logic [AddrWidth-1:0]               m1_axi_araddr,           // first byte of a burst to read
  output logic [7:0]                         m1_axi_arlen,            // its words, less one
  output logic [2:0]                         m1_axi_arsize,           // log2 of the bytes of a word
  output logic [1:0]                         m1_axi_arburst,          // INCR
  output logic                               m1_axi_arvalid,          // the burst is asked for
  input  logic                               m1_axi_arready,          // and is taken
  input  logic [PortBytes*8-1:0]             m1_axi_rdata,            // a word read
  input  logic [1:0]                         m1_axi_rresp,            // how its access went
  input  logic                               m1_axi_rlast,            // it is the last of its burst
  input  logic                               m1_axi_rvalid,           // the word is there
  output logic                               m1_axi_rready,           // and is taken
  // m2: residuals, constants, outputs
  output logic [AddrWidth-1:0]               m2_axi_araddr,           // first byte of a burst to read
  output logic [7:0]                         m2_axi_arlen,            // its words, less one
  output logic [2:0]                         m2_axi_arsize,           // log2 of the bytes of a word
  output logic [1:0]                         m2_axi_arburst,          // INCR
  output logic                               m2_axi_arvalid,          // the burst is asked for
  input  logic                               m2_axi_arready,          // and is taken
  input  logic [PortBytes*8-1:0]             m2_axi_rdata,            // a word read
  input  logic [1:0]                         m2_axi_rresp,            // how its access went
  input  logic                               m2_axi_rlast,            // it is the last of its burst
  input  logic                               m2_axi_rvalid,           // the word is there
  output logic                               m2_axi_rready,           // and is taken
  output logic [AddrWidth-1:0]               m2_axi_awaddr,           // first byte of a burst to write
  output logic [7:0]                         m2_axi_awlen,            // its words, less one
  output logic [2:0]                         m2_axi_awsize,           // log2 of the bytes of a word
  output logic [1:0]                         m2_axi_awburst,          // INCR
  output logic                               m2_axi_awvalid,          // the burst is asked for
  input  logic                               m2_axi_awready,          // and is taken
  output logic [PortBytes*8-1:0]             m2_axi_wdata,            // a word to write
  output logic [PortBytes-1:0]               m2_axi_wstrb,            // which of its bytes are written
  output logic                               m2_axi_wlast,            // it is the last of its burst
  output logic                               m2_axi_wvalid,           // the word is there
  input  logic                               m2_axi_wready,           // and is taken
  input  logic [1:0]                         m2_axi_bresp,            // how a burst of writes went
  input  logic                               m2_axi_bvalid,           // that answer is there
  output logic                               m2_axi_bready,           // and is taken
  // core
  output logic                               core_rst_no,             // reset of the core, low while a job is dropped
  output logic                               core_clear_o,            // the core's count begins again
  input  logic [31:0]                        saturations_i,           // words that a word could not hold, since then
  output logic [CommandBits-1:0]             m_axis_cmd_tdata,        // a command
  output logic                               m_axis_cmd_tvalid,       // is there
  input  logic                               m_axis_cmd_tready,       // and is taken
  output logic [InWords*WordBits-1:0]        m_axis_input_tdata,      // an input beat
  output logic                               m_axis_input_tvalid,     // is there
  input  logic                               m_axis_input_tready,     // and is taken
  output logic [WeightSlots*TP*WordBits-1:0] m_axis_weight_tdata,     // a weight beat
  output logic                               m_axis_weight_tvalid,    // is there
  input  logic                               m_axis_weight_tready,    // and is taken
  output logic [OutWords*WordBits-1:0]       m_axis_residual_tdata,   // a residual beat
  output logic                               m_axis_residual_tvalid,  // is there
  input  logic                               m_axis_residual_tready,  // and is taken
  input  logic [OutWords*WordBits-1:0]       s_axis_output_tdata,     // an output beat
  input  logic                               s_axis_output_tvalid,    // is there
  output logic                               s_axis_output_tready     // and is taken
);
  localparam int unsigned PortWords = PortBytes / (WordBits / 8);
  localparam int unsigned BeatCount = $clog2(InWords + 1);
  localparam int unsigned CommandQueue = 4;

  if (InWords < (Stackable ? 2 * TP : TP)) begin : gen_illegal_input
    $fatal(1, "InWords must be at least 2 * TP when stackable, else TP in %m");
  end
  if (WeightSlots < 1 || OutWords < 1) begin : gen_illegal_beat
    $fatal(1, "WeightSlots and OutWords must be at least 1 in %m");
  end
  if (WordBits != 8 && WordBits != 16) begin : gen_illegal_word
    $fatal(1, "WordBits must be 8 or 16 in %m");
  end
  if (AccBits < 32 || AccBits > 48) begin : gen_illegal_acc
    $fatal(1, "AccBits must lie in 32..48 in %m");
  end

  // -- registers and engine
  fluidnpu_formats_pkg::control_t    control;
  fluidnpu_formats_pkg::fbcb_write_t fbcb_write;
  fluidnpu_formats_pkg::settings_t   settings;
  fluidnpu_formats_pkg::batch_t      batch;
  fluidnpu_formats_pkg::progress_t   progress;
  fluidnpu_formats_pkg::fault_t      error, seq_error, refused;
  logic        load_refused, watchdog, idle;
  logic [31:0] slot_mask;
  logic [15:0] fetch_layer;
  logic        layer_ends, counted_valid;
  logic [15:0] counters_layer;
  logic [2:0]  counter;
  logic [31:0] counted, loaded;
  logic        flush, run_n, masters_idle;

  // Each part has registers of reset of its own: of the NPU's, or of the job's, which a flush resets as well. A
  // flush is far longer than they are late, and START reaches no part sooner than its reset has gone.
  typedef enum logic [2:0] {OfRegs, OfEngine, OfSequencer, OfM0, OfM1, OfM2Read, OfM2Write, Parts} part_e;
  typedef enum logic [3:0] {
    OfPlanner, OfQueues, OfDescriptors, OfWeights, OfWindows, OfSegments, OfRows, OfResiduals, OfPieces, OfUnit, OfPool, OfOutputs,
    OfCore, OfFilter, OfBehind, JobParts
  } job_part_e;
  localparam int unsigned JobResets = 32'(JobParts) - (FilterKernel != 0 ? 0 : 2);
  logic [Parts-1:0]    part_rst_n;
  logic [JobResets-1:0] job_rst_n;
  common_reset #(.Copies(32'(Parts))) part_reset (.clk_i, .rst_ni, .rst_no(part_rst_n));
  common_reset #(.Copies(JobResets)) job_reset (.clk_i, .rst_ni(run_n), .rst_no(job_rst_n));
  assign core_rst_no = job_rst_n[OfCore];

  always_comb begin
    error.valid = seq_error.valid || refused.valid || load_refused;
    error.cause = seq_error.valid ? seq_error.cause : refused.valid ? refused.cause : fluidnpu_registers_pkg::CauseBadFbcb;
  end
  assign idle  = !progress.busy && masters_idle;
  assign run_n = rst_ni && !flush;
  assign core_clear_o = control.start && !progress.start_refused;
  logic [31:0] saturations;  // of the core and of what its outputs pass

  fluidnpu_regs #(
    .BMax(BMax), .TP(TP), .TC(TC), .Stackable(Stackable), .Split(Split), .BuildId(BuildId)
  ) regs (
    .clk_i, .rst_ni(part_rst_n[OfRegs]),
    .s_axil_awaddr, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid, .s_axil_wready,
    .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arvalid, .s_axil_arready, .s_axil_rdata,
    .s_axil_rresp, .s_axil_rvalid, .s_axil_rready, .irq_o,
    .control_o(control), .fbcb_o(fbcb_write), .fbcb_loaded_i(loaded), .slot_mask_o(slot_mask), .settings_o(settings),
    .counters_layer_o(counters_layer), .counter_o(counter), .counted_i(counted), .counted_valid_i(counted_valid),
    .idle_i(idle), .progress_i(progress), .error_i(error), .watchdog_o(watchdog), .batch_i(batch), .saturations_i(saturations)
  );

  // -- counters
  logic [fluidnpu_registers_pkg::Counters-1:0][1:0] events;
  always_comb begin
    events = '0;
    events[fluidnpu_registers_pkg::CountCycles]      = 2'd1;
    events[fluidnpu_registers_pkg::CountInputs]      = 2'(m_axis_input_tvalid && m_axis_input_tready);
    events[fluidnpu_registers_pkg::CountStarved]     = 2'(!m_axis_input_tvalid && m_axis_input_tready);
    events[fluidnpu_registers_pkg::CountBlocked]     = 2'(m_axis_input_tvalid && !m_axis_input_tready);
    events[fluidnpu_registers_pkg::CountReadBeats]   = 2'(m0_axi_rvalid && m0_axi_rready) + 2'(m1_axi_rvalid && m1_axi_rready)
        + 2'(m2_axi_rvalid && m2_axi_rready);
    events[fluidnpu_registers_pkg::CountReadBursts]  = 2'(m0_axi_arvalid && m0_axi_arready) + 2'(m1_axi_arvalid && m1_axi_arready)
        + 2'(m2_axi_arvalid && m2_axi_arready);
    events[fluidnpu_registers_pkg::CountWriteBeats]  = 2'(m2_axi_wvalid && m2_axi_wready);
    events[fluidnpu_registers_pkg::CountWriteBursts] = 2'(m2_axi_awvalid && m2_axi_awready);
  end

  fluidnpu_counters #(.Layers(Layers)) counters (
    .clk_i, .rst_ni(part_rst_n[OfRegs]), .start_i(core_clear_o), .layer_ends_i(layer_ends), .layer_i(progress.layer), .events_i(events),
    .shown_layer_i(counters_layer), .shown_counter_i(counter), .shown_o(counted),
    .settled_o(counted_valid)
  );

  logic lookup, pool, plan_valid;
  fluidnpu_formats_pkg::plan_t layer_plan;

  fluidnpu_batching_engine #(.BMax(BMax), .Layers(Layers), .TR(TR), .Stackable(Stackable), .Split(Split)) engine (
    .clk_i, .rst_ni(part_rst_n[OfEngine]), .control_i(control), .busy_i(progress.busy), .mask_i(slot_mask),
    .refused_o(refused), .batch_o(batch), .load_i(fbcb_write), .load_refused_o(load_refused), .loaded_o(loaded),
    .lookup_i(lookup), .lookup_layer_i(fetch_layer), .lookup_pool_i(pool), .plan_valid_o(plan_valid), .plan_o(layer_plan)
  );

  // -- sequencer
  logic fetch, fetch_next, fetched, plan, plan_whole, pieces_loaded, plan_done, layer_start, command_valid, command_ready, written, stuck;
  logic m0_error, m1_error, m2_read_error, m2_write_error, read_error, misaligned;
  fluidnpu_formats_pkg::fault_t plan_refused;
  fluidnpu_formats_pkg::descriptor_t descriptor;
  logic [BMax-1:0][AddrWidth-1:0] slot;
  fluidnpu_formats_pkg::layer_t planned, running;
  fluidnpu_formats_pkg::tile_t command;

  // Told a cycle late, in which no layer can end that waits for the answer.
  logic m0_error_q, m1_error_q, m2_read_error_q, m2_write_error_q;
  always_ff @(posedge clk_i) begin
    {m0_error_q, m1_error_q, m2_read_error_q, m2_write_error_q} <= {m0_error, m1_error, m2_read_error, m2_write_error};
  end
  assign read_error = m0_error_q || m1_error_q || m2_read_error_q;
  assign misaligned = settings.program_base[5:0] != '0 || settings.weights_base[5:0] != '0 || settings.slot_base[5:0] != '0 || settings.slot_bytes[5:0] != '0
      || settings.program_base[63:AddrWidth] != '0 || settings.weights_base[63:AddrWidth] != '0 || settings.slot_base[63:AddrWidth] != '0;

  fluidnpu_sequencer #(.TC(TC), .InWords(InWords), .WordBits(WordBits), .BMax(BMax)) sequencer (
    .clk_i, .rst_ni(part_rst_n[OfSequencer]), .control_i(control), .watchdog_i(watchdog), .read_error_i(read_error), .write_error_i(m2_write_error_q),
    .settings_i(settings), .misaligned_i(misaligned), .batch_i(batch), .progress_o(progress), .error_o(seq_error),
    .layer_ends_o(layer_ends), .fetch_layer_o(fetch_layer), .fetch_next_o(fetch_next), .fetch_o(fetch), .fetched_i(fetched), .lookup_o(lookup), .plan_valid_i(plan_valid), .plan_o(plan),
    .plan_done_i(plan_done), .plan_bad_i(plan_refused), .plan_layer_i(planned),
    .slot_o(slot), .layer_start_o(layer_start), .running_o(running), .command_valid_o(command_valid),
    .command_ready_i(command_ready), .command_o(command), .written_i(written), .stuck_i(stuck),
    .flush_o(flush), .masters_idle_i(masters_idle)
  );

  fluidnpu_planner #(
    .TP(TP), .TC(TC), .WeightSlots(WeightSlots), .OutWords(OutWords), .PortBytes(PortBytes), .WordBits(WordBits), .Split(Split), .Pools(PoolRows != 0),
    .Activation(Activation), .FilterKernel(FilterKernel), .FilterWeights(FilterWeights), .FilterActivation(FilterActivation)
  ) planner (
    .clk_i, .rst_ni(job_rst_n[OfPlanner]), .start_i(plan), .descriptor_i(descriptor), .b_act_i(batch.b_act), .pool_o(pool), .plan_i(layer_plan),
    .planned_o(plan_whole), .loaded_i(pieces_loaded), .done_o(plan_done),
    .bad_o(plan_refused), .layer_o(planned)
  );

  // -- commands to everyone at once
  localparam int unsigned TileBits = fluidnpu_formats_pkg::TileBits;
  logic cmd_ready, input_ready, output_ready, residual_ready, block_ready, unit_ready, filter_ready, pool_ready, give;
  logic input_valid, output_valid, residual_valid, block_valid, input_take, output_take, residual_take, block_take;
  fluidnpu_formats_pkg::tile_t input_command, output_command, residual_command;
  fluidnpu_formats_pkg::core_command_t core_command;

  assign command_ready = cmd_ready && input_ready && output_ready && residual_ready && block_ready && unit_ready && filter_ready && pool_ready;
  assign give          = command_valid && command_ready;
  always_comb begin
    core_command.mode           = running.mode;
    core_command.beats          = command.beats;
    core_command.lane1_beats    = command.lane1_beats;
    core_command.p_tiles        = running.p_tiles;
    core_command.cols           = command.cols;
    core_command.shift          = running.shift;
    core_command.residual_shift = running.residual_shift;
    core_command.has_residual   = running.has_residual;
    core_command.last           = command.layer_last;
    core_command.lo             = running.lo;
    core_command.hi             = running.hi;
    core_command.residual_multiplier = running.residual_multiplier;
  end

  common_fifo #(.Width(CommandBits), .Depth(CommandQueue)) cmd_queue (
    .clk_i, .rst_ni(job_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(give), .ready_o(cmd_ready), .data_i(CommandBits'(core_command)),
    .valid_o(m_axis_cmd_tvalid), .ready_i(m_axis_cmd_tready), .data_o(m_axis_cmd_tdata), .level_o()
  );
  common_fifo #(.Width(TileBits), .Depth(CommandQueue)) input_queue (
    .clk_i, .rst_ni(job_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(give), .ready_o(input_ready), .data_i(command),
    .valid_o(input_valid), .ready_i(input_take), .data_o(input_command), .level_o()
  );
  common_fifo #(.Width(TileBits), .Depth(2 * CommandQueue)) output_queue (
    .clk_i, .rst_ni(job_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(give), .ready_o(output_ready), .data_i(command),
    .valid_o(output_valid), .ready_i(output_take), .data_o(output_command), .level_o()
  );
  common_fifo #(.Width(TileBits), .Depth(2 * CommandQueue)) residual_queue (
    .clk_i, .rst_ni(job_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(give && (running.has_residual || running.multiplies)), .ready_o(residual_ready), .data_i(command),
    .valid_o(residual_valid), .ready_i(residual_take), .data_o(residual_command), .level_o()
  );
  common_fifo #(.Width(1), .Depth(2)) block_queue (
    .clk_i, .rst_ni(job_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(give && command.block_first && !running.pool), .ready_o(block_ready),
    .data_i(1'b1), .valid_o(block_valid), .ready_i(block_take), .data_o(), .level_o()
  );

  // -- m0: descriptors and weights. The next layer's descriptor is asked for as a layer begins, before its
  // weights, and its words come before them; a layer ends when its weights are taken.
  logic m0_idle, m0_req_valid, m0_req_ready, m0_data_valid, m0_data_ready;
  logic [AddrWidth-1:0] m0_req_addr, d_addr, w_addr;
  logic [23:0] d_beats;
  logic [31:0] m0_req_beats, w_beats;
  logic [PortBytes*8-1:0] m0_data;
  logic d_valid, w_valid, d_take, w_take, weights_idle, d_turn, d_turn_q;

  assign d_turn       = fetch_next && (!fetch || d_valid);
  assign m0_req_valid = d_turn_q ? d_valid : w_valid;
  always_ff @(posedge clk_i) begin  // both have settled before they are asked for
    d_turn_q     <= run_n && d_turn;
    m0_req_addr  <= d_turn ? d_addr : w_addr;
    m0_req_beats <= d_turn ? 32'(d_beats) : w_beats;
    if (run_n && m0_req_valid) assert (m0_req_addr == (d_turn_q ? d_addr : w_addr) && m0_req_beats == (d_turn_q ? 32'(d_beats) : w_beats));
    if (run_n && d_valid) assert (d_turn_q);
  end
  assign m0_data_ready = fetch ? d_take : w_take;

  axi_read_master #(
    .AddrWidth(AddrWidth), .DataBytes(PortBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats), .BeatsWidth(32)
  ) m0 (
    .clk_i, .rst_ni(part_rst_n[OfM0]), .flush_i(flush), .idle_o(m0_idle), .error_o(m0_error), .inflight_o(), .pending_o(),
    .req_valid_i(m0_req_valid), .req_ready_o(m0_req_ready), .req_addr_i(m0_req_addr), .req_beats_i(m0_req_beats),
    .data_valid_o(m0_data_valid), .data_ready_i(m0_data_ready), .data_o(m0_data),
    .m_axi_araddr(m0_axi_araddr), .m_axi_arlen(m0_axi_arlen), .m_axi_arsize(m0_axi_arsize), .m_axi_arburst(m0_axi_arburst),
    .m_axi_arvalid(m0_axi_arvalid), .m_axi_arready(m0_axi_arready), .m_axi_rdata(m0_axi_rdata), .m_axi_rresp(m0_axi_rresp),
    .m_axi_rlast(m0_axi_rlast), .m_axi_rvalid(m0_axi_rvalid), .m_axi_rready(m0_axi_rready)
  );

  fluidnpu_descriptor_fetch #(.PortWords(PortBytes / 2)) descriptors (  // of 16 bits, whatever a word has
    .clk_i, .rst_ni(job_rst_n[OfDescriptors]), .fetch_i(fetch), .program_i(settings.program_base[AddrWidth-1:0]), .layer_i(fetch_layer),
    .fetched_o(fetched), .descriptor_o(descriptor), .fetch_valid_o(d_valid), .fetch_ready_i(m0_req_ready && d_turn_q), .fetch_addr_o(d_addr),
    .fetch_beats_o(d_beats), .data_valid_i(m0_data_valid && fetch), .data_ready_o(d_take), .data_i(m0_data)
  );

  fluidnpu_weight_streamer #(.TP(TP), .WeightSlots(WeightSlots), .PortWords(PortWords), .WordBits(WordBits)) weights (
    .clk_i, .rst_ni(job_rst_n[OfWeights]), .image_i(settings.weights_base[AddrWidth-1:0]), .layer_i(running), .block_valid_i(block_valid),
    .block_ready_o(block_take), .idle_o(weights_idle), .fetch_valid_o(w_valid), .fetch_ready_i(m0_req_ready && !d_turn_q), .fetch_addr_o(w_addr),
    .fetch_beats_o(w_beats), .data_valid_i(m0_data_valid && !fetch), .data_ready_o(w_take), .data_i(m0_data),
    .beat_valid_o(m_axis_weight_tvalid), .beat_ready_i(m_axis_weight_tready), .beat_o(m_axis_weight_tdata)
  );

  // -- m1: inputs
  logic m1_idle, row_valid, row_ready, row_data_valid, row_data_ready, segment_valid, segment_ready;
  logic second_valid, second_ready;
  fluidnpu_formats_pkg::segment_t segment, second;
  logic [AddrWidth-1:0] row_addr;
  logic [31:0] oldest;
  logic [23:0] row_beats;
  logic [BMax-1:0][31:0] base;
  logic [PortBytes*8-1:0] row_data;
  logic [BeatCount-1:0] segment_words, segment_place, second_words, second_place;
  logic cut_valid, cut_ready, cut_two;
  logic [31:0] cut_oldest;
  logic [BeatCount-1:0] cut_words, cut_place, cut_second_words, cut_second_place;
  fluidnpu_formats_pkg::parts_t cut_parts, cut_second_parts;

  fluidnpu_window_segments #(.TP(TP), .InWords(InWords), .BMax(BMax), .PortBytes(PortBytes)) windows (
    .clk_i, .rst_ni(job_rst_n[OfWindows]), .layer_start_i(layer_start), .base_i(base), .layer_i(running), .command_valid_i(input_valid),
    .command_ready_o(input_take), .command_i(input_command), .segment_valid_o(cut_valid), .segment_ready_i(cut_ready),
    .segment_parts_o(cut_parts), .segment_words_o(cut_words), .segment_place_o(cut_place),
    .second_valid_o(cut_two), .second_ready_i(1'b1), .second_parts_o(cut_second_parts), .second_words_o(cut_second_words),
    .second_place_o(cut_second_place), .oldest_o(cut_oldest)
  );

  fluidnpu_segment_queue #(.CountWidth(BeatCount), .WordBits(WordBits)) segments (
    .clk_i, .rst_ni(job_rst_n[OfSegments]), .layer_start_i(layer_start), .span_i(running.span), .oldest_i(cut_oldest),
    .segment_valid_i(cut_valid), .segment_ready_o(cut_ready), .segment_parts_i(cut_parts), .segment_words_i(cut_words),
    .segment_place_i(cut_place), .second_valid_i(cut_two), .second_parts_i(cut_second_parts),
    .second_words_i(cut_second_words), .second_place_i(cut_second_place),
    .oldest_o(oldest), .segment_valid_o(segment_valid), .segment_ready_i(segment_ready), .segment_o(segment),
    .segment_words_o(segment_words), .segment_place_o(segment_place), .second_valid_o(second_valid), .second_ready_i(second_ready),
    .second_o(second), .second_words_o(second_words), .second_place_o(second_place)
  );

  always_ff @(posedge clk_i) begin  // no window is cut before the places of the samples have settled
    for (int unsigned i = 0; i < BMax; i++) if (run_n && cut_valid) assert (base[i] == i * running.sample_pitch);
  end

  fluidnpu_row_buffer #(
    .BMax(BMax), .InWords(InWords), .PortWords(PortWords), .WordBits(WordBits), .LineWords(LineWords), .Sets(Sets), .Ultra(UltraBuffer)
  ) rows (
    .clk_i, .rst_ni(job_rst_n[OfRows]), .layer_start_i(layer_start), .slot_i(slot), .b_act_i(batch.b_act), .layer_i(running), .base_o(base),
    .oldest_i(oldest), .stuck_o(stuck), .segment_valid_i(segment_valid), .segment_ready_o(segment_ready),
    .segment_i(segment), .segment_words_i(segment_words), .segment_place_i(segment_place),
    .second_valid_i(second_valid), .second_ready_o(second_ready), .second_i(second), .second_words_i(second_words), .second_place_i(second_place),
    .fetch_valid_o(row_valid), .fetch_ready_i(row_ready), .fetch_addr_o(row_addr), .fetch_beats_o(row_beats),
    .data_valid_i(row_data_valid), .data_ready_o(row_data_ready), .data_i(row_data),
    .beat_valid_o(m_axis_input_tvalid), .beat_ready_i(m_axis_input_tready), .beat_o(m_axis_input_tdata)
  );

  axi_read_master #(.AddrWidth(AddrWidth), .DataBytes(PortBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) m1 (
    .clk_i, .rst_ni(part_rst_n[OfM1]), .flush_i(flush), .idle_o(m1_idle), .error_o(m1_error), .inflight_o(), .pending_o(),
    .req_valid_i(row_valid), .req_ready_o(row_ready), .req_addr_i(row_addr), .req_beats_i(row_beats),
    .data_valid_o(row_data_valid), .data_ready_i(row_data_ready), .data_o(row_data),
    .m_axi_araddr(m1_axi_araddr), .m_axi_arlen(m1_axi_arlen), .m_axi_arsize(m1_axi_arsize), .m_axi_arburst(m1_axi_arburst),
    .m_axi_arvalid(m1_axi_arvalid), .m_axi_arready(m1_axi_arready), .m_axi_rdata(m1_axi_rdata), .m_axi_rresp(m1_axi_rresp),
    .m_axi_rlast(m1_axi_rlast), .m_axi_rvalid(m1_axi_rvalid), .m_axi_rready(m1_axi_rready)
  );

  // -- m2: residuals, constants of what outputs pass, outputs
  logic m2_read_idle, m2_write_idle, r_valid, r_ready, r_data_valid, r_data_ready, o_valid, o_ready, layer_done;
  logic m2_req_valid, m2_req_ready, m2_data_valid, m2_data_ready, residual_beat_valid, residual_beat_ready;
  logic [AddrWidth-1:0] m2_req_addr, r_addr, o_addr;
  logic [23:0] m2_req_beats, r_beats;
  logic [PortBytes*8-1:0] m2_data, o_data;
  logic [PortBytes-1:0] o_strb;

  fluidnpu_residual_reader #(.BMax(BMax), .OutWords(OutWords), .PortWords(PortWords), .WordBits(WordBits), .Spreads(Activation)) residuals (
    .clk_i, .rst_ni(job_rst_n[OfResiduals]), .layer_start_i(layer_start), .slot_i(slot), .layer_i(running), .command_valid_i(residual_valid),
    .command_ready_o(residual_take), .command_i(residual_command), .fetch_valid_o(r_valid), .fetch_ready_i(r_ready),
    .fetch_addr_o(r_addr), .fetch_beats_o(r_beats), .data_valid_i(r_data_valid), .data_ready_o(r_data_ready), .data_i(m2_data),
    .beat_valid_o(residual_beat_valid), .beat_ready_i(residual_beat_ready), .beat_o(m_axis_residual_tdata)
  );

  axi_read_master #(.AddrWidth(AddrWidth), .DataBytes(PortBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) m2_read (
    .clk_i, .rst_ni(part_rst_n[OfM2Read]), .flush_i(flush), .idle_o(m2_read_idle), .error_o(m2_read_error), .inflight_o(), .pending_o(),
    .req_valid_i(m2_req_valid), .req_ready_o(m2_req_ready), .req_addr_i(m2_req_addr), .req_beats_i(m2_req_beats),
    .data_valid_o(m2_data_valid), .data_ready_i(m2_data_ready), .data_o(m2_data),
    .m_axi_araddr(m2_axi_araddr), .m_axi_arlen(m2_axi_arlen), .m_axi_arsize(m2_axi_arsize), .m_axi_arburst(m2_axi_arburst),
    .m_axi_arvalid(m2_axi_arvalid), .m_axi_arready(m2_axi_arready), .m_axi_rdata(m2_axi_rdata), .m_axi_rresp(m2_axi_rresp),
    .m_axi_rlast(m2_axi_rlast), .m_axi_rvalid(m2_axi_rvalid), .m_axi_rready(m2_axi_rready)
  );

  // Constants come between residuals.
  localparam int unsigned WeightsWidth = FilterWeights > 1 ? $clog2(FilterWeights) : 1;
  logic bank, write, write_behind, write_outer, weights_write;
  logic [OutWords-1:0] write_lanes, weights_lanes;
  logic [$clog2(fluidnpu_pkg::PieceRows)-1:0] write_row;
  logic [31:0] write_piece;
  logic [WeightsWidth-1:0] weights_row;
  logic [2:0] weights_pair;
  logic [PortWords*WordBits-1:0] weights_words;
  if (Activation || FilterKernel != 0) begin : gen_pieces
    logic turn, reads, p_valid, p_ready;
    logic [AddrWidth-1:0] p_addr;
    logic [23:0] p_beats;

    fluidnpu_piece_loader #(.OutWords(OutWords), .PortWords(PortWords), .WordBits(WordBits), .FilterWeights(FilterWeights)) pieces (
      .clk_i, .rst_ni(job_rst_n[OfPieces]), .image_i(settings.weights_base[AddrWidth-1:0]), .layer_i(planned), .planned_i(plan_whole),
      .loaded_o(pieces_loaded), .turn_o(turn), .reads_o(reads), .quiet_i(m2_read_idle && !m2_data_valid), .fetch_valid_o(p_valid),
      .fetch_ready_i(m2_req_ready), .fetch_addr_o(p_addr), .fetch_beats_o(p_beats), .data_valid_i(m2_data_valid),
      .data_ready_o(p_ready), .data_i(m2_data), .bank_o(bank), .write_o(write), .write_behind_o(write_behind),
      .write_lanes_o(write_lanes), .write_row_o(write_row), .write_outer_o(write_outer), .write_piece_o(write_piece),
      .weights_o(weights_write), .weights_lanes_o(weights_lanes), .weights_row_o(weights_row), .weights_pair_o(weights_pair),
      .weights_words_o(weights_words)
    );
    assign m2_req_valid  = turn ? p_valid : r_valid;
    assign m2_req_addr   = turn ? p_addr : r_addr;
    assign m2_req_beats  = turn ? p_beats : r_beats;
    assign r_ready       = m2_req_ready && !turn;
    assign r_data_valid  = m2_data_valid && !reads;
    assign m2_data_ready = reads ? p_ready : r_data_ready;
  end else begin : gen_no_pieces
    assign pieces_loaded = 1'b1;
    assign m2_req_valid  = r_valid;
    assign m2_req_addr   = r_addr;
    assign m2_req_beats  = r_beats;
    assign r_ready       = m2_req_ready;
    assign r_data_valid  = m2_data_valid;
    assign m2_data_ready = r_data_ready;
    assign {bank, write, write_behind, write_outer, write_lanes, write_row, write_piece} = '0;
    assign {weights_write, weights_lanes, weights_row, weights_pair, weights_words} = '0;
  end

  // Outputs pass the unit on their way to memory. Residuals go to it where it multiplies by them, else to the core.
  logic activated_valid, activated_ready;
  logic [OutWords*WordBits-1:0] activated;
  logic [31:0] unit_saturations, filter_saturations, behind_saturations;
  if (Activation) begin : gen_activation
    logic unit_valid, unit_take, multiplies_q, factors_ready, factor_valid, factor_ready;
    logic [OutWords*WordBits-1:0] factor;
    fluidnpu_formats_pkg::tile_t unit_command;
    always_ff @(posedge clk_i) multiplies_q <= running.multiplies;  // a layer's residuals come later
    assign m_axis_residual_tvalid = residual_beat_valid && !multiplies_q;
    assign residual_beat_ready    = multiplies_q ? factors_ready : m_axis_residual_tready;

    common_skid #(.Width(OutWords * WordBits)) factors (  // else the read master would wait for the core in the same cycle
      .clk_i, .rst_ni(job_rst_n[OfUnit]), .valid_i(residual_beat_valid && multiplies_q), .ready_o(factors_ready),
      .data_i(m_axis_residual_tdata), .valid_o(factor_valid), .ready_i(factor_ready), .data_o(factor)
    );

    common_fifo #(.Width(TileBits), .Depth(2 * CommandQueue)) unit_queue (
      .clk_i, .rst_ni(job_rst_n[OfUnit]), .clear_i(1'b0), .valid_i(give && running.activation != fluidnpu_formats_pkg::ActivationNone),
      .ready_o(unit_ready), .data_i(command), .valid_o(unit_valid), .ready_i(unit_take), .data_o(unit_command), .level_o()
    );
    fluidnpu_activation #(.OutWords(OutWords), .WordBits(WordBits), .Dsp(ActivationDsp)) unit (
      .clk_i, .rst_ni(job_rst_n[OfUnit]), .layer_start_i(layer_start), .layer_i(running), .command_valid_i(unit_valid),
      .command_ready_o(unit_take), .command_i(unit_command), .beat_valid_i(s_axis_output_tvalid),
      .beat_ready_o(s_axis_output_tready), .beat_i(s_axis_output_tdata), .used_i('0), .residual_valid_i(factor_valid),
      .residual_ready_o(factor_ready), .residual_i(factor), .given_valid_o(activated_valid),
      .given_ready_i(activated_ready), .given_o(activated), .bank_i(bank), .write_i(write), .write_lanes_i(write_lanes),
      .write_row_i(write_row), .write_outer_i(write_outer), .write_piece_i(write_piece), .clear_i(core_clear_o),
      .saturations_o(unit_saturations)
    );
  end else begin : gen_no_activation
    assign unit_ready             = 1'b1;
    assign unit_saturations       = '0;
    assign m_axis_residual_tvalid = residual_beat_valid;
    assign residual_beat_ready    = m_axis_residual_tready;
    assign activated_valid        = s_axis_output_tvalid;
    assign activated              = s_axis_output_tdata;
    assign s_axis_output_tready   = activated_ready;
  end

  // The filter's layer is over when the filter has visited all of its positions, those too at which nothing leaves.
  logic filtered_valid, filtered_ready, filter_idle;
  logic [OutWords*WordBits-1:0] filtered;
  if (FilterKernel != 0) begin : gen_filter
    localparam int unsigned WordPairs = PortBytes / 4;
    logic filter_valid, filter_take, filter_busy, summed_valid, summed_ready;
    logic [OutWords*WordBits-1:0] summed;
    logic [OutWords-1:0] summed_lanes;
    logic [OutWords*32-1:0] weights_pairs;
    fluidnpu_formats_pkg::tile_t filter_command;

    for (genvar i = 0; i < OutWords; i++) begin : gen_pair
      assign weights_pairs[32*i+:32] = weights_words[32*(i%WordPairs)+:32];
    end
    common_fifo #(.Width(TileBits), .Depth(2 * CommandQueue)) filter_queue (
      .clk_i, .rst_ni(job_rst_n[OfFilter]), .clear_i(1'b0), .valid_i(give && running.filter_kernel != '0), .ready_o(filter_ready), .data_i(command),
      .valid_o(filter_valid), .ready_i(filter_take), .data_o(filter_command), .level_o()
    );
    fluidnpu_output_filter #(
      .BMax(BMax), .OutWords(OutWords), .WordBits(WordBits), .Kernel(FilterKernel), .Windows(FilterWindows), .Rows(FilterRows), .DeepRows(FilterDeepRows),
      .Weights(FilterWeights)
    ) filter (
      .clk_i, .rst_ni(job_rst_n[OfFilter]), .layer_start_i(layer_start), .layer_i(running), .command_valid_i(filter_valid),
      .command_ready_o(filter_take), .command_i(filter_command), .beat_valid_i(activated_valid), .beat_ready_o(activated_ready),
      .beat_i(activated), .filtered_valid_o(summed_valid), .filtered_ready_i(summed_ready), .filtered_o(summed),
      .filtered_lanes_o(summed_lanes), .busy_o(filter_busy), .bank_i(bank), .write_i(weights_write), .write_lanes_i(weights_lanes),
      .write_pair_i(weights_pair), .write_row_i(weights_row), .write_pairs_i(weights_pairs), .clear_i(core_clear_o),
      .saturations_o(filter_saturations)
    );
    assign filter_idle = !filter_valid && !filter_busy;

    if (FilterActivation) begin : gen_behind
      fluidnpu_activation #(.OutWords(OutWords), .WordBits(WordBits), .Behind(1'b1), .Dsp(ActivationDsp)) unit (
        .clk_i, .rst_ni(job_rst_n[OfBehind]), .layer_start_i(layer_start), .layer_i(running), .command_valid_i(1'b0),
        .command_ready_o(), .command_i('0), .beat_valid_i(summed_valid), .beat_ready_o(summed_ready), .beat_i(summed),
        .used_i(summed_lanes), .residual_valid_i(1'b0), .residual_ready_o(), .residual_i('0), .given_valid_o(filtered_valid),
        .given_ready_i(filtered_ready), .given_o(filtered), .bank_i(bank), .write_i(write_behind), .write_lanes_i(write_lanes),
        .write_row_i(write_row), .write_outer_i(write_outer), .write_piece_i(write_piece), .clear_i(core_clear_o),
        .saturations_o(behind_saturations)
      );
    end else begin : gen_not_behind
      assign filtered_valid     = summed_valid;
      assign filtered           = summed;
      assign summed_ready       = filtered_ready;
      assign behind_saturations = '0;
    end
  end else begin : gen_no_filter
    assign filter_ready       = 1'b1;
    assign filter_idle        = 1'b1;
    assign filtered_valid     = activated_valid;
    assign filtered           = activated;
    assign activated_ready    = filtered_ready;
    assign filter_saturations = '0;
    assign behind_saturations = '0;
  end

  if (Activation || FilterKernel != 0) begin : gen_saturations
    logic [33:0] all;  // told a cycle late; outputs that saturated are in memory far later
    assign all = 34'(saturations_i) + 34'(unit_saturations) + 34'(filter_saturations) + 34'(behind_saturations);
    always_ff @(posedge clk_i) saturations <= core_clear_o ? '0 : all[33:32] != '0 ? '1 : all[31:0];
  end else begin : gen_no_saturations
    assign saturations = saturations_i;
  end

  logic pooled_valid, pooled_ready;
  logic [OutWords*WordBits-1:0] pooled;
  if (PoolRows != 0) begin : gen_pool
    logic pool_valid, pool_take;
    fluidnpu_formats_pkg::tile_t pool_command;
    common_fifo #(.Width(TileBits), .Depth(2 * CommandQueue)) pool_queue (
      .clk_i, .rst_ni(job_rst_n[OfPool]), .clear_i(1'b0), .valid_i(give && running.pool_kernel != '0), .ready_o(pool_ready), .data_i(command),
      .valid_o(pool_valid), .ready_i(pool_take), .data_o(pool_command), .level_o()
    );
    fluidnpu_output_pool #(.BMax(BMax), .OutWords(OutWords), .WordBits(WordBits), .Windows(PoolWindows), .Rows(PoolRows)) pool_unit (
      .clk_i, .rst_ni(job_rst_n[OfPool]), .layer_start_i(layer_start), .layer_i(running), .command_valid_i(pool_valid),
      .command_ready_o(pool_take), .command_i(pool_command), .beat_valid_i(filtered_valid),
      .beat_ready_o(filtered_ready), .beat_i(filtered), .pooled_valid_o(pooled_valid),
      .pooled_ready_i(pooled_ready), .pooled_o(pooled)
    );
  end else begin : gen_no_pool
    assign pool_ready      = 1'b1;
    assign pooled_valid    = filtered_valid;
    assign pooled          = filtered;
    assign filtered_ready  = pooled_ready;
  end

  fluidnpu_output_writer #(.BMax(BMax), .OutWords(OutWords), .PortWords(PortWords), .WordBits(WordBits), .Pools(PoolRows != 0), .Filters(FilterKernel != 0)) outputs (
    .clk_i, .rst_ni(job_rst_n[OfOutputs]), .layer_start_i(layer_start), .slot_i(slot), .layer_i(running), .command_valid_i(output_valid),
    .command_ready_o(output_take), .command_i(output_command), .layer_done_o(layer_done), .beat_valid_i(pooled_valid),
    .beat_ready_o(pooled_ready), .beat_i(pooled), .word_valid_o(o_valid), .word_ready_i(o_ready),
    .word_addr_o(o_addr), .word_data_o(o_data), .word_strb_o(o_strb)
  );

  axi_write_master #(.AddrWidth(AddrWidth), .DataBytes(PortBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) m2_write (
    .clk_i, .rst_ni(part_rst_n[OfM2Write]), .flush_i(flush), .close_i(layer_done), .idle_o(m2_write_idle), .error_o(m2_write_error),
    .outstanding_o(), .unsent_o(), .word_valid_i(o_valid), .word_ready_o(o_ready), .word_addr_i(o_addr), .word_data_i(o_data),
    .word_strb_i(o_strb),
    .m_axi_awaddr(m2_axi_awaddr), .m_axi_awlen(m2_axi_awlen), .m_axi_awsize(m2_axi_awsize), .m_axi_awburst(m2_axi_awburst),
    .m_axi_awvalid(m2_axi_awvalid), .m_axi_awready(m2_axi_awready), .m_axi_wdata(m2_axi_wdata), .m_axi_wstrb(m2_axi_wstrb),
    .m_axi_wlast(m2_axi_wlast), .m_axi_wvalid(m2_axi_wvalid), .m_axi_wready(m2_axi_wready), .m_axi_bresp(m2_axi_bresp),
    .m_axi_bvalid(m2_axi_bvalid), .m_axi_bready(m2_axi_bready)
  );

  assign written      = layer_done && m2_write_idle && weights_idle && filter_idle;
  assign masters_idle = m0_idle && m1_idle && m2_read_idle && m2_write_idle;
endmodule
