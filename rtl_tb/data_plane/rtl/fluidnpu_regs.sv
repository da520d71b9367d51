/// The register file on AXI4-Lite: every offset, field and access class comes from the generated package.
///
/// A read or write of no register, of a read-only one (write), unaligned or with partial strobes answers
/// SLVERR and does nothing; every access is answered. START, EXIT, MERGE and SOFT_RESET leave as one-cycle
/// pulses, the last a cycle late, from a register. While busy, a setting that the job works with is not
/// written, and that is an error (BUSY). The counters of a layer are read in `CounterWait` cycles more than
/// other registers, and some twenty more behind the end of a layer. ERROR keeps the first error since the
/// last SOFT_RESET or START of an idle NPU; `start_refused`
/// (same cycle) sets it again. `saturations_i` counts from zero in each job; the count of a dropped job stays
/// when the core forgets it.
module fluidnpu_regs #(
  parameter int unsigned AddrWidth = 12,
  parameter int unsigned BMax = 4,
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  parameter int unsigned BuildId = 0
) (
  input  logic                              clk_i,             // clock
  input  logic                              rst_ni,            // reset, synchronous
  // AXI4-Lite
  input  logic [AddrWidth-1:0]              s_axil_awaddr,     // register to write
  input  logic                              s_axil_awvalid,    // the write is asked for
  output logic                              s_axil_awready,    // and is taken
  input  logic [31:0]                       s_axil_wdata,      // its new value
  input  logic [3:0]                        s_axil_wstrb,      // all bytes, or the write is refused
  input  logic                              s_axil_wvalid,     // the value is there
  output logic                              s_axil_wready,     // and is taken
  output logic [1:0]                        s_axil_bresp,      // how the write went
  output logic                              s_axil_bvalid,     // that answer is there
  input  logic                              s_axil_bready,     // and is taken
  input  logic [AddrWidth-1:0]              s_axil_araddr,     // register to read
  input  logic                              s_axil_arvalid,    // the read is asked for
  output logic                              s_axil_arready,    // and is taken
  output logic [31:0]                       s_axil_rdata,      // the register's value
  output logic [1:0]                        s_axil_rresp,      // how the read went
  output logic                              s_axil_rvalid,     // the answer is there
  input  logic                              s_axil_rready,     // and is taken
  output logic                              irq_o,             // the interrupt
  // commands
  output fluidnpu_formats_pkg::control_t    control_o,         // what is written to CTRL; SOFT_RESET a cycle late
  output fluidnpu_formats_pkg::fbcb_write_t fbcb_o,            // FBCB_DATA is written
  input  logic [31:0]                       fbcb_loaded_i,     // the word at the index a cycle ago
  // settings
  output logic [31:0]                       slot_mask_o,       // slots that EXIT and MERGE speak of
  output fluidnpu_formats_pkg::settings_t   settings_o,        // of a job
  // counters of a layer: a number is there CounterWait cycles behind its place, if `counted_valid_i` holds
  output logic [15:0]                       counters_layer_o,  // place of a number: its layer
  output logic [2:0]                        counter_o,         // and its counter
  input  logic [31:0]                       counted_i,         // that number
  input  logic                              counted_valid_i,   // the counts of every layer that has ended are there
  // state and events
  input  logic                              idle_i,            // no job runs and every master is idle
  input  fluidnpu_formats_pkg::progress_t   progress_i,        // of the job
  input  fluidnpu_formats_pkg::fault_t      error_i,           // something is wrong
  output logic                              watchdog_o,        // the job takes longer than it may
  input  fluidnpu_formats_pkg::batch_t      batch_i,           // the active set
  input  logic [31:0]                       saturations_i      // words of the job that int16 could not hold
);
  localparam logic [1:0] Okay = 2'b00;
  localparam logic [1:0] SlvErr = 2'b10;
  localparam int unsigned CounterWait = 3;
  localparam int unsigned WordBits = $clog2(fluidnpu_registers_pkg::WindowBytes / 4);

  if (AddrWidth < $clog2(fluidnpu_registers_pkg::WindowBytes)) begin : gen_illegal
    $fatal(1, "AddrWidth must reach every register in %m");
  end

  function automatic logic legal(logic [AddrWidth-1:0] address, logic [fluidnpu_registers_pkg::WindowBytes/4-1:0] which);
    legal = address[1:0] == 2'b00 && 32'(address) < fluidnpu_registers_pkg::WindowBytes && which[address[WordBits+1:2]];
  endfunction

  // Settings
  logic [1:0]  irq_enable_q, irq_status_q;
  logic [31:0] slot_mask_q, program_lo_q, program_hi_q, weights_lo_q, weights_hi_q, base_lo_q, base_hi_q, bytes_q;
  logic [31:0] watchdog_q, fbcb_index_q;
  logic [15:0] first_q, last_q, layers_q, counters_layer_q;
  // State
  logic        done_q, error_q;
  logic [7:0]  cause_q;
  logic [15:0] error_layer_q;
  logic [63:0] cycles_q;
  logic [31:0] saturations_q;

  logic        reset_q;

  // Write channel: both halves must be there, and the answer before must be gone. So settings and the active
  // set stand still in the cycle before a command, in which the engine finds its answer. In reset nothing is
  // taken: a host may ask sooner than the reset, which comes through registers, has gone.
  logic       write, write_ok, writes, settled;
  logic [7:0] waddr;
  logic       bvalid_q;
  logic [1:0] bresp_q;

  assign write          = rst_ni && s_axil_awvalid && s_axil_wvalid && !bvalid_q;
  assign write_ok       = write && legal(s_axil_awaddr, fluidnpu_registers_pkg::Writable) && s_axil_wstrb == 4'hF;
  assign waddr          = 8'(s_axil_awaddr);
  assign settled        = write_ok && progress_i.busy && fluidnpu_registers_pkg::Settled[waddr[WordBits+1:2]];
  assign writes         = write_ok && !settled;
  assign s_axil_awready = write;
  assign s_axil_wready  = write;
  assign s_axil_bvalid  = bvalid_q;
  assign s_axil_bresp   = bresp_q;

  // One command a write: SOFT_RESET beats the others, several others are refused as a busy NPU refuses them.
  logic control, reset_bit, start_bit, exit_bit, merge_bit, several;
  assign control      = write_ok && waddr == fluidnpu_registers_pkg::CtrlOffset;
  assign start_bit    = s_axil_wdata[fluidnpu_registers_pkg::CtrlStartLow];
  assign exit_bit     = s_axil_wdata[fluidnpu_registers_pkg::CtrlExitLow];
  assign merge_bit    = s_axil_wdata[fluidnpu_registers_pkg::CtrlMergeLow];
  assign several      = (start_bit && exit_bit) || (start_bit && merge_bit) || (exit_bit && merge_bit);
  assign reset_bit    = s_axil_wdata[fluidnpu_registers_pkg::CtrlSoftResetLow];
  always_comb begin
    control_o.soft_reset = reset_q;
    control_o.start      = control && !reset_bit && !several && start_bit;
    control_o.exit       = control && !reset_bit && !several && exit_bit;
    control_o.merge      = control && !reset_bit && !several && merge_bit;
    fbcb_o.valid = writes && waddr == fluidnpu_registers_pkg::FbcbDataOffset;
    fbcb_o.index = fbcb_index_q;
    fbcb_o.word  = s_axil_wdata;
    settings_o.first_layer  = first_q;
    settings_o.last_layer   = last_q;
    settings_o.layers       = layers_q;
    settings_o.program_base = {program_hi_q, program_lo_q};
    settings_o.weights_base = {weights_hi_q, weights_lo_q};
    settings_o.slot_base    = {base_hi_q, base_lo_q};
    settings_o.slot_bytes   = bytes_q;
  end

  assign slot_mask_o = slot_mask_q;
  assign irq_o       = (irq_status_q & irq_enable_q) != '0;

  assign counters_layer_o = counters_layer_q;
  assign counter_o        = s_axil_araddr[4:2];

  logic error_set, conflict;
  assign conflict  = (control && !reset_bit && several) || settled;
  assign error_set = (error_i.valid || conflict) && (!error_q || (control_o.start && !progress_i.busy));

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      bvalid_q      <= 1'b0;
      bresp_q       <= Okay;
      irq_enable_q  <= '0;
      irq_status_q  <= '0;
      slot_mask_q   <= '0;
      first_q       <= '0;
      last_q        <= '0;
      layers_q      <= '0;
      program_lo_q  <= '0;
      program_hi_q  <= '0;
      weights_lo_q  <= '0;
      weights_hi_q  <= '0;
      base_lo_q     <= '0;
      base_hi_q     <= '0;
      bytes_q       <= '0;
      watchdog_q    <= '0;
      fbcb_index_q  <= '0;
      counters_layer_q <= '0;
      reset_q       <= 1'b0;
      done_q        <= 1'b0;
      error_q       <= 1'b0;
      cause_q       <= '0;
      error_layer_q <= '0;
      cycles_q      <= '0;
      saturations_q <= '0;
    end else begin
      reset_q <= control && reset_bit;
      if (s_axil_bready) bvalid_q <= 1'b0;
      if (write) begin
        bvalid_q <= 1'b1;
        bresp_q  <= write_ok ? Okay : SlvErr;
      end
      if (writes) begin
        case (waddr)
          fluidnpu_registers_pkg::IrqEnableOffset:  irq_enable_q <= s_axil_wdata[1:0];
          fluidnpu_registers_pkg::IrqStatusOffset:  irq_status_q <= irq_status_q & ~s_axil_wdata[1:0];
          fluidnpu_registers_pkg::SlotMaskOffset:   slot_mask_q <= s_axil_wdata;
          fluidnpu_registers_pkg::FirstLayerOffset: first_q <= s_axil_wdata[fluidnpu_registers_pkg::FirstLayerIndexLow+:fluidnpu_registers_pkg::FirstLayerIndexWidth];
          fluidnpu_registers_pkg::LastLayerOffset:  last_q <= s_axil_wdata[fluidnpu_registers_pkg::LastLayerIndexLow+:fluidnpu_registers_pkg::LastLayerIndexWidth];
          fluidnpu_registers_pkg::LayersOffset:     layers_q <= s_axil_wdata[fluidnpu_registers_pkg::LayersCountLow+:fluidnpu_registers_pkg::LayersCountWidth];
          fluidnpu_registers_pkg::ProgramLoOffset:  program_lo_q <= s_axil_wdata;
          fluidnpu_registers_pkg::ProgramHiOffset:  program_hi_q <= s_axil_wdata;
          fluidnpu_registers_pkg::WeightsLoOffset:  weights_lo_q <= s_axil_wdata;
          fluidnpu_registers_pkg::WeightsHiOffset:  weights_hi_q <= s_axil_wdata;
          fluidnpu_registers_pkg::SlotBaseLoOffset: base_lo_q <= s_axil_wdata;
          fluidnpu_registers_pkg::SlotBaseHiOffset: base_hi_q <= s_axil_wdata;
          fluidnpu_registers_pkg::SlotBytesOffset:  bytes_q <= s_axil_wdata;
          fluidnpu_registers_pkg::WatchdogOffset:   watchdog_q <= s_axil_wdata;
          fluidnpu_registers_pkg::FbcbIndexOffset:  fbcb_index_q <= s_axil_wdata;
          fluidnpu_registers_pkg::CountersLayerOffset: counters_layer_q <= s_axil_wdata[fluidnpu_registers_pkg::CountersLayerIndexLow+:fluidnpu_registers_pkg::CountersLayerIndexWidth];
          default: ;
        endcase
      end
      if (write_ok && waddr == fluidnpu_registers_pkg::FbcbDataOffset) fbcb_index_q <= fbcb_index_q + 32'd1;
      // Events win over a clear in the same cycle: none is lost.
      if (progress_i.done) begin
        done_q          <= 1'b1;
        irq_status_q[fluidnpu_registers_pkg::IrqStatusDoneLow] <= 1'b1;
      end
      if (control_o.soft_reset || (control_o.start && !progress_i.busy)) begin
        done_q  <= 1'b0;
        error_q <= 1'b0;
        cause_q <= '0;
        error_layer_q <= '0;
      end
      if (error_set && !control_o.soft_reset) begin
        error_q       <= 1'b1;
        cause_q       <= error_i.valid ? error_i.cause : fluidnpu_registers_pkg::CauseBusy;
        error_layer_q <= progress_i.layer;
        irq_status_q[fluidnpu_registers_pkg::IrqStatusErrorLow] <= 1'b1;
      end
      if (control_o.start && !progress_i.start_refused) cycles_q <= '0;
      else if (progress_i.busy) cycles_q <= cycles_q + 64'd1;
      if (control_o.start && !progress_i.start_refused) saturations_q <= '0;
      else if ((progress_i.busy || progress_i.done) && saturations_i > saturations_q) saturations_q <= saturations_i;
    end
  end

  logic late_q;  // a cycle late itself
  always_ff @(posedge clk_i) begin
    late_q <= rst_ni && progress_i.busy && watchdog_q != '0 && (cycles_q[63:32] != '0 || cycles_q[31:0] >= watchdog_q);
  end
  assign watchdog_o = late_q;

  // Read channel
  logic        read, rvalid_q;
  logic [31:0] rdata_d, rdata_q;
  logic [1:0]  rresp_q;
  logic        counter, came;
  logic [$clog2(CounterWait+1)-1:0] waited_q;  // cycles in which a counter has been asked for

  assign counter        = 32'(s_axil_araddr) - 32'(fluidnpu_registers_pkg::CountersOffset) < 4 * fluidnpu_registers_pkg::Counters;
  assign came           = !counter || 32'(waited_q) == CounterWait;
  always_ff @(posedge clk_i) begin
    if (!rst_ni || !s_axil_arvalid || !counter || read || !counted_valid_i) waited_q <= '0;
    else if (!came) waited_q <= waited_q + 1'b1;
  end

  assign read           = rst_ni && s_axil_arvalid && (!rvalid_q || s_axil_rready) && came;
  assign s_axil_arready = read;
  assign s_axil_rvalid  = rvalid_q;
  assign s_axil_rdata   = rdata_q;
  assign s_axil_rresp   = rresp_q;

  always_comb begin
    rdata_d = '0;
    case (8'(s_axil_araddr))
      fluidnpu_registers_pkg::StatusOffset: begin
        rdata_d[fluidnpu_registers_pkg::StatusIdleLow]  = idle_i;
        rdata_d[fluidnpu_registers_pkg::StatusBusyLow]  = progress_i.busy;
        rdata_d[fluidnpu_registers_pkg::StatusDoneLow]  = done_q;
        rdata_d[fluidnpu_registers_pkg::StatusErrorLow] = error_q;
        rdata_d[fluidnpu_registers_pkg::StatusBActLow+:fluidnpu_registers_pkg::StatusBActWidth]   = 8'(batch_i.b_act);
        rdata_d[fluidnpu_registers_pkg::StatusLayerLow+:fluidnpu_registers_pkg::StatusLayerWidth] = progress_i.layer;
      end
      fluidnpu_registers_pkg::IrqEnableOffset: rdata_d = 32'(irq_enable_q);
      fluidnpu_registers_pkg::IrqStatusOffset: rdata_d = 32'(irq_status_q);
      fluidnpu_registers_pkg::ErrorOffset: begin
        rdata_d[fluidnpu_registers_pkg::ErrorCauseLow+:fluidnpu_registers_pkg::ErrorCauseWidth] = cause_q;
        rdata_d[fluidnpu_registers_pkg::ErrorLayerLow+:fluidnpu_registers_pkg::ErrorLayerWidth] = error_layer_q;
      end
      fluidnpu_registers_pkg::BuildIdOffset: rdata_d = BuildId;
      fluidnpu_registers_pkg::ShapeOffset: begin
        rdata_d[fluidnpu_registers_pkg::ShapeBMaxLow+:fluidnpu_registers_pkg::ShapeBMaxWidth] =
            fluidnpu_registers_pkg::ShapeBMaxWidth'(BMax);
        rdata_d[fluidnpu_registers_pkg::ShapeVersionLow+:fluidnpu_registers_pkg::ShapeVersionWidth] =
            fluidnpu_registers_pkg::ShapeVersionWidth'(fluidnpu_registers_pkg::Version);
        rdata_d[fluidnpu_registers_pkg::ShapeTPLow+:fluidnpu_registers_pkg::ShapeTPWidth] =
            fluidnpu_registers_pkg::ShapeTPWidth'(TP);
        rdata_d[fluidnpu_registers_pkg::ShapeTCLow+:fluidnpu_registers_pkg::ShapeTCWidth] =
            fluidnpu_registers_pkg::ShapeTCWidth'(TC);
        rdata_d[fluidnpu_registers_pkg::ShapeStackableLow] = Stackable;
        rdata_d[fluidnpu_registers_pkg::ShapeSplitLow]     = Split;
      end
      fluidnpu_registers_pkg::SlotMaskOffset:    rdata_d = slot_mask_q;
      fluidnpu_registers_pkg::ActiveOffset:      rdata_d = batch_i.active;
      fluidnpu_registers_pkg::FirstLayerOffset:  rdata_d = 32'(first_q);
      fluidnpu_registers_pkg::LastLayerOffset:   rdata_d = 32'(last_q);
      fluidnpu_registers_pkg::LayersOffset:      rdata_d = 32'(layers_q);
      fluidnpu_registers_pkg::ProgramLoOffset:   rdata_d = program_lo_q;
      fluidnpu_registers_pkg::ProgramHiOffset:   rdata_d = program_hi_q;
      fluidnpu_registers_pkg::WeightsLoOffset:   rdata_d = weights_lo_q;
      fluidnpu_registers_pkg::WeightsHiOffset:   rdata_d = weights_hi_q;
      fluidnpu_registers_pkg::SlotBaseLoOffset:  rdata_d = base_lo_q;
      fluidnpu_registers_pkg::SlotBaseHiOffset:  rdata_d = base_hi_q;
      fluidnpu_registers_pkg::SlotBytesOffset:   rdata_d = bytes_q;
      fluidnpu_registers_pkg::WatchdogOffset:    rdata_d = watchdog_q;
      fluidnpu_registers_pkg::CyclesLoOffset:    rdata_d = cycles_q[31:0];
      fluidnpu_registers_pkg::CyclesHiOffset:    rdata_d = cycles_q[63:32];
      fluidnpu_registers_pkg::SaturationsOffset: rdata_d = saturations_q;
      fluidnpu_registers_pkg::FbcbIndexOffset:   rdata_d = fbcb_index_q;
      fluidnpu_registers_pkg::FbcbDataOffset:    rdata_d = fbcb_loaded_i;
      fluidnpu_registers_pkg::CountersLayerOffset: rdata_d = 32'(counters_layer_q);
      default: rdata_d = counter ? counted_i : '0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      rvalid_q <= 1'b0;
      rdata_q  <= '0;
      rresp_q  <= Okay;
    end else begin
      if (s_axil_rready) rvalid_q <= 1'b0;
      if (read) begin
        rvalid_q <= 1'b1;
        rdata_q  <= legal(s_axil_araddr, fluidnpu_registers_pkg::Exists) ? rdata_d : '0;
        rresp_q  <= legal(s_axil_araddr, fluidnpu_registers_pkg::Exists) ? Okay : SlvErr;
      end
    end
  end

  // Handshake rules of AXI: an answer stays until it is taken.
  logic       held_b_q, held_r_q;
  logic [1:0] held_bresp_q;
  logic [33:0] held_rdata_q;
  always_ff @(posedge clk_i) begin
    held_b_q     <= rst_ni && bvalid_q && !s_axil_bready;
    held_r_q     <= rst_ni && rvalid_q && !s_axil_rready;
    held_bresp_q <= bresp_q;
    held_rdata_q <= {rresp_q, rdata_q};
    if (rst_ni && held_b_q) assert (bvalid_q && bresp_q == held_bresp_q);
    if (rst_ni && held_r_q) assert (rvalid_q && {rresp_q, rdata_q} == held_rdata_q);
  end
endmodule
