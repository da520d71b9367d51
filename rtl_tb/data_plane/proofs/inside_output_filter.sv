// Inside fluidnpu_output_filter, for any walk of positions and any words of the lanes: each lane is told, as late as it
// wants it, where the column and the window of a position lie and what of them is zero. A window that leaves has its
// steps to itself, one after another from its first row of weights on, and its beat comes just 22 + steps cycles behind
// the one that was given, with the lanes that have a column. None is lost, since all under way fit the queue. Positions
// outside the map take no beat. Beats of a layer without a filter pass unchanged.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  (* anyconst *) logic [3:0] kernel;
  (* anyconst *) logic       bank;
  logic [2:0] per_window;
  assign per_window = kernel < 4'd4 ? 3'd1 : kernel == 4'd4 ? 3'd2 : 3'd3;

  // What was given in the last cycles, the newest lowest: a position, one whose window leaves.
  localparam int unsigned Whole = 25;  // to the queue, of the longest window
  logic [Whole:1] gave_q = '0, left_q = '0;
  place_t         told_1_q, told_2_q, told_3_q, told_4_q;
  logic [4:1][WeightWidth-1:0] weights_of_q;
  logic [15:0]    word_1_q;
  always_ff @(posedge clk_i) begin
    gave_q       <= rst_ni ? {gave_q[Whole-1:1], give} : '0;
    left_q       <= rst_ni ? {left_q[Whole-1:1], give && windows.ends_w && windows.ends_h} : '0;
    told_1_q     <= given;
    told_2_q     <= told_1_q;
    told_3_q     <= told_2_q;
    told_4_q     <= told_3_q;
    weights_of_q <= {weights_of_q[3:1], weight_q};
    word_1_q     <= outside ? '0 : beat_i[15:0];
  end

  // A window that is at work: its steps so far, its first row of weights.
  logic [2:0]             step_3_q = '0, step_5_q = '0;
  logic [WeightWidth-1:0] begins_3_q;
  always_ff @(posedge clk_i) begin
    step_3_q <= !rst_ni ? '0 : left_q[2] ? 3'd1 : step_3_q == per_window ? '0 : step_3_q + 3'(step_3_q != '0);
    step_5_q <= !rst_ni ? '0 : left_q[4] ? 3'd1 : step_5_q == per_window ? '0 : step_5_q + 3'(step_5_q != '0);
    if (left_q[2]) begins_3_q <= weights_of_q[2];
  end

  // Beats under way, and in the queue as the proof `fifo` has it.
  logic [5:0] stored_q = '0;
  logic [6:0] under_way;
  always_ff @(posedge clk_i) stored_q <= !rst_ni ? '0 : stored_q + 6'(comes) - 6'(left);
  always_comb begin
    under_way = 7'(stored_q);
    for (int unsigned i = 1; i <= Whole; i++) if (i < 23 + 32'(per_window)) under_way = under_way + 7'(left_q[i]);
  end
  logic arrives;  // the beat of this age
  assign arrives = per_window == 3'd1 ? left_q[23] : per_window == 3'd2 ? left_q[24] : left_q[25];

  always_comb begin
    assume (rst_ni == past_q);
    assume (kernel == 4'd0 || (kernel >= 4'd2 && kernel <= 4'd5));
    assume (layer_i.filter_kernel == kernel && layer_i.filter_steps == per_window);
    assume (fits == (stored_q != 6'(Depth)) && kept_valid == (stored_q != '0));
    if (command_valid_i) assume (command_i.cols != '0);
    if (layer_start_i) assume (level_q == '0 && !walks && !command_valid_i);
    // Places of the program: every entry is there. A row of the map is so wide that it is used again no sooner.
    if (give) begin
      assume (32'(base_q) + 32'(beat_q) < Windows && 32'(weight_q) + 32'(steps_q) <= Weights);
      assume (position.offset + 32'(beat_q) < Rows);
      if (given.stored) begin
        assume (!(gave_q[1] && told_1_q.stored) || told_1_q.row != given.row);
        assume (!(gave_q[2] && told_2_q.stored) || told_2_q.row != given.row);
        assume (!(gave_q[3] && told_3_q.stored) || told_3_q.row != given.row);
      end
    end
    if (past_q) begin
      if (walks) assert (rest_q != '0 && cols_q != '0 && pixel_ends_q == (32'(rest_q) <= OutWords));
      if (gave_q != '0) assert (uses_q && kernel != '0 && steps_q == per_window && one_step_q == (per_window == 3'd1) && deep_q == (kernel > 4'd3));

      // A position on its way
      assert (valid_q == gave_q[4:1] && valid_4_q == gave_q[4] && !(left_q & ~gave_q));
      if (gave_q[1]) assert (place_1_q == told_1_q && told_1_q.leaves == left_q[1] && weight_row_q[1] == weights_of_q[1]);
      if (gave_q[2]) assert (place_2_q == told_2_q && told_2_q.leaves == left_q[2] && weight_row_q[2] == weights_of_q[2]);
      if (gave_q[3]) assert (place_3_q == told_3_q && told_3_q.leaves == left_q[3]);
      if (gave_q[4]) assert (leaves_4_q == told_4_q.leaves && lanes_4_q == told_4_q.lanes && told_4_q.leaves == left_q[4]);
      if (gave_q[1]) assert (row_1_q == told_1_q.row && beat_1_q[15:0] == word_1_q);
      if (gave_q[3]) assert (no_rows_3_q == told_3_q.no_rows);
      if (gave_q[4]) assert (row_4_q == told_4_q.row && window_4_q == told_4_q.window && no_columns_4_q == told_4_q.no_columns);
      assert (store_4_q == (gave_q[4] && told_4_q.stored) && store_deep_4_q == (store_4_q && kernel > 4'd3));

      // A window that leaves has its steps to itself
      for (int unsigned i = 2; i <= 8; i++)
        for (int unsigned j = 1; j < i; j++)
          if (i - j < 32'(per_window) && left_q[i]) assert (!gave_q[j]);
      assert (free_q == !((left_q[1] && per_window > 3'd1) || (left_q[2] && per_window > 3'd2)));
      if (!free_q) assert (hold_q == (left_q[1] ? per_window - 3'd1 : 3'd1));
      assert (step_5_q == (left_q[5] ? 3'd1 : left_q[6] && per_window > 3'd1 ? 3'd2 : left_q[7] && per_window > 3'd2 ? 3'd3 : 3'd0));
      assert (step_3_q == (left_q[3] ? 3'd1 : left_q[4] && per_window > 3'd1 ? 3'd2 : left_q[5] && per_window > 3'd2 ? 3'd3 : 3'd0));
      if (step_3_q != '0) assert (weight_at_q[3][WeightWidth-1:0] == begins_3_q + WeightWidth'(step_3_q - 3'd1));
      if (step_5_q != '0) assert (first_5_q == (step_5_q == 3'd1) && done_5 == (step_5_q == per_window));
      else assert (!done_5);
      if (step_5_q != '0) assert (gen_steps.left_5_q == per_window - step_5_q + 3'd1);
      else assert (gen_steps.left_5_q == '0);
      if (step_5_q != '0 && kernel == 4'd5) assert (choice_5_q == 3'd4 + step_5_q - 3'd1);
      if (step_5_q != '0 && kernel == 4'd4) assert (choice_5_q == 3'd2 + step_5_q - 3'd1);
      if (step_5_q != '0 && kernel < 4'd4) assert (choice_5_q == 3'(kernel) - 3'd2);
      for (int unsigned i = 0; i < Tail; i++)
        assert (done_q[i] == (per_window == 3'd1 ? left_q[6+i] : per_window == 3'd2 ? left_q[7+i] : left_q[8+i]));
      assert (comes == arrives);

      // None is lost
      assert (7'(level_q) == under_way && 32'(level_q) <= Depth && (!room_q || 32'(level_q) < Depth));
      if (comes) assert (fits);
      if (give) assert (outside || (beat_valid_i && beat_ready_o));
      if (beat_ready_o && kernel != '0 && uses_q) assert (give && !outside);
      if (!uses_q) assert (filtered_valid_o == beat_valid_i && filtered_o == beat_i && beat_ready_o == filtered_ready_i && filtered_lanes_o == '1 && !give);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && comes && kernel == 4'd5);
    cover (past_q && give && outside && left_q[3] && kernel == 4'd3);
    cover (past_q && !uses_q && filtered_valid_o && filtered_ready_i);
  end
`endif
`endif
