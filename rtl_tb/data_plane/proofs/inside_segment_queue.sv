// Inside fluidnpu_segment_queue, for any pair of segments, wherever it stands among the others: it is shown
// when those before it have gone, and not before, at the latest three cycles after them; with the sums of its
// own parts and the oldest place that came with it; its first segment alone or both, and then what is left
// of it. Nothing is given that has no room, so that none is lost. The oldest place stays between pairs, and
// falls to zero with a layer. The queue between is `common_fifo` by the contract that the proof `fifo` shows,
// as far as the pair at hand meets it.
`ifdef FORMAL
  // -- the pair at hand: any that is given while none is followed
  typedef enum logic [2:0] {Nowhere, InParts, InSums, InQueue, Shown} where_e;
  (* anyseq *) logic chosen;
  where_e                     where_q = Nowhere;
  pair_t                      want_q, queued_q;  // what it must be when shown; what was put into the queue
  logic [$clog2(Depth+1)-1:0] place_q_in_queue;
  logic [3:0]                 ahead_q;  // pairs before it
  logic [2:0]                 idle_q;   // cycles since none was before it and nothing was shown
  logic                       half_q;   // its first segment has gone
  logic                       past_q = 1'b0, given, gone, follow;
  logic [3:0]                 inside_now;
  logic [$clog2(Depth+1)-1:0] level_q;

  assign given      = segment_valid_i && segment_ready_o;
  assign gone       = segment_valid_o && segment_ready_i && (!second_valid_o || second_ready_i);
  assign follow     = given && chosen && where_q == Nowhere;
  assign inside_now = 4'(level) + 4'(shown_q) + 4'(parts_valid_q) + 4'(sums_valid_q);

  // The sum in two halves, as the module adds it: what is proven of one step is then the same term in the next.
  function automatic logic [31:0] near(fluidnpu_formats_pkg::parts_t parts);
    near = parts.base + parts.offset;
  endfunction
  function automatic logic [31:0] far(fluidnpu_formats_pkg::parts_t parts);
    far = parts.row_reach + parts.column_reach + {7'd0, parts.word, 1'b0};
  endfunction
  function automatic entry_t spec(
    fluidnpu_formats_pkg::parts_t parts, logic [CountWidth-1:0] words, logic [CountWidth-1:0] place
  );
    entry_t want;
    want.at.addr      = near(parts) + far(parts);
    want.at.lane      = parts.lane;
    want.at.rows      = parts.top + span_i;
    want.at.ends_beat = parts.ends_beat;
    want.words        = words;
    want.place        = place;
    spec              = want;
  endfunction
  function automatic logic same(pair_t one, pair_t other);  // of a second that is none nothing is said
    same = one.oldest == other.oldest && one.two == other.two && one.first == other.first
        && (!one.two || one.second == other.second);
  endfunction

  logic [1:0][31:0] near_q, far_q;  // of the pair at hand
  pair_t            in_parts, in_sums;  // what the parts and the halves at hand will make, given that these are its halves
  always_comb begin
    in_parts             = '0;
    in_parts.oldest      = parts_oldest_q;
    in_parts.two         = parts_two_q;
    in_parts.first       = spec(parts_q, words_q[0], place_q[0]);
    in_parts.second      = spec(second_parts_q, words_q[1], place_q[1]);
    in_parts.first.at.addr  = near_q[0] + far_q[0];
    in_parts.second.at.addr = near_q[1] + far_q[1];
    in_sums              = sums_q;
    in_sums.first.at.addr   = near_q[0] + far_q[0];
    in_sums.second.at.addr  = near_q[1] + far_q[1];
  end

  logic                             leaves, layer_start_q, was_shown_q, was_next_q;
  logic [31:0]                      was_oldest_q;
  logic [23:0]                      was_span_q;
  assign leaves = where_q == Shown && gone;
  always_ff @(posedge clk_i) begin
    past_q        <= 1'b1;
    level_q       <= !rst_ni ? '0 : level_q + $bits(level_q)'(sums_valid_q) - $bits(level_q)'(next && next_valid);
    was_span_q    <= span_i;
    layer_start_q <= !rst_ni || layer_start_i;
    was_oldest_q  <= oldest_o;
    was_shown_q   <= rst_ni && segment_valid_o && !gone;
    if (follow) begin
      want_q.oldest <= oldest_i;
      want_q.two    <= second_valid_i;
      near_q        <= {near(second_parts_i), near(segment_parts_i)};
      far_q         <= {far(second_parts_i), far(segment_parts_i)};
      want_q.first  <= spec(segment_parts_i, segment_words_i, segment_place_i);
      want_q.second <= spec(second_parts_i, second_words_i, second_place_i);
      ahead_q       <= inside_now - 4'(gone);
      idle_q        <= '0;
      half_q        <= 1'b0;
    end else begin
      if (gone && where_q != Shown) ahead_q <= ahead_q - 4'd1;
      idle_q <= where_q != Nowhere && ahead_q == '0 && !segment_valid_o ? idle_q + 3'd1 : '0;
      if (where_q == Shown && segment_valid_o && segment_ready_i) half_q <= 1'b1;
    end
    case (where_q)
      InParts: where_q <= InSums;
      InSums: begin
        where_q          <= InQueue;
        queued_q         <= pushed;
        place_q_in_queue <= level - $bits(level)'(next && next_valid);
      end
      InQueue: if (next) begin
        if (place_q_in_queue == '0) where_q <= Shown;
        place_q_in_queue <= place_q_in_queue - 1'b1;
      end
      Shown: if (leaves) where_q <= Nowhere;
      default: if (follow) where_q <= InParts;
    endcase
    if (!rst_ni) where_q <= Nowhere;
  end

  always_comb begin
    assume (rst_ni == past_q);
    // The queue, by its contract
    if (past_q) assume (level == level_q && room == (32'(level_q) < Depth) && next_valid == (level_q != '0));
    if (past_q && where_q == InQueue && place_q_in_queue == '0) assume (head == queued_q);
    if (past_q) begin
      // A second segment comes with a first; a layer begins when nothing of the one before is under way, and
      // its span stays while its segments come.
      if (second_valid_i) assume (segment_valid_i);
      if (layer_start_i) assume (inside_now == '0 && !segment_valid_i);
      if (parts_valid_q) assume (span_i == was_span_q);

      assert (32'(level) + 32'(parts_valid_q) + 32'(sums_valid_q) <= Depth);
      if (sums_valid_q) assert (room);
      assert (!first_gone_q || shown_q);
      assert (segment_valid_o == shown_q);
      case (where_q)
        InParts: begin
          assert (parts_valid_q && same(in_parts, want_q) && ahead_q == inside_now - 4'd1);
          assert (near(parts_q) == near_q[0] && far(parts_q) == far_q[0]);
          if (want_q.two) assert (near(second_parts_q) == near_q[1] && far(second_parts_q) == far_q[1]);
        end
        InSums: begin
          assert (sums_valid_q && same(in_sums, want_q) && ahead_q == 4'(shown_q) + 4'(level));
          assert (sums_q.first.at.addr == near_q[0] && reach_q[0] == far_q[0]);
          if (want_q.two) assert (sums_q.second.at.addr == near_q[1] && reach_q[1] == far_q[1]);
        end
        InQueue: assert (place_q_in_queue < level && same(queued_q, want_q) && ahead_q == 4'(shown_q) + 4'(place_q_in_queue));
        Shown: assert (shown_q && same(shown_pair_q, want_q) && ahead_q == '0 && half_q == first_gone_q);
        default: assert (where_q == Nowhere);
      endcase
      if (where_q != Nowhere) begin
        assert (32'(idle_q) <= (where_q == InParts ? 0 : where_q == InSums ? 1 : where_q == InQueue ? 2 : 3));
        if (where_q != Shown) assert (!half_q);
        // What the row buffer sees of the pair, when it is its turn
        if (ahead_q == '0 && segment_valid_o) begin
          assert (where_q == Shown && oldest_o == want_q.oldest && second_valid_o == (want_q.two && !half_q));
          assert ({segment_o, segment_words_o, segment_place_o}
              == (half_q ? want_q.second : want_q.first));
          if (half_q) assert (want_q.two);
          if (second_valid_o) assert ({second_o, second_words_o, second_place_o}
              == want_q.second);
        end
      end
      // The oldest place is that of the pair that is shown, or was last.
      if (layer_start_q) assert (oldest_o == '0);
      else if (was_shown_q || !segment_valid_o) assert (oldest_o == was_oldest_q);
      if (was_shown_q) assert (segment_valid_o);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && 32'(level) + 32'(sums_valid_q) + 32'(parts_valid_q) == Depth && shown_q);
    cover (past_q && where_q == Shown && half_q && segment_ready_i);
    cover (past_q && where_q == Shown && !half_q && second_valid_o && gone);
    cover (past_q && where_q == Shown && idle_q == 3'd0 && level == '0 && !want_q.two);
    cover (past_q && where_q == InQueue && idle_q == 3'd2);
    cover (past_q && where_q == Nowhere && layer_start_q && was_oldest_q != '0);
  end
`endif
`endif
