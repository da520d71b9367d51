/// Runs a job: for each layer its descriptor, its plan, then every (row block, group, column tile) as a
/// command.
///
/// Descriptor and plan of a layer are made while the one before it runs, the first ones while the slots are
/// looked at. A layer begins only when all outputs of the one before it are in memory, and what is wrong with
/// its plan is told then. A layer that the one before it has computed has no commands. An error, the watchdog or a
/// soft reset ends the job: `flush_o` is held until every master is idle. Order of commands: `hls.core.tiles`.
module fluidnpu_sequencer #(
  parameter int unsigned TC = 8,
  parameter int unsigned InWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned BMax = 4,
  parameter int unsigned FlushCycles = 16  // the core's reset is held at least so long
) (
  input  logic                                         clk_i,            // clock
  input  logic                                         rst_ni,           // reset, synchronous
  // from the registers
  input  fluidnpu_formats_pkg::control_t               control_i,        // START and SOFT_RESET
  input  logic                                         watchdog_i,       // the job takes longer than it may
  input  logic                                         read_error_i,     // a read came back with an error
  input  logic                                         write_error_i,    // a write came back with an error
  input  fluidnpu_formats_pkg::settings_t              settings_i,       // of the job
  input  logic                                         misaligned_i,     // a base is no multiple of 64 bytes, or out of reach
  input  fluidnpu_formats_pkg::batch_t                 batch_i,          // the active set
  // to the registers
  output fluidnpu_formats_pkg::progress_t              progress_o,       // of the job
  output fluidnpu_formats_pkg::fault_t                 error_o,          // something is wrong
  output logic                                         layer_ends_o,     // its last cycle
  // descriptor, FBCB, plan
  output logic [15:0]                                  fetch_layer_o,    // the layer to be fetched, or to be fetched next
  output logic                                         fetch_next_o,     // fetch_o of the next cycle
  output logic                                         fetch_o,          // a descriptor is wanted
  input  logic                                         fetched_i,        // it has come
  output logic                                         lookup_o,         // asks the FBCB for the plan
  input  logic                                         plan_valid_i,     // the plan is there
  output logic                                         plan_o,           // the planner begins
  input  logic                                         plan_done_i,      // the layer is planned
  input  fluidnpu_formats_pkg::fault_t                 plan_bad_i,       // or cannot be
  input  fluidnpu_formats_pkg::layer_t                 plan_layer_i,     // that layer
  // to the streams
  output logic [BMax-1:0][fluidnpu_pkg::AddrWidth-1:0] slot_o,           // where each active slot begins
  output logic                                         layer_start_o,    // a layer begins
  output fluidnpu_formats_pkg::layer_t                 running_o,        // that layer
  output logic                                         command_valid_o,  // a command is there
  input  logic                                         command_ready_i,  // and is taken by all
  output fluidnpu_formats_pkg::tile_t                  command_o,        // that command
  input  logic                                         written_i,        // every output of the layer is in memory
  input  logic                                         stuck_i,          // the layer's row blocks do not fit the input buffer
  // end of a job by force
  output logic                                         flush_o,          // everyone forgets the job, while high
  input  logic                                         masters_idle_i    // no master has anything under way
);
  typedef enum logic [2:0] {Idle, Slots, Await, Begin, Commands, Drain, Flush} state_e;
  typedef enum logic [2:0] {Rest, Fetch, Lookup, Plan, Planned, Refused} ahead_e;  // of the layer that begins next
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1;
  localparam int unsigned Narrow = TC / 2 > 0 ? TC / 2 : 1;
  localparam int unsigned ByteBits = $clog2(WordBits / 8);

  if (FlushCycles > 31 || 2 * TC > 4095 || InWords > 4095) begin : gen_illegal
    $fatal(1, "FlushCycles must lie in 0..31, and a column tile must have at most 4095 columns in %m");
  end

  state_e      state_q;
  ahead_e      ahead_q;
  logic [15:0] layer_q, last_q, fetch_layer_q;
  logic [4:0]  slot_q;     // slot looked at
  logic [4:0]  sample_q;   // samples found
  logic [fluidnpu_pkg::AddrWidth-1:0] slot_addr_q;
  logic [4:0]  hold_q;
  fluidnpu_formats_pkg::layer_t running_q;

  // Refusals of START
  logic       busy, start_refused;
  logic [7:0] start_cause;
  always_comb begin
    start_cause = fluidnpu_registers_pkg::CauseNone;
    if (busy) start_cause = fluidnpu_registers_pkg::CauseBusy;
    else if (batch_i.b_act == '0) start_cause = fluidnpu_registers_pkg::CauseEmptyBatch;
    else if (settings_i.first_layer > settings_i.last_layer || settings_i.last_layer >= settings_i.layers) start_cause = fluidnpu_registers_pkg::CauseBadLayerRange;
    else if (misaligned_i) start_cause = fluidnpu_registers_pkg::CauseBadDescriptor;
  end
  assign start_refused = control_i.start && start_cause != fluidnpu_registers_pkg::CauseNone;
  assign busy          = state_q != Idle;

  // Causes that end a job by force; of several in one cycle the first of this order is told.
  logic job_error, plan_refused;
  assign plan_refused = state_q == Await && ahead_q == Refused;
  logic [7:0] job_cause;
  always_comb begin
    job_error = 1'b0;
    job_cause = fluidnpu_registers_pkg::CauseNone;
    if (state_q != Idle && state_q != Flush) begin
      if (read_error_i) begin
        job_error = 1'b1;
        job_cause = fluidnpu_registers_pkg::CauseBusRead;
      end else if (write_error_i) begin
        job_error = 1'b1;
        job_cause = fluidnpu_registers_pkg::CauseBusWrite;
      end else if (watchdog_i) begin
        job_error = 1'b1;
        job_cause = fluidnpu_registers_pkg::CauseWatchdog;
      end else if (plan_refused) begin
        job_error = 1'b1;
        job_cause = plan_bad_i.cause;
      end else if (stuck_i) begin
        job_error = 1'b1;
        job_cause = fluidnpu_registers_pkg::CauseBadFbcb;
      end
    end
  end
  always_comb begin
    error_o.valid = start_refused || job_error;
    error_o.cause = job_error ? job_cause : start_cause;
  end

  // Loop over row blocks, groups, column tiles; what a block takes of each lane is found out a block ahead.
  logic [31:0] behind0_q, behind1_q, next0, next1;  // beats behind this block
  logic [15:0] beats_q, lane1_q;
  logic [15:0] group_q, first_q;
  logic [31:0] group_in_q, group_out_q;
  logic [15:0] tile_columns, remaining;
  logic [15:0] next_beats;
  logic        block_open_q, last_tile, last_group, last_block, issued, more0, more1;

  always_comb begin
    unique case (running_q.mode)
      fluidnpu_formats_pkg::ModeNormal: tile_columns = 16'(TC);
      fluidnpu_formats_pkg::ModeSplit:  tile_columns = 16'(2 * TC);
      fluidnpu_formats_pkg::ModeWide, fluidnpu_formats_pkg::ModeLanes: tile_columns = 16'(Narrow);
      default:                          tile_columns = 16'(InWords);
    endcase
    remaining  = running_q.columns - first_q;
    last_tile  = remaining <= tile_columns;
    last_group = group_q + 16'd1 == running_q.groups;
    last_block = behind0_q == '0;
    next0      = state_q == Begin ? running_q.beats0 : behind0_q;
    next1      = state_q == Begin ? running_q.beats1 : behind1_q;
    // No difference or comparison waits for another.
    more0      = next0 > 32'(running_q.block);
    more1      = next1 > next0 || next1 > 32'(running_q.block);
    next_beats = more0 ? running_q.block : next0[15:0];
  end

  assign command_valid_o = state_q == Commands;
  assign issued          = command_valid_o && command_ready_i;

  always_comb begin
    command_o.beats       = beats_q;
    command_o.lane1_beats = lane1_q;
    command_o.cols        = last_tile ? remaining[11:0] : tile_columns[11:0];
    command_o.in_shift    = running_q.pool ? 32'(first_q) << ByteBits : group_in_q;
    command_o.out_shift   = group_out_q + (32'(first_q) << ByteBits);
    command_o.block_first = !block_open_q;
    command_o.block_last  = last_tile && last_group;
    command_o.layer_last  = last_tile && last_group && last_block;
  end

  // Found out a step ahead: many wait for it that the next state is one of these. Until a layer begins, its
  // constants follow the plan.
  logic fetch_q, flush_q, fetch_next, forced, looks_ahead, slots_end, layer_ends;
  (* max_fanout = 64 *) logic await_q;
  assign fetch_next_o  = fetch_next;
  assign fetch_o       = fetch_q;
  assign fetch_layer_o = fetch_layer_q;
  assign layer_ends_o  = layer_ends && !forced;
  assign layer_start_o = state_q == Begin && !running_q.merged;
  assign running_o     = running_q;
  assign flush_o       = flush_q;
  assign lookup_o      = ahead_q == Fetch && fetched_i;
  assign plan_o        = ahead_q == Lookup && plan_valid_i;

  always_comb begin
    progress_o.busy          = busy;
    progress_o.done          = layer_ends && layer_q == last_q && !job_error && !control_i.soft_reset;
    progress_o.start_refused = start_refused;
    progress_o.layer         = layer_q;
  end

  assign forced      = job_error || control_i.soft_reset;
  assign looks_ahead = (state_q == Slots && slot_q == 5'd1) || (state_q == Begin && layer_q != last_q);
  assign slots_end   = state_q == Slots && slot_q == 5'(fluidnpu_pkg::MaxSlots - 1);
  assign layer_ends  = state_q == Drain && written_i;
  assign fetch_next  = !forced && (looks_ahead || (ahead_q == Fetch && !fetched_i));
  always_ff @(posedge clk_i) begin
    fetch_q <= rst_ni && fetch_next;
    flush_q <= rst_ni && (forced || (state_q == Flush && (hold_q != '0 || !masters_idle_i)));
    await_q <= rst_ni && !forced && (slots_end || (layer_ends && layer_q != last_q) || (state_q == Await && ahead_q != Planned));
    if (await_q) running_q <= plan_layer_i;
  end

  always_ff @(posedge clk_i) begin
    case (state_q)
      Idle: begin
        if (control_i.start && !start_refused) begin
          state_q     <= Slots;
          layer_q     <= settings_i.first_layer;
          fetch_layer_q <= settings_i.first_layer;
          last_q      <= settings_i.last_layer;
          slot_q      <= '0;
          sample_q    <= '0;
          slot_addr_q <= fluidnpu_pkg::AddrWidth'(settings_i.slot_base);
        end
      end
      Slots: begin  // addresses of the active samples, in ascending slot number
        slot_addr_q <= slot_addr_q + fluidnpu_pkg::AddrWidth'(settings_i.slot_bytes);
        slot_q      <= slot_q + 5'd1;
        if (batch_i.active[slot_q]) begin
          slot_o[sample_q[SampleWidth-1:0]] <= slot_addr_q;
          sample_q <= sample_q + 5'd1;
        end
        if (slots_end) state_q <= Await;
      end
      Await: if (ahead_q == Planned) state_q <= Begin;
      Begin: begin
        state_q      <= running_q.merged ? Drain : Commands;
        group_q      <= '0;
        first_q      <= '0;
        group_in_q   <= '0;
        group_out_q  <= '0;
        block_open_q <= 1'b0;
      end
      Commands: begin
        if (issued) begin
          block_open_q <= 1'b1;
          first_q      <= first_q + tile_columns;
          if (last_tile) begin
            first_q     <= '0;
            group_q     <= group_q + 16'd1;
            group_in_q  <= group_in_q + (32'(running_q.group_words) << ByteBits);
            group_out_q <= group_out_q + (32'(running_q.columns) << ByteBits);
            if (last_group) begin
              group_q      <= '0;
              group_in_q   <= '0;
              group_out_q  <= '0;
              block_open_q <= 1'b0;
              if (last_block) state_q <= Drain;
            end
          end
        end
      end
      Drain: begin
        if (layer_ends) begin
          layer_q <= layer_q + 16'd1;
          state_q <= Await;
          if (layer_q == last_q) begin
            layer_q <= layer_q;
            state_q <= Idle;
          end
        end
      end
      Flush: begin
        if (hold_q != '0) hold_q <= hold_q - 5'd1;
        else if (masters_idle_i) state_q <= Idle;
      end
      default: state_q <= Idle;
    endcase
    case (ahead_q)
      Rest: if (looks_ahead) ahead_q <= Fetch;
      Fetch: begin
        if (fetched_i) begin
          ahead_q       <= Lookup;
          fetch_layer_q <= fetch_layer_q + 16'd1;
        end
      end
      Lookup: if (plan_valid_i) ahead_q <= Plan;
      Plan: begin
        if (plan_bad_i.valid) ahead_q <= Refused;
        else if (plan_done_i) ahead_q <= Planned;
      end
      Planned: if (state_q == Await) ahead_q <= Rest;
      default: ;
    endcase
    if (state_q == Begin || (issued && last_tile && last_group)) begin
      beats_q   <= next_beats;
      lane1_q   <= more1 ? next_beats : next1[15:0];
      behind0_q <= more0 ? next0 - 32'(running_q.block) : '0;
      behind1_q <= !more1 ? '0 : more0 ? next1 - 32'(running_q.block) : next1 - next0;
    end
    if (forced) begin
      state_q <= Flush;
      ahead_q <= Rest;
      hold_q  <= 5'(FlushCycles);
    end
    if (!rst_ni) begin  // of the others each is set before its use
      state_q <= Idle;
      ahead_q <= Rest;
      layer_q <= '0;  // is shown in ERROR
      hold_q  <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (command_valid_o) assert (beats_q != '0 && lane1_q <= beats_q && command_o.cols != '0);
      assert (hold_q <= 5'(FlushCycles));
      if (fetch_o) assert (fetch_layer_q == (state_q == Slots || state_q == Await ? layer_q : layer_q + 16'd1));
      assert (fetch_q == (ahead_q == Fetch) && flush_q == (state_q == Flush) && await_q == (state_q == Await));
      if (command_valid_o) assert (first_q < running_q.columns && group_q < running_q.groups);
      if (state_q == Begin) assert (running_q.beats0 != '0 && running_q.block != '0 && running_q.columns != '0 && running_q.groups != '0);
    end
  end
endmodule
