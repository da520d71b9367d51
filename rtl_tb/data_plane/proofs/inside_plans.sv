// Inside fluidnpu_sequencer, at full width, over any number of jobs: a layer runs with the plan that was looked
// up for its own number in this job, which stands still as long as it runs; each command reads and writes at as
// many groups and columns from the first as were asked for before it.
`ifdef FORMAL
  (* anyconst *) logic [15:0]                  mine;  // any layer
  (* anyconst *) fluidnpu_formats_pkg::layer_t what;  // its plan in this job
  logic        past_q = 1'b0;
  logic [15:0] planned_q;   // the layer whose plan was looked up last
  logic        fresh_q;     // in this job
  logic        begins, running;
  logic [15:0] next;        // the layer that begins next
  logic [31:0] reads_q, writes_q;  // bytes from the first group's to this one's
  logic [15:0] column_q;           // columns of this group before this command
  assign begins  = state_q == Idle && control_i.start && !start_refused;
  assign running = state_q == Begin || state_q == Commands || state_q == Drain;
  assign next    = running ? layer_q + 16'd1 : layer_q;
  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (begins || !rst_ni) fresh_q <= 1'b0;
    else if (lookup_o) fresh_q <= 1'b1;
    if (lookup_o) planned_q <= fetch_layer_o;
    if (state_q == Begin) begin
      reads_q  <= '0;
      writes_q <= '0;
      column_q <= '0;
    end else if (issued) begin
      column_q <= column_q + 16'(command_o.cols);
      if (16'(column_q + 16'(command_o.cols)) == running_q.columns) begin
        column_q <= '0;
        reads_q  <= command_o.block_last ? '0 : reads_q + 32'(running_q.group_words) + 32'(running_q.group_words);
        writes_q <= command_o.block_last ? '0 : writes_q + 32'(running_q.columns) + 32'(running_q.columns);
      end
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    // The planner shows a layer until the next one is planned. Only legal layers are planned.
    if (ahead_q == Planned && planned_q == mine) assume (plan_layer_i == what);
    assume (plan_layer_i.beats0 != '0 && plan_layer_i.block != '0 && plan_layer_i.columns != '0 && plan_layer_i.groups != '0);
    if (past_q && (state_q == Begin || state_q == Commands)) begin
      assert (running_q.beats0 != '0 && running_q.block != '0 && running_q.columns != '0 && running_q.groups != '0);
      if (state_q == Commands) assert (beats_q != '0 && lane1_q <= beats_q && first_q < running_q.columns && group_q < running_q.groups);
    end
    if (past_q) begin
      assert (hold_q <= 5'(FlushCycles));
      assert (fetch_q == (ahead_q == Fetch) && flush_q == (state_q == Flush) && await_q == (state_q == Await));
      assert (state_q <= Flush && ahead_q <= Refused);
      if (state_q == Idle || state_q == Flush || state_q == Begin) assert (ahead_q == Rest);
      if (state_q == Slots) assert ((ahead_q == Rest) == (slot_q < 5'd2) && 32'(slot_q) < fluidnpu_pkg::MaxSlots);
      if (state_q == Await) assert (ahead_q != Rest);
      if (state_q == Commands || state_q == Drain) assert ((layer_q == last_q) == (ahead_q == Rest));
      if ((state_q == Slots && ahead_q == Rest) || ahead_q == Fetch) assert (fetch_layer_q == next);
      else if (state_q == Begin || ahead_q != Rest) assert (fetch_layer_q == (state_q == Begin ? next : next + 16'd1));
      // Whose plan it is
      if (ahead_q != Rest && ahead_q != Fetch) assert (planned_q == next && fresh_q);
      if (state_q == Begin) assert (planned_q == layer_q && fresh_q);
      if (running && layer_q == mine) assert (running_o == what);
      // Where commands read and write
      if (state_q == Commands) begin
        assert (group_in_q == reads_q && group_out_q == writes_q && first_q == column_q);
        assert (command_o.in_shift == (running_q.pool ? {15'd0, column_q, 1'b0} : reads_q));
        assert (command_o.out_shift == writes_q + {15'd0, column_q, 1'b0});
        assert (command_o.cols != '0 && 17'(column_q) + 17'(command_o.cols) <= 17'(running_q.columns));
      end
    end
  end
`ifdef COVER
  logic ended_q = 1'b0;  // a job, by force
  always_ff @(posedge clk_i) ended_q <= ended_q || state_q == Flush;
  always_comb begin
    cover (past_q && ended_q && state_q == Begin && layer_q == mine && mine == 16'd256);
    cover (past_q && state_q == Commands && writes_q > 32'd4095 && reads_q > 32'd65535 && column_q != '0 && issued);
  end
`endif
`endif
