// Inside fluidnpu_row_buffer, for any small layer, whatever segments come and whatever memory answers. What
// is read from memory: every row of every active sample, once, in order, and no port word more. Where it
// goes: where windows look for it, and only when its places are free of what is needed from `oldest_i` on. No
// segment waits for ever without `stuck_o`, nor for the second one, which goes with it just when its own rows
// are there and no word arrives in a bank that it reads. What becomes of the words is the proof `kept`.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  function automatic logic [31:0] times(logic [31:0] value, logic [1:0] by);
    times = (by[0] ? value : 32'd0) + (by[1] ? value << 1 : 32'd0);
  endfunction

  // -- the layer, as the planner gives it (`dse.hardware.InputRows`): it stays while it runs, and begins when nothing of the one before is under way
  typedef struct packed {
    logic                           sample_lanes;
    logic [1:0]                     b_act;
    logic [1:0]                     b_r;
    logic [1:0]                     rows;
    logic [4:0]                     in_offset;
    logic [5:0]                     row_step;
    logic [4:0]                     row_bytes;
    logic [5:0]                     pitch;
    logic [7:0]                     sample_pitch;
    logic [BMax-1:0][AddrWidth-1:0] slot;
  } what_t;
  (* anyconst *) what_t what;
  logic            started_q, running, fallen_q, falls;
  logic [31:0]     oldest_q;
  logic [1:0][1:0] first, samples;  // of a lane
  assign first   = {what.sample_lanes ? what.b_r : what.b_act, 2'd0};
  assign samples = {what.b_act - first[1], first[1]};
  assign running = started_q && !layer_start_i;
  assign falls   = running && oldest_i < oldest_q;
  always_ff @(posedge clk_i) begin
    oldest_q   <= layer_start_i ? '0 : oldest_i;
    started_q  <= rst_ni && (layer_start_i || started_q);
    fallen_q   <= rst_ni && !layer_start_i && (falls || fallen_q);
  end
  always_comb begin
    if (!past_q) assume (!rst_ni);
    assume (b_act_i == 5'(what.b_act) && what.b_act != '0 && 32'(what.b_act) <= BMax && slot_i == what.slot);
    assume (layer_i.b_r == 5'(what.b_r) && what.b_r != '0 && what.b_r <= what.b_act && layer_i.sample_lanes == what.sample_lanes);
    assume (layer_i.sample_rows == 24'(what.rows) && what.rows != '0 && layer_i.in_offset == 32'(what.in_offset));
    assume (layer_i.row_step == 32'(what.row_step) && layer_i.row_bytes == 32'(what.row_bytes) && what.row_bytes != '0);
    assume (layer_i.pitch == 32'(what.pitch) && layer_i.sample_pitch == 32'(what.sample_pitch));
    assume (((what.row_bytes | what.in_offset | 6'(what.row_step)) & 6'(WordBytes - 1)) == '0 && what.pitch[PortBits-1:0] == what.row_step[PortBits-1:0]);
    assume (32'(what.pitch) >= 32'(what.row_bytes) + 32'(PortBytes - WordBytes));
    assume (what.sample_pitch[PortBits-1:0] == '0 && 32'(what.sample_pitch) >= times(32'(what.pitch), what.rows));
    for (int unsigned i = 0; i < BMax; i++) assume (what.slot[i][5:0] == '0 && !what.slot[i][AddrWidth-1]);
    if (past_q) begin
      if (layer_start_i) assume (rst_ni && !segment_valid_i && (!started_q || (more == '0 && level_q == '0)));
      // What is needed goes on (the proofs `rows`, `windows`), until the layer's last window is served.
      assume (oldest_i < 32'd1024);
      if (falls) assume (more == '0 && level_q == '0);
      if (falls || fallen_q || !started_q) assume (!segment_valid_i);
      // Segments
      assume (segment_words_i != '0 && 32'(segment_words_i) <= LineWords && (segment_i.addr & 32'(WordBytes - 1)) == '0);
      assume (32'(segment_place_i) + 32'(segment_words_i) <= InWords);
      if (segment_valid_i) assume (!segment_i.lane || what.sample_lanes);
      if (segment_valid_i) assume (32'(segment_i.rows) <= times(32'(what.rows), samples[segment_i.lane]));
      if (second_valid_i) assume (second_words_i != '0 && 32'(second_words_i) <= LineWords && (second_i.addr & 32'(WordBytes - 1)) == '0);
      if (second_valid_i) assume (32'(second_place_i) + 32'(second_words_i) <= InWords);
      if (second_valid_i) assume (segment_valid_i && (!second_i.lane || what.sample_lanes));
      if (second_valid_i) assume (32'(second_i.rows) <= times(32'(what.rows), samples[second_i.lane]));
    end
  end

  // -- what is to be asked for next, kept apart from the module
  logic [1:0][1:0] index_q, next_q;
  logic [AddrWidth-1:0] want_addr;
  logic [31:0] want_place, skip, port_bytes;
  assign want_addr  = what.slot[first[lane]+index_q[lane]] + AddrWidth'(32'(what.in_offset) + times(32'(what.row_step), next_q[lane]));
  assign skip       = 32'(want_addr[PortBits-1:0]);
  assign port_bytes = 32'(beats_of[lane]) << PortBits;
  assign want_place = times(32'(what.sample_pitch), index_q[lane]) + times(32'(what.pitch), next_q[lane]);
  always_ff @(posedge clk_i) begin
    if (layer_start_i) begin
      index_q <= '0;
      next_q  <= '0;
    end else if (ask) begin
      next_q[lane] <= next_q[lane] + 2'd1;
      if (next_q[lane] + 2'd1 == what.rows) begin
        next_q[lane]  <= '0;
        index_q[lane] <= index_q[lane] + 2'd1;
      end
    end
  end

  // The row that was chosen and not yet taken
  logic                 chosen_q = 1'b0;
  logic [AddrWidth-1:0] chosen_addr_q;
  logic [23:0]          chosen_beats_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) chosen_q <= 1'b0;
    else if (ask) chosen_q <= 1'b1;
    else if (fetch_valid_o && fetch_ready_i) chosen_q <= 1'b0;
    if (ask) begin
      chosen_addr_q  <= {want_addr[AddrWidth-1:PortBits], PortBits'(0)};
      chosen_beats_q <= 24'(length(want_place));
    end
  end

  // -- the queues, by the contract that the proof `fifo` shows; what is in flight, oldest first. The queue of rows is a small one here.
  localparam int unsigned Flight = 2;
  logic [3:0]              level_q, behind;
  logic [4:0]              beats_q;
  logic [3:0]              building_q;  // beats in the builder, by age
  logic [Flight-1:0]       lane_of_q;
  logic [Flight-1:0][11:0] place_of_q;
  logic [31:0] building;
  assign building = 32'(building_q[0]) + 32'(building_q[1]) + 32'(building_q[2]) + 32'(building_q[3]) + 32'(s1_valid_q && s1_ends_q);
  assign behind = level_q - 4'(row_ends);
  function automatic logic [PlaceBits-1:0] ring(logic of, logic [31:0] port_word);
    ring = port_word[PlaceBits-1:0];
    if (what.sample_lanes) ring[PlaceBits-1] = of;
  endfunction
  function automatic logic [31:0] port_word(logic [31:0] place);
    port_word = (place + low) >> PortBits;
  endfunction
  function automatic logic [31:0] length(logic [31:0] place);  // port words of the row there
    length = (((place + low) & 32'(PortBytes - 1)) + 32'(what.row_bytes) + 32'(PortBytes - 1)) >> PortBits;
  endfunction
  always_ff @(posedge clk_i) begin
    if (row_ends) begin
      lane_of_q  <= lane_of_q >> 1;
      place_of_q <= place_of_q >> 12;
    end
    if (ask) begin
      lane_of_q[behind[1:0]]  <= lane;
      place_of_q[behind[1:0]] <= place_q[lane][11:0];
    end
    if (!rst_ni) begin
      level_q <= '0;
      beats_q <= '0;
      building_q <= '0;
    end else begin
      level_q <= behind + 4'(ask);
      beats_q <= beats_q + 5'(built) - 5'(beat_valid_o && beat_ready_i);
      building_q <= {building_q[2:0], s1_valid_q && s1_ends_q};
    end
  end
  always_comb begin
    if (past_q) begin
      assume (head_valid == (level_q != '0) && rows_ready == (level_q != 4'(Flight)));
      if (head_valid) begin
        assume (head.lane == lane_of_q[0] && head.place == ring(lane_of_q[0], port_word(32'(place_of_q[0]))));
        assume (32'(head.beats) == length(32'(place_of_q[0])));
      end
      assume (beat_valid_o == (beats_q != '0) && beat_level == beats_q && out_ready == (beats_q != 5'(BeatQueue)));
      assume (built == building_q[3]);  // shown by the proof `guard`
    end
  end

  // -- what holds
  logic [1:0] skipped_q;  // the other lane was asked for last
  logic [1:0] since_q;    // cycles since the layer began, as far as they matter
  logic [1:0][3:0] flying;
  always_ff @(posedge clk_i) begin
    since_q <= layer_start_i ? 2'd1 : since_q == 2'd3 ? since_q : since_q + 2'd1;
    for (int l = 0; l < 2; l++) begin
      if (ask) skipped_q[l] <= lane != 1'(l);
      if (!rst_ni || layer_start_i) skipped_q[l] <= 1'b0;
    end
  end
  // Lines lie in the two banks by turns.
  function automatic logic bank_of(logic [31:0] place);
    bank_of = place[$clog2(WordBytes * LineWords)];
  endfunction
  logic filled_bank;
  assign filled_bank = bank_of(32'(port_word(32'(place_of_q[0])) + 32'(beat_q)) << PortBits);

  logic stuck_was_q = 1'b0;
  always_ff @(posedge clk_i) stuck_was_q <= rst_ni && stuck;

  always_comb begin
    flying = '0;
    for (int i = 0; i < Flight; i++) if (4'(i) < level_q) flying[lane_of_q[i]] = flying[lane_of_q[i]] + 4'd1;
  end

  always_comb begin
    if (past_q) begin
      assert (stuck_o == stuck_was_q);
      assert (level_q <= 4'(Flight) && 32'(beats_q) + building <= BeatQueue);
      if (!started_q) assert (more == '0 && level_q == '0 && asked_q == '0 && loaded_q == '0 && beat_q == '0 && !fallen_q);
      if (level_q == '0) assert (beat_q == '0);
      assert (asked_for_q == chosen_q);  // a row waits for the master between two layers, too
      if (asked_for_q) assert (fetch_addr_o == chosen_addr_q && fetch_beats_o == chosen_beats_q);
      if (s1_valid_q) assert (s1_words_q[0] != '0 && 32'(s1_place_q[0]) + 32'(s1_words_q[0]) <= InWords);
      if (s1_valid_q && s1_two_q) assert (s1_words_q[1] != '0 && 32'(s1_place_q[1]) + 32'(s1_words_q[1]) <= InWords);
      if (running) begin
        for (int l = 0; l < 2; l++) begin
          assert (index_q[l] <= samples[l] && next_q[l] < what.rows && (index_q[l] != samples[l] || next_q[l] == '0));
          assert (sample_q[l] == 5'(first[l]) + 5'(index_q[l]) && end_q[l] == 5'(first[l]) + 5'(samples[l]));
          assert (row_q[l] == 24'(next_q[l]) && offset_q[l] == 32'(what.in_offset) + times(32'(what.row_step), next_q[l]));
          assert (after_q[l] == times(32'(what.sample_pitch), index_q[l]) + 32'(what.sample_pitch));
          assert (place_q[l] + 32'(what.sample_pitch) == after_q[l] + times(32'(what.pitch), next_q[l]));
          assert (due_q[l] == 33'(place_q[l]) + 33'(what.pitch) + 33'(PortBytes) - 33'(what.sample_lanes ? Capacity / 2 : Capacity));
          assert (place_q[l] < 32'd1024 && (place_q[l] & 32'(WordBytes - 1)) == '0 && after_q[l] >= place_q[l] + 32'(what.pitch));
          assert (32'(asked_q[l]) == times(32'(what.rows), index_q[l]) + 32'(next_q[l]));
          assert (asked_q[l] == loaded_q[l] + 24'(flying[l]) && loaded_q[l] <= asked_q[l]);
          if (since_q != 2'd3) assert (asked_q[l] < 24'(since_q));
          if (skipped_q[l]) assert (turn_q == 1'(l));
        end
        assert (since_q != '0);
        for (int unsigned i = 0; i < BMax; i++) begin
          assert (units_q[i] == times(32'(what.sample_pitch), 2'(i)) && fours_q[0] == '0);
          if (since_q != 2'd1) assert (base_o[i] == times(32'(what.sample_pitch), 2'(i)));
        end
        for (int i = 0; i < Flight; i++) begin
          if (4'(i) < level_q) assert (!lane_of_q[i] || what.sample_lanes);
        end
        if (head_valid) assert (32'(beat_q) < length(32'(place_of_q[0])));
        if (fallen_q) assert (more == '0 && level_q == '0);

        // 1. What is read: the port words of the next row of an active sample, no more and no less. The row stays
        // until the master takes it, and no other comes in its place.
        if (asked_for_q) assert (fetch_valid_o);
        assert (!ask || !chosen_q || fetch_ready_i);
        if (ask) begin
          assert (index_q[lane] < samples[lane] && 32'(first[lane]) + 32'(index_q[lane]) < 32'(what.b_act));
          assert (addr[lane][AddrWidth-1:PortBits] == want_addr[AddrWidth-1:PortBits]);
          assert (port_bytes >= skip + 32'(what.row_bytes) && port_bytes < skip + 32'(what.row_bytes) + 32'(PortBytes));
        end

        // 2. Where it goes: to its place, which is where windows look for it, and over no place that is
        // needed.
        if (ask) begin
          assert (row.lane == lane && row.place == ring(lane, port_word(want_place)) && 32'(row.beats) == length(want_place));
          assert (want_place + 32'(what.pitch) + 32'(PortBytes) <= oldest_i + (what.sample_lanes ? Capacity / 2 : Capacity));
        end
        for (int unsigned i = 0; i < BMax; i++) begin
          for (int l = 0; l < 2; l++) if (loaded_q[l] > 24'(i)) assert (base_o[i] == times(32'(what.sample_pitch), 2'(i)));
        end

        // 3. Who waits is served, or it is told that nothing can make room: data are taken whenever a row is
        // on its way, and a lane with room is passed over once at most.
        if (take) assert (loaded_q[segment_i.lane] >= segment_i.rows);
        if (take_two) assert (take && second_valid_i && loaded_q[second_i.lane] >= second_i.rows);
        if (take_two && data_valid_i && data_ready_o) begin
          assert (filled_bank != bank_of(second_i.addr) && filled_bank != bank_of(second_i.addr + (32'(second_words_i) << ByteBits) - 32'(WordBytes)));
        end
        if (take && second_valid_i && second_ready_o) assert (take_two);
        if (take && second_valid_i && other_there && !take_two) begin
          assert (data_valid_i && (filled_bank == bank_of(second_i.addr) || filled_bank == bank_of(second_i.addr + (32'(second_words_i) << ByteBits) - 32'(WordBytes))));
        end
        if (segment_valid_i && !there && !stuck) assert (flying[segment_i.lane] != '0 ? data_ready_o : able[segment_i.lane]);
        if (able != '0) assert (ask || fetch_valid_o || data_ready_o);
        for (int l = 0; l < 2; l++) if (ask && lane != 1'(l) && able[l]) assert (!skipped_q[l]);
        if (segment_valid_i && there && !segment_ready_o) assert (beat_valid_o);
        if (stuck) begin
          assert (segment_valid_i && loaded_q[segment_i.lane] < segment_i.rows && flying[segment_i.lane] == '0);
          assert (place_q[segment_i.lane] + 32'(what.pitch) + 32'(PortBytes) > oldest_i + (what.sample_lanes ? Capacity / 2 : Capacity));
        end
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (running && past_q && ask && lane && what.sample_lanes);
    cover (running && past_q && ask && index_q[0] == 2'd1 && next_q[0] == 2'd1);
    cover (running && past_q && take);
    cover (running && past_q && take_two && second_i.lane != segment_i.lane);
    cover (running && past_q && take && second_valid_i && other_there && !take_two);
    cover (running && past_q && stuck && loaded_q[0] != '0);
  end
`endif
`endif
