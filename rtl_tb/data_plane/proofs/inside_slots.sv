// Inside fluidnpu_sequencer: sample n of a job lies where its n-th active slot does, counted from slot 0 on:
// at base + index * bytes. The registers and the engine hold base, bytes and mask still while a job is under
// way.
`ifdef FORMAL
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth;
  (* anyconst *) logic [4:0]  slot;  // any one of them
  (* anyconst *) logic [AddrWidth-1:0] base;
  (* anyconst *) logic [31:0] bytes;
  (* anyconst *) logic [31:0] mask;
  localparam int unsigned MaxSlots = fluidnpu_pkg::MaxSlots;
  logic [MaxSlots:0][5:0]           rank;   // active slots below slot i
  logic [MaxSlots:0][AddrWidth-1:0] place;  // base + i * bytes
  logic past_q = 1'b0, walked;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  assign rank[0]  = '0;
  assign place[0] = base;
  for (genvar i = 0; i < MaxSlots; i++) begin : gen_slots
    assign rank[i+1]  = rank[i] + 6'(mask[i]);
    assign place[i+1] = place[i] + AddrWidth'(bytes);
  end
  assign walked = state_q != Idle && state_q != Flush && (state_q != Slots || slot < slot_q);
  always_comb begin
    assume (rst_ni == past_q);
    assume (32'(rank[MaxSlots]) <= BMax && (mask >> MaxSlots) == '0 && 32'(slot) < MaxSlots);  // the proof `engine`
    assume (settings_i.slot_base == 64'(base) && settings_i.slot_bytes == 32'(bytes) && batch_i.active == mask);
    // Only legal layers are planned; so the module's own assertions hold here too.
    assume (plan_layer_i.beats0 != '0 && plan_layer_i.block != '0 && plan_layer_i.columns != '0 && plan_layer_i.groups != '0);
    if (past_q && (state_q == Begin || state_q == Commands)) begin
      assert (running_q.beats0 != '0 && running_q.block != '0 && running_q.columns != '0 && running_q.groups != '0);
      if (state_q == Commands) assert (beats_q != '0 && lane1_q <= beats_q && first_q < running_q.columns && group_q < running_q.groups);
    end
    if (past_q) begin
      assert (hold_q <= 5'(FlushCycles));
      assert (fetch_q == (ahead_q == Fetch) && flush_q == (state_q == Flush) && await_q == (state_q == Await));
      // The layer that begins next: its number is told until its descriptor has come.
      assert (state_q <= Flush && ahead_q <= Refused);
      if (state_q == Idle || state_q == Flush || state_q == Begin) assert (ahead_q == Rest);
      if (state_q == Slots) assert ((ahead_q == Rest) == (slot_q < 5'd2));
      if (state_q == Commands || state_q == Drain) assert (layer_q != last_q || ahead_q == Rest);
      if ((state_q == Slots && ahead_q == Rest) || ahead_q == Fetch) begin
        assert (fetch_layer_q == (state_q == Slots || state_q == Await ? layer_q : layer_q + 16'd1));
      end else if (state_q == Begin) assert (fetch_layer_q == layer_q + 16'd1);
      else if (ahead_q != Rest) assert (fetch_layer_q == (state_q == Slots || state_q == Await ? layer_q + 16'd1 : layer_q + 16'd2));
      if (state_q == Slots) assert (32'(slot_q) < MaxSlots && sample_q == 5'(rank[slot_q]) && slot_addr_q == place[slot_q]);
      if (walked && mask[slot]) assert (slot_o[rank[slot][SampleWidth-1:0]] == place[slot]);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && state_q == Slots && mask[slot] && slot == 5'd6 && slot_q == 5'd7 && rank[6] == 6'd2 && bytes == 32'd3);
    // A walk that leaves the first 4 GiB, which is only met at full width.
    cover (past_q && state_q == Slots && slot_q == 5'd7 && base[39:32] == '0 && slot_addr_q[39:32] == 8'd1);
  end
`endif
`endif
