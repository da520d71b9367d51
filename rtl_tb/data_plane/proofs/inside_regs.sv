// Inside fluidnpu_regs: AXI4-Lite from a slave's side. Every access is taken at once unless an answer waits (a
// write: or leaves),
// answered in the next cycle, once, and the answer stays; what is illegal answers SLVERR and changes no
// setting. DONE, ERROR and the events change by their rules alone, which know nothing of illegal writes
// either; the counters count the job's cycles and its saturations.
`ifdef FORMAL
  logic past_q = 1'b0, running_q = 1'b0, past_write_q = 1'b0, past_read_q = 1'b0, past_ok_q = 1'b0, past_known_q = 1'b0, past_b_q, past_r_q;
  logic [511:0] past_settings_q;
  logic [511:0] settings;
  assign settings = 512'({irq_enable_q, slot_mask_q, program_lo_q, program_hi_q, weights_lo_q, weights_hi_q, base_lo_q, base_hi_q, bytes_q,
      watchdog_q, fbcb_index_q, first_q, last_q, layers_q, counters_layer_q});
  // What must stand there after this cycle.
  // A write that a running job refuses: the addresses that it works with, and its plans.
  logic held;
  assign held = progress_i.busy && write_ok && (32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::ProgramLoOffset)
      || 32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::ProgramHiOffset) || 32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::WeightsLoOffset)
      || 32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::WeightsHiOffset) || 32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::SlotBytesOffset)
      || 32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::FbcbDataOffset));
  logic reset_is_q = 1'b0;  // SOFT_RESET was written a cycle ago
  always_ff @(posedge clk_i) reset_is_q <= past_q && rst_ni && control && s_axil_wdata[fluidnpu_registers_pkg::CtrlSoftResetLow];
  logic        begins, fails, clears;  // a job or nothing at all from now on; the first error since; events are taken note of
  logic [1:0]  irq_d;
  logic        done_d, error_d;
  logic [7:0]  cause_d;
  logic [15:0] layer_d;
  logic [63:0] cycles_d;
  logic [31:0] saturations_d;
  assign begins  = control_o.soft_reset || (control_o.start && !progress_i.busy);
  assign fails   = (error_i.valid || (control && !reset_bit && 32'(start_bit) + 32'(exit_bit) + 32'(merge_bit) > 32'd1) || held) && !control_o.soft_reset && (!error_q || begins);
  assign clears  = write_ok && waddr == fluidnpu_registers_pkg::IrqStatusOffset;
  assign irq_d   = (irq_status_q & ~(clears ? s_axil_wdata[1:0] : 2'b00)) | {fails, progress_i.done};
  assign done_d  = (done_q || progress_i.done) && !begins;
  assign error_d = fails || (error_q && !begins);
  assign cause_d = fails ? (error_i.valid ? error_i.cause : fluidnpu_registers_pkg::CauseBusy) : begins ? '0 : cause_q;
  assign layer_d = fails ? progress_i.layer : begins ? '0 : error_layer_q;
  assign cycles_d = control_o.start && !progress_i.start_refused ? '0 : cycles_q + 64'(progress_i.busy);
  assign saturations_d = control_o.start && !progress_i.start_refused ? '0 : (progress_i.busy || progress_i.done) && saturations_i > saturations_q ? saturations_i : saturations_q;
  localparam int unsigned StateBits = 2 + 1 + 1 + 8 + 16 + 64 + 32;
  logic [StateBits-1:0] state, next_q;
  assign state = {irq_status_q, done_q, error_q, cause_q, error_layer_q, cycles_q, saturations_q};
  always_ff @(posedge clk_i) next_q <= {irq_d, done_d, error_d, cause_d, layer_d, cycles_d, saturations_d};

  logic late_is_q = 1'b0;
  always_ff @(posedge clk_i) late_is_q <= past_q && progress_i.busy && watchdog_q != '0 && cycles_q >= {32'd0, watchdog_q};

  // The state that a read must show.
  logic [31:0] shown_q;
  logic        shows_q = 1'b0;
  always_ff @(posedge clk_i) begin
    shows_q <= past_q && read;
    case (32'(s_axil_araddr))
      32'(fluidnpu_registers_pkg::StatusOffset):      shown_q <= {progress_i.layer, 3'd0, batch_i.b_act, 4'd0, error_q, done_q, progress_i.busy, idle_i};
      32'(fluidnpu_registers_pkg::IrqStatusOffset):   shown_q <= {30'd0, irq_status_q};
      32'(fluidnpu_registers_pkg::ErrorOffset):       shown_q <= {error_layer_q, 8'd0, cause_q};
      32'(fluidnpu_registers_pkg::ActiveOffset):      shown_q <= batch_i.active;
      32'(fluidnpu_registers_pkg::CyclesLoOffset):    shown_q <= cycles_q[31:0];
      32'(fluidnpu_registers_pkg::CyclesHiOffset):    shown_q <= cycles_q[63:32];
      32'(fluidnpu_registers_pkg::SaturationsOffset): shown_q <= saturations_q;
      32'(fluidnpu_registers_pkg::IrqEnableOffset):   shown_q <= {30'd0, irq_enable_q};
      32'(fluidnpu_registers_pkg::SlotMaskOffset):    shown_q <= slot_mask_o;
      32'(fluidnpu_registers_pkg::FirstLayerOffset):  shown_q <= {16'd0, settings_o.first_layer};
      32'(fluidnpu_registers_pkg::LastLayerOffset):   shown_q <= {16'd0, settings_o.last_layer};
      32'(fluidnpu_registers_pkg::LayersOffset):      shown_q <= {16'd0, settings_o.layers};
      32'(fluidnpu_registers_pkg::ProgramLoOffset):   shown_q <= settings_o.program_base[31:0];
      32'(fluidnpu_registers_pkg::ProgramHiOffset):   shown_q <= settings_o.program_base[63:32];
      32'(fluidnpu_registers_pkg::WeightsLoOffset):   shown_q <= settings_o.weights_base[31:0];
      32'(fluidnpu_registers_pkg::WeightsHiOffset):   shown_q <= settings_o.weights_base[63:32];
      32'(fluidnpu_registers_pkg::SlotBaseLoOffset):  shown_q <= settings_o.slot_base[31:0];
      32'(fluidnpu_registers_pkg::SlotBaseHiOffset):  shown_q <= settings_o.slot_base[63:32];
      32'(fluidnpu_registers_pkg::SlotBytesOffset):   shown_q <= settings_o.slot_bytes;
      32'(fluidnpu_registers_pkg::WatchdogOffset):    shown_q <= watchdog_q;
      32'(fluidnpu_registers_pkg::FbcbIndexOffset):   shown_q <= fbcb_o.index;
      32'(fluidnpu_registers_pkg::CountersLayerOffset): shown_q <= {16'd0, counters_layer_o};
      32'(fluidnpu_registers_pkg::FbcbDataOffset):    shown_q <= fbcb_loaded_i;
      default: begin
        shown_q <= counted_i;
        if (!counter || s_axil_araddr[1:0] != '0) shows_q <= 1'b0;
      end
    endcase
  end

  // A setting is what was written last, at its own place; the FBCB's index counts its words.
  logic [511:0] written_d, written_q;
  always_comb begin
    written_d = settings;
    if (write_ok && 32'(s_axil_awaddr) == 32'(fluidnpu_registers_pkg::FbcbDataOffset)) written_d[64+:32] = fbcb_index_q + 32'd1;
    if (write_ok && !held) begin
      case (32'(s_axil_awaddr))
        32'(fluidnpu_registers_pkg::LayersOffset):     written_d[16+:16] = s_axil_wdata[15:0];
        32'(fluidnpu_registers_pkg::LastLayerOffset):  written_d[32+:16] = s_axil_wdata[15:0];
        32'(fluidnpu_registers_pkg::FirstLayerOffset): written_d[48+:16] = s_axil_wdata[15:0];
        32'(fluidnpu_registers_pkg::FbcbIndexOffset):  written_d[64+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::WatchdogOffset):   written_d[96+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::SlotBytesOffset):  written_d[128+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::SlotBaseHiOffset): written_d[160+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::SlotBaseLoOffset): written_d[192+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::WeightsHiOffset):  written_d[224+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::WeightsLoOffset):  written_d[256+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::ProgramHiOffset):  written_d[288+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::ProgramLoOffset):  written_d[320+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::SlotMaskOffset):   written_d[352+:32] = s_axil_wdata;
        32'(fluidnpu_registers_pkg::IrqEnableOffset):  written_d[384+:2] = s_axil_wdata[1:0];
        32'(fluidnpu_registers_pkg::CountersLayerOffset): written_d[0+:16] = s_axil_wdata[15:0];
        default: ;
      endcase
    end
  end
  always_ff @(posedge clk_i) written_q <= written_d;

  // Cycles in which a counter has been asked for, as many as it takes to come.
  logic [1:0] asked_q = '0;
  always_ff @(posedge clk_i) asked_q <= !past_q || !s_axil_arvalid || !counter || read || !counted_valid_i ? 2'd0 : asked_q == 2'd3 ? 2'd3 : asked_q + 2'd1;
  logic         past_busy_q = 1'b0;
  logic [159:0] past_held_q;
  always_ff @(posedge clk_i) begin
    past_busy_q <= past_q && progress_i.busy;
    past_held_q <= {settings_o.program_base, settings_o.weights_base, settings_o.slot_bytes};
  end

  always_ff @(posedge clk_i) begin
    past_q          <= 1'b1;
    running_q       <= past_q;
    past_write_q    <= past_q && rst_ni && write;
    past_ok_q       <= write_ok;
    past_read_q     <= past_q && rst_ni && read;
    past_known_q    <= legal(s_axil_araddr, fluidnpu_registers_pkg::Exists);
    past_b_q        <= past_q && bvalid_q && !s_axil_bready;
    past_r_q        <= past_q && rvalid_q && !s_axil_rready;
    past_settings_q <= settings;
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      // Nothing hangs: both halves of a write, or a read, are taken in the cycle in which they are there.
      if (s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid) assert (s_axil_awready && s_axil_wready);
      if (s_axil_arvalid && (!s_axil_rvalid || s_axil_rready)) assert (s_axil_arready || (counter && (asked_q < 2'd3)));
      if (s_axil_arready) assert (!counter || asked_q == 2'd3);
      assert (2'(waited_q) == asked_q);
      assert (!s_axil_awready || (s_axil_awvalid && s_axil_wvalid));
      assert (s_axil_awready == s_axil_wready);
      // One answer for each access and none for anything else.
      assert (s_axil_bvalid == (past_write_q || past_b_q));
      assert (s_axil_rvalid == (past_read_q || past_r_q));
      if (past_write_q) assert (s_axil_bresp == (past_ok_q ? Okay : SlvErr));
      if (past_read_q) assert (s_axil_rresp == (past_known_q ? Okay : SlvErr) && (past_known_q || s_axil_rdata == '0));
      // Settings stand still before a command; of the active set engine_proof.sv says more.
      if (control_o.start || control_o.exit || control_o.merge || fbcb_o.valid) assert (!past_write_q && (settings == past_settings_q || !running_q));
      // What is illegal does nothing.
      if (running_q && !past_ok_q) assert (settings == past_settings_q);
      if (running_q) assert (state == next_q && settings == written_q);
      if (!running_q) assert (settings == '0);
      // The watchdog ends a job that has run for its cycles, also one that had when it was set, in the next cycle.
      assert (watchdog_o == late_is_q);
      if (!running_q) assert (state == '0);
      if (shows_q) assert (s_axil_rdata == shown_q);
      if (!write_ok) assert (!control_o.start && !control_o.exit && !control_o.merge && !fbcb_o.valid);
      assert (control_o.soft_reset == reset_is_q);
      // A setting that a job works with stands still, and so does its plan.
      if (running_q && past_busy_q) assert (past_held_q == {settings_o.program_base, settings_o.weights_base, settings_o.slot_bytes});
      if (progress_i.busy) assert (!fbcb_o.valid);
      if (control_o.soft_reset) assert (!write);
      assert (counter == (32'(s_axil_araddr) >= 32'(fluidnpu_registers_pkg::LayerCyclesOffset) && 32'(s_axil_araddr) < 32'(fluidnpu_registers_pkg::LayerWriteBurstsOffset) + 32'd4));
      if (write && (s_axil_awaddr[1:0] != '0 || 32'(s_axil_awaddr) >= fluidnpu_registers_pkg::WindowBytes || s_axil_wstrb != 4'hF))
        assert (!write_ok);
      assert (32'(control_o.start) + 32'(control_o.exit) + 32'(control_o.merge) + 32'(control_o.soft_reset) <= 32'd1);
      assert (irq_o == |(irq_status_q & irq_enable_q));
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && control_o.start);
    cover (past_q && irq_o);
    cover (past_q && fbcb_o.valid);
    cover (past_read_q && !past_known_q && s_axil_rready);
    cover (past_q && past_b_q && s_axil_bresp == SlvErr);
  end
`endif
`endif
