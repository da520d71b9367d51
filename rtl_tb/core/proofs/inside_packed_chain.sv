// Inside core_packed_chain, for products of any words: while the two bits beside each slice add modulo 4 what its
// upper product adds, both sums come out exactly, however often the lower one has left its field on the way. The
// chain begins with sums that as many words can have.
`ifdef FORMAL
  logic past_q = 1'b0;
  logic [Words-1:0][23:0] upper, lower;
  logic [Words-1:0][1:0]  added_q, before_q;
  logic signed [23:0]     upper_1_q, lower_1_q, upper_2_q, lower_2_q;

  always_ff @(posedge clk_i) begin
    past_q    <= 1'b1;
    upper_1_q <= upper[Words-1];
    lower_1_q <= lower[Words-1];
    upper_2_q <= upper_1_q;
    lower_2_q <= lower_1_q;
  end
  for (genvar i = 0; i < Words; i++) begin : gen_word
    localparam logic signed [23:0] Most = (i + 1) * 128 * 127;
    logic [1:0] prior;
    logic       held;

    if (i == 0) begin : gen_first
      assign prior = '0;
    end else begin : gen_next
      assign prior = upper[i-1][1:0];
    end
    assign {upper[i], lower[i]} = gen_mac[i].cascade;
    assign held = gen_mac[i].side_q == upper[i][1:0] && $signed(upper[i]) <= Most && $signed(upper[i]) >= -Most
      && $signed(lower[i]) <= Most && $signed(lower[i]) >= -Most;
    always_ff @(posedge clk_i) begin
      added_q[i]  <= 2'(side_x_i[i] * gen_mac[i].active_q);
      before_q[i] <= prior;
    end
    always_comb begin
      if (past_q) assume (added_q[i] == upper[i][1:0] - before_q[i]);
      if (past_q) assert (held);
      else assume (held);
    end
  end

  // What the two steps behind the chain hold.
  localparam logic signed [23:0] All = Words * 128 * 127;
  logic first_held, second_held;
  assign first_held = low_q == lower_1_q[FieldBits-1:0] && left_q == lower_1_q[FieldBits+:2]
    && high_q == SumBits'(upper_1_q + (lower_1_q >>> FieldBits))
    && lower_1_q <= All && lower_1_q >= -All && upper_1_q <= All && upper_1_q >= -All;
  assign second_held = $signed(upper_o) == upper_2_q && $signed(lower_o) == lower_2_q;
  always_comb begin
    if (past_q) assert (first_held && second_held);
    else assume (first_held && second_held);
`ifdef COVER
    cover (past_q && $signed(lower_o) > 1 << (FieldBits - 1));
    cover (past_q && $signed(lower_o) < -(1 << FieldBits));
`endif
  end
`endif
