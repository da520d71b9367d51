// Inside fluidnpu_sequencer: only layers of the job are run, and while its neighbours answer within three cycles no state lasts longer than it
// must. So a job on a fair bus ends: every command is one of finitely many.
`ifdef FORMAL
  logic [15:0] layers_q = '0;
  logic [5:0]  count_q = '0, waited;  // cycles in this state before this one
  state_e      before_q = Idle;
  logic        answered, again_q = 1'b1;
  always_comb begin
    case (state_q)
      Fetch:    answered = fetched_i;
      Lookup:   answered = plan_valid_i;
      Plan:     answered = plan_done_i || plan_bad_i;
      Commands: answered = command_ready_i;
      Drain:    answered = written_i;
      Flush:    answered = masters_idle_i;
      default:  answered = 1'b1;
    endcase
    waited = state_q == before_q && !again_q ? count_q + 6'd1 : '0;
    if (waited >= 6'd2) assume (answered);
  end
  always_ff @(posedge clk_i) begin
    if (start_i && !start_refused_o && state_q == Idle) layers_q <= layers_i;
    before_q <= state_q;
    again_q  <= !rst_ni || issued || job_error || soft_reset_i;  // a command more, or a cause to flush
    count_q  <= state_q == Idle ? '0 : waited;
  end
  always_comb begin
    if (rst_ni) begin
      if (state_q != Idle && state_q != Flush) assert (layer_q <= last_q && last_q < layers_q);
      if (fetch_o) assert (layer_o < layers_q);
      case (state_q)
        Idle:    ;
        Slots:   assert (waited == 6'(slot_q) && 32'(slot_q) < fluidnpu_pkg::MaxSlots);
        Flush:   assert (32'(waited) + 32'(hold_q) <= FlushCycles + 32'd3 && hold_q <= 5'(FlushCycles));
        default: assert (waited <= 6'd2);
      endcase
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_ni && command_valid_o && lane1 != '0 && group_q == 16'd1 && last_tile && left0_q == 32'd2);
    cover (rst_ni && done_o);
    cover (rst_ni && state_q == Flush && masters_idle_i && hold_q == '0);
  end
`endif
`endif
