// Inside fluidnpu_row_buffer, for any small rows, whatever segments come and whatever memory answers: a word
// that has come stays in its place until no window needs it, and a segment, taken first or second, is given
// the words that memory answered for its rows.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // -- the layer, as the planner gives it (`dse.hardware.InputRows`): it stays while it runs, and begins when nothing of the one before is under way
  typedef struct packed {
    logic        sample_lanes;
    logic [4:0]  in_offset;
    logic [4:0]  row_bytes;
    logic [5:0]  pitch;
    logic [7:0]  sample_pitch;
  } what_t;
  (* anyconst *) what_t what;
  logic            started_q, running, fallen_q, falls;
  logic [31:0]     oldest_q, room_end;
  assign running = started_q && !layer_start_i;
  assign falls    = running && oldest_i < oldest_q;
  assign room_end = oldest_i + (what.sample_lanes ? Capacity / 2 : Capacity);
  always_ff @(posedge clk_i) begin
    oldest_q   <= layer_start_i ? '0 : oldest_i;
    started_q  <= rst_ni && (layer_start_i || started_q);
    fallen_q   <= rst_ni && !layer_start_i && (falls || fallen_q);
  end
  always_comb begin
    if (!past_q) assume (!rst_ni);
    assume (layer_i.sample_lanes == what.sample_lanes && layer_i.in_offset == 32'(what.in_offset) && layer_i.row_bytes == 32'(what.row_bytes));
    assume (layer_i.pitch == 32'(what.pitch) && layer_i.sample_pitch == 32'(what.sample_pitch));
    assume (what.row_bytes != '0 && ((32'(what.row_bytes) | 32'(what.in_offset) | 32'(what.pitch)) & 32'(WordBytes - 1)) == '0);
    assume (32'(what.pitch) >= 32'(what.row_bytes) + 32'(PortBytes - WordBytes));
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
      if (second_valid_i) assume (second_words_i != '0 && 32'(second_words_i) <= LineWords && (second_i.addr & 32'(WordBytes - 1)) == '0);
      if (second_valid_i) assume (32'(second_place_i) + 32'(second_words_i) <= InWords);
      if (second_valid_i) assume (segment_valid_i && (!second_i.lane || what.sample_lanes));
      // Shown by the proof `buffer`: rows follow one another, each as long as it must be, as far into a port
      // word as in memory
      if (running) begin
        for (int l = 0; l < 2; l++) begin
          assume (due_q[l] == 33'(place_q[l]) + 33'(what.pitch) + 33'(PortBytes) - 33'(what.sample_lanes ? Capacity / 2 : Capacity));
          assume (place_q[l] < 32'd1024 && (place_q[l] & 32'(WordBytes - 1)) == '0 && after_q[l] >= place_q[l] + 32'(what.pitch));
          assume (asked_q[l] < 24'd16 && (l == 0 || what.sample_lanes || !more[l]));
        end
        if (ask) assume (at[lane][PortBits-1:0] == addr[lane][PortBits-1:0] && addr[lane][PortBits-1:0] == offset_q[lane][PortBits-1:0]);
      end
      assume (!segment_valid_i || there || more[segment_i.lane] || asked_q[segment_i.lane] != loaded_q[segment_i.lane]);
    end
  end

  // -- the queues, by the contract that the proof `fifo` shows; what is in flight, oldest first. The queue of rows is a small one here.
  localparam int unsigned Flight = 2;
  logic [3:0]              level_q, behind;
  logic [4:0]              beats_q;
  logic [3:0]              building_q;  // beats in the builder, by age
  logic [Flight-1:0]       lane_of_q;
  logic [Flight-1:0][11:0] place_of_q, limit_of_q;
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
      limit_of_q <= limit_of_q >> 12;
    end
    if (ask) begin
      lane_of_q[behind[1:0]]  <= lane;
      place_of_q[behind[1:0]] <= place_q[lane][11:0];
      limit_of_q[behind[1:0]] <= 12'(place_q[lane] + 32'(what.pitch) + 32'(PortBytes));
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

  // -- some word of some row, to say of every one what becomes of it
  (* anyconst *) logic                           at_lane;
  (* anyconst *) logic [3:0]                     at_row;   // of the lane
  (* anyconst *) logic [4:0]                     at_beat;  // of the row
  (* anyconst *) logic [$clog2(PortWords+1)-1:0] at_word;  // of the port word
  logic [31:0] at_place_q, at_port, at_addr;
  logic [PlaceBits-1:0] at_ring;
  logic        written_q, dead_q;
  logic [1:0]  wanted, given_q;  // by the segment, by the second
  logic [WordBits-1:0] value_q;
  logic [1:0][$clog2(LineWords)-1:0] given_at_q;
  assign at_port = port_word(at_place_q) + 32'(at_beat);
  assign at_addr = (at_port << PortBits) + (32'(at_word) << ByteBits);
  assign at_ring = ring(at_lane, at_port);
  function automatic logic within(logic of, logic [23:0] rows, logic [31:0] from, logic [CountWidth-1:0] words);
    within = of == at_lane && rows > 24'(at_row) && 32'(at_beat) < length(at_place_q)
        && at_addr >= oldest_i && at_addr >= from && at_addr < from + (32'(words) << ByteBits);
  endfunction
  always_comb begin
    wanted[0] = within(segment_i.lane, segment_i.rows, segment_i.addr, segment_words_i);
    wanted[1] = within(second_i.lane, second_i.rows, second_i.addr, second_words_i);
  end
  logic arrives;
  assign arrives = arrive && lane_of_q[0] == at_lane && loaded_q[at_lane] == 24'(at_row) && beat_q == 24'(at_beat);
  always_ff @(posedge clk_i) begin
    if (ask && lane == at_lane && asked_q[lane] == 24'(at_row)) at_place_q <= place_q[lane];
    if (arrives) value_q <= data_i[at_word*WordBits+:WordBits];
    written_q  <= rst_ni && !layer_start_i && (written_q || arrives);
    dead_q     <= rst_ni && !layer_start_i && asked_q[at_lane] > 24'(at_row) && (dead_q || oldest_i >= (at_port + 32'd1) << PortBits);
    given_q    <= {take_two && wanted[1], take && wanted[0]};
    given_at_q <= {($clog2(LineWords))'((at_addr - second_i.addr) >> ByteBits), ($clog2(LineWords))'((at_addr - segment_i.addr) >> ByteBits)};
  end
  always_comb assume (32'(at_word) < PortWords);

  // -- what holds
  logic [1:0][3:0] flying;
  logic [Flight-1:0][3:0] before;  // rows of this one's lane before it
  always_comb begin
    flying = '0;
    before = '0;
    for (int i = 0; i < Flight; i++) begin
      if (4'(i) < level_q) begin
        before[i] = flying[lane_of_q[i]];
        flying[lane_of_q[i]] = flying[lane_of_q[i]] + 4'd1;
      end
    end
  end

  always_comb begin
    if (past_q) begin
      assert (level_q <= 4'(Flight) && 32'(beats_q) + building <= BeatQueue);
      if (!started_q) assert (more == '0 && level_q == '0 && asked_q == '0 && loaded_q == '0 && beat_q == '0 && !fallen_q && !written_q);
      if (level_q == '0) assert (beat_q == '0);
      if (running) begin
        for (int l = 0; l < 2; l++) begin
          assert (asked_q[l] == loaded_q[l] + 24'(flying[l]) && loaded_q[l] <= asked_q[l]);
          if (l == 1 && !what.sample_lanes) assert (asked_q[l] == '0);
        end
        for (int i = 0; i < Flight; i++) begin
          if (4'(i) < level_q) begin
            assert (!lane_of_q[i] || what.sample_lanes);
            assert (32'(limit_of_q[i]) <= room_end && (place_of_q[i] & 12'(WordBytes - 1)) == '0);
            assert (32'(limit_of_q[i]) == 32'(place_of_q[i]) + 32'(what.pitch) + 32'(PortBytes));
            if (lane_of_q[i] == at_lane && loaded_q[at_lane] + 24'(before[i]) == 24'(at_row)) assert (32'(place_of_q[i]) == at_place_q);
            if (lane_of_q[i] == at_lane && loaded_q[at_lane] + 24'(before[i]) > 24'(at_row)) begin
              assert (32'(place_of_q[i]) >= at_place_q + 32'(what.pitch));
            end
          end
        end
        if (head_valid) assert (32'(beat_q) < length(32'(place_of_q[0])));
        if (fallen_q) assert (more == '0 && level_q == '0);
        if (dead_q && !fallen_q && !falls) assert (oldest_i >= (at_port + 32'd1) << PortBits);
        if (asked_q[at_lane] > 24'(at_row)) assert (place_q[at_lane] >= at_place_q + 32'(what.pitch) && (at_place_q & 32'(WordBytes - 1)) == '0 && at_place_q < 32'd1024);

        // A word that has come is there until nobody needs it.
        if (written_q) begin
          assert (asked_q[at_lane] > 24'(at_row) && 32'(at_beat) < length(at_place_q) && loaded_q[at_lane] >= 24'(at_row));
          if (loaded_q[at_lane] == 24'(at_row)) assert (head_valid && lane_of_q[0] == at_lane && beat_q > 24'(at_beat));
        end else if (32'(at_beat) < length(at_place_q)) begin
          assert (loaded_q[at_lane] <= 24'(at_row));
          if (head_valid && lane_of_q[0] == at_lane && loaded_q[at_lane] == 24'(at_row)) assert (beat_q <= 24'(at_beat));
        end

        if (arrives) assert (to == at_ring);
        if (arrive && written_q && !dead_q && oldest_i < (at_port + 32'd1) << PortBits) assert (to != at_ring);

        if ((take && wanted[0]) || (take_two && wanted[1])) assert (written_q && !dead_q);
      end
      // What a segment is given
      for (int i = 0; i < 2; i++) begin
        if (s1_valid_q && given_q[i]) assert (WordBits'((s1_bank_q[i] ? {bank_q[i][0], bank_q[i][1]} : {bank_q[i][1], bank_q[i][0]}) >> (32'(s1_offset_q[i]) + 32'(given_at_q[i])) * WordBits) == value_q && 32'(given_at_q[i]) < 32'(s1_words_q[i]));
      end
      if (s1_valid_q && given_q[1]) assert (s1_two_q);
    end
  end
  for (genvar b = 0; b < 2; b++) begin : gen_kept_banks
    for (genvar p = 0; p < Parts; p++) begin : gen_kept
      always_comb begin
        if (past_q && running && written_q && !dead_q && at_ring[PartBits] == 1'(b) && 32'(at_ring & PlaceBits'(Parts - 1)) == p) begin
          if (oldest_i < (at_port + 32'd1) << PortBits)
            assert (gen_banks[b].gen_parts[p].gen_block.words_q[at_ring[PartBits+1+:SetBits]][at_word*WordBits+:WordBits] == value_q);
        end
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && running && s1_valid_q && given_q[0] && at_row == 4'd1 && value_q == WordBits'(16'h1234));
    cover (past_q && running && arrive && written_q && dead_q);
    cover (past_q && running && take && wanted[0] && at_lane);
    cover (past_q && running && s1_valid_q && given_q == 2'b10 && value_q == WordBits'(16'h1234) && given_at_q[1] == '1);
  end
`endif
`endif
