// Inside fluidnpu_sequencer: only layers of the job are run, and while its neighbours answer within three
// cycles no state lasts longer than it must. So a job on a fair bus ends: every command is one of finitely
// many. Those of the harness's layer are told one by one.
`ifdef FORMAL
  logic [15:0] layers_q = '0;
  logic [5:0]  count_q = '0, waited;  // cycles in this state before this one
  logic [1:0]  ahead_count_q = '0, ahead_waited;  // the same of the layer that begins next
  state_e      before_q = Idle;
  ahead_e      ahead_before_q = Rest;
  logic        answered, ahead_answered, again_q = 1'b1;
  logic        bad_q;  // the last plan
  logic [15:0] next;  // the layer that begins next
  assign next = layer_q + 16'(state_q == Begin || state_q == Commands || state_q == Drain);
  logic [15:0] fetched_q;
  logic        was_next_q = 1'b0;  // a fetch was told for this cycle
  logic        settled_q;  // the layer to be fetched was the same in the cycle before
  assign settled_q = fetched_q == fetch_layer_o;
  always_comb begin
    case (state_q)
      Commands: answered = command_ready_i;
      Drain:    answered = written_i;
      Flush:    answered = masters_idle_i;
      default:  answered = 1'b1;
    endcase
    waited = state_q == before_q && !again_q ? count_q + 6'd1 : '0;
    if (waited >= 6'd2) assume (answered);
    case (ahead_q)
      Fetch:   ahead_answered = fetched_i;
      Lookup:  ahead_answered = plan_valid_i;
      Plan:    ahead_answered = plan_done_i || plan_bad_i.valid;
      default: ahead_answered = 1'b1;
    endcase
    ahead_waited = ahead_q == ahead_before_q ? (ahead_count_q == '1 ? '1 : ahead_count_q + 2'd1) : '0;
    if (ahead_waited >= 2'd2) assume (ahead_answered);
  end
  // Two row blocks of 4 and 2 beats, of two groups each, of two column tiles of 4 and 3: which command this
  // is, and what it must say.
  logic [3:0] number_q = '0;
  fluidnpu_formats_pkg::tile_t want;
  always_comb begin
    want.beats       = number_q[2] ? 16'd2 : 16'd4;
    want.lane1_beats = number_q[2] ? 16'd1 : 16'd4;
    want.cols        = number_q[0] ? 12'd3 : 12'd4;
    want.in_shift    = number_q[1] ? 32'd10 : 32'd0;
    want.out_shift   = (number_q[1] ? 32'd14 : 32'd0) + (number_q[0] ? 32'd8 : 32'd0);
    want.block_first = number_q[1:0] == 2'd0;
    want.block_last  = number_q[1:0] == 2'd3;
    want.layer_last  = number_q == 4'd7;
  end
  always_ff @(posedge clk_i) begin
    if (state_q == Begin) number_q <= '0;
    else if (issued) number_q <= number_q + 4'd1;
    if (control_i.start && !start_refused && state_q == Idle) layers_q <= settings_i.layers;
    before_q <= state_q;
    fetched_q <= fetch_layer_o;
    was_next_q <= rst_ni && fetch_next_o;
    again_q  <= !rst_ni || issued || job_error || control_i.soft_reset;  // a command more, or a cause to flush
    count_q  <= state_q == Idle ? '0 : waited;
    ahead_before_q <= ahead_q;
    if (ahead_q == Plan && ahead_answered) bad_q <= plan_bad_i.valid;
    ahead_count_q  <= ahead_waited;
  end
  always_comb begin
    if (rst_ni) begin
      if (state_q != Idle && state_q != Flush) assert (layer_q <= last_q && last_q < layers_q);
      if (fetch_o) assert (next <= last_q && next < layers_q && fetch_layer_o == next && settled_q);
      assert (fetch_o == was_next_q && fetch_o == (ahead_q == Fetch) && flush_o == (state_q == Flush));
      // How far the next layer may be; its number is told from before its descriptor is asked for until all
      // of it has come.
      assert (state_q <= Flush && ahead_q <= Refused);
      if (state_q == Idle || state_q == Flush || state_q == Begin) assert (ahead_q == Rest);
      if (state_q == Slots) assert ((ahead_q == Rest) == (slot_q < 5'd2));
      if (state_q == Await) assert (ahead_q != Rest);
      if (ahead_q == Planned || state_q == Begin) assert (!bad_q);  // no layer begins with a bad plan
      if (ahead_q == Refused) assert (bad_q);
      if (state_q == Commands || state_q == Drain) assert ((ahead_q == Rest) == (layer_q == last_q));
      if (state_q != Idle && state_q != Flush && next <= last_q) begin
        if (ahead_q == Rest || ahead_q == Fetch) assert (fetch_layer_q == next || (state_q == Commands && ahead_q == Rest));
        else assert (fetch_layer_q == next + 16'd1);
      end
      if (ahead_q == Fetch || ahead_q == Lookup || ahead_q == Plan) assert (ahead_waited <= 2'd2);
      if (state_q == Commands) begin
        assert (number_q < 4'd8 && command_o == want);
        assert (behind0_q == (number_q[2] ? 32'd0 : 32'd2) && behind1_q == (number_q[2] ? 32'd0 : 32'd1));
        assert (group_q == 16'(number_q[1]) && group_in_q == want.in_shift && first_q == (number_q[0] ? 16'd4 : 16'd0));
        assert (group_out_q == (number_q[1] ? 32'd14 : 32'd0) && block_open_q == !want.block_first);
      end
      if (state_q == Drain) assert (number_q == 4'd8);
      case (state_q)
        Idle:    ;
        Slots:   assert (waited == 6'(slot_q) && 32'(slot_q) < fluidnpu_pkg::MaxSlots);
        Await:   assert (32'(waited) <= (ahead_q == Fetch ? 32'd0 : ahead_q == Lookup ? 32'd3 : 32'd6) + (ahead_q <= Plan ? 32'(ahead_waited) : 32'd3));
        Flush:   assert (32'(waited) + 32'(hold_q) <= FlushCycles + 32'd3 && hold_q <= 5'(FlushCycles));
        default: assert (waited <= 6'd2);
      endcase
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_ni && command_valid_o && lane1_q != '0 && group_q == 16'd1 && last_tile && last_block);
    cover (rst_ni && progress_o.done);
    cover (rst_ni && state_q == Drain && ahead_q == Planned);
    cover (rst_ni && state_q == Await && ahead_q == Refused && layer_q != '0);
    cover (rst_ni && state_q == Flush && masters_idle_i && hold_q == '0);
  end
`endif
`endif
