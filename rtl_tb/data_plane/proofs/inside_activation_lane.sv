// Inside fluidnpu_activation_lane, for any constants of a layer: four cycles behind a word the multiplier gets the
// factors of the definition (ADR 69), and the base that goes with them is the definition's; for an arbitrary place
// the piece is the one that was written there last. For any product four cycles later the word that leaves is the
// definition's: shifted, half up, the base added, limited to int16 and to the bounds. That the product is one of
// both factors is the proof `multiplier`.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // A layer: its use as the unit decodes it, and p.
  (* anyconst *) logic [1:0]          use_of;  // table, product, slope, affine
  (* anyconst *) logic [2:0]          window;
  (* anyconst *) logic [4:0]          shift;
  (* anyconst *) logic [15:0]         lo, hi;
  (* anyconst *) logic [RowWidth:0]   k;       // a place of a piece: its bank and row
  (* anyconst *) logic                bank;
  (* anyconst *) logic [31:0]         under, over;
  logic tables, multiplies, bends;
  assign tables     = use_of == 2'd0;
  assign multiplies = use_of == 2'd1;
  assign bends      = use_of == 2'd2;
  always_comb begin
    assume (unit_i.tables == tables && unit_i.multiplies == multiplies && unit_i.bends == bends);
    assume (unit_i.window == window && unit_i.shift == shift && unit_i.lo == lo && unit_i.hi == hi);
    assume (unit_i.beyond == (tables ? 7'h7F << window : 7'd0) && unit_i.bound == 8'd1 << window);
    assume (unit_i.rest == (tables ? (16'd1 << 32'(window) + 1) - 16'd1 : 16'hFFFF));
    assume (bank_i == bank && below_i == under && above_i == over);
  end

  // The definition: where a word's piece lies, the factor of its slope.
  function automatic logic signed [19:0] half();
    half = 20'sd256 <<< window;  // 2**p
  endfunction
  function automatic logic inside(logic signed [15:0] x);
    inside = !tables || (20'(x) >= -half() && 20'(x) < half());
  endfunction
  function automatic logic [RowWidth-1:0] index(logic signed [15:0] x);
    index = RowWidth'((20'(x) + half()) >>> (32'(window) + 1));
  endfunction
  function automatic logic signed [19:0] rest(logic signed [15:0] x);
    rest = !tables ? 20'(x) : !inside(x) ? (x < 0 ? 20'(x) + half() : 20'(x) - half())
         : (20'(x) + half()) & ((20'sd2 <<< window) - 20'sd1);
  endfunction

  // What came in, by age.
  logic [13:0]             known_q = '0;
  logic signed [15:0]      x1_q, x2_q, x3_q, x4_q, r1_q, r2_q, r3_q, r4_q;
  logic [RowWidth-1:0]     row2_q;
  logic [31:0]             held_q;              // at k
  logic                    held_known_q = 1'b0, met3_q = 1'b0;
  piece_t                  piece3_q, piece4_q, below_is, above_is;
  logic                    met4_q = 1'b0;
  assign below_is = under;
  assign above_is = over;
  always_ff @(posedge clk_i) begin
    known_q <= {known_q[12:0], 1'b1};
    {x1_q, x2_q, x3_q, x4_q} <= {word_i, x1_q, x2_q, x3_q};
    {r1_q, r2_q, r3_q, r4_q} <= {residual_i, r1_q, r2_q, r3_q};
    row2_q <= row_i;
    if (write_i && {write_bank_i, write_row_i} == k) begin
      held_q       <= write_piece_i;
      held_known_q <= 1'b1;
    end
    met3_q   <= held_known_q && {bank, tables ? index(x2_q) : row2_q} == k;
    piece3_q <= held_q;
    met4_q   <= met3_q;
    piece4_q <= piece3_q;
  end

  // Behind the multiplier: the product, and the base of four cycles before.
  logic signed [15:0] base5_q, base6_q, base7_q, base8_q, b9_q, b10_q, b11_q;
  logic signed [31:0] p9_q, p10_q, p11_q;
  logic               used_q;
  logic signed [32:0] rounded;
  logic signed [33:0] value11, value_q;
  always_ff @(posedge clk_i) begin
    {base5_q, base6_q, base7_q, base8_q} <= {base_4_q, base5_q, base6_q, base7_q};
    {b9_q, b10_q, b11_q} <= {base8_q, b9_q, b10_q};
    {p9_q, p10_q, p11_q} <= {product_8, p9_q, p10_q};
    used_q  <= used_i;
    value_q <= value11;
  end
  function automatic logic signed [32:0] shifted(logic signed [31:0] product);
    shifted = (33'(product) + $signed(33'((34'd1 << shift) >> 1))) >>> shift;
  endfunction
  assign value11 = 34'(shifted(p11_q)) + 34'(b11_q);
  logic signed [33:0] held_word, bounded;
  assign held_word = value_q > 34'sd32767 ? 34'sd32767 : value_q < -34'sd32768 ? -34'sd32768 : value_q;
  assign bounded   = held_word < 34'($signed(lo)) ? 34'($signed(lo)) : held_word > 34'($signed(hi)) ? 34'($signed(hi)) : held_word;

  always_comb begin
    assert ((known_q & (known_q + 14'd1)) == '0 && (past_q || known_q == '0));
    if (past_q) begin
      // 1 to 4
      if (known_q[0]) assert (word_1_q == x1_q && residual_1_q == r1_q);
      if (known_q[1]) assert (word_2_q == x2_q && residual_2_q == r2_q && outside_2_q == !inside(x2_q) && row_2_q == (tables && inside(x2_q) ? index(x2_q) : tables ? row_2_q : row2_q));
      if (held_known_q) assert (pieces_q[k] == held_q);
      if (known_q[2]) begin
        assert (residual_3_q == r3_q && factor_3_q == (bends && x3_q >= 0 ? 20'sd0 : rest(x3_q)) && passed_3_q == (bends && x3_q >= 0 ? x3_q : 16'sd0));
        assert (slope_from_3_q == (multiplies ? Other : inside(x3_q) ? Inside : x3_q < 0 ? Below : Above));
        assert (base_from_3_q == (multiplies || bends ? Other : inside(x3_q) ? Inside : x3_q < 0 ? Below : Above));
        if (met3_q && inside(x3_q)) assert (piece_3_q == piece3_q);
      end
      if (known_q[3]) begin
        assert (factor_4_q == (bends && x4_q >= 0 ? 20'sd0 : rest(x4_q)));
        if (multiplies) assert (slope_4_q == r4_q && base_4_q == 0);
        else if (!inside(x4_q)) assert (slope_4_q == (x4_q < 0 ? below_is.slope : above_is.slope) && base_4_q == (x4_q < 0 ? below_is.base : above_is.base));
        else if (met4_q) assert (slope_4_q == piece4_q.slope && (bends || base_4_q == piece4_q.base));
        if (bends) assert (base_4_q == (x4_q >= 0 ? x4_q : 16'sd0));
      end
      // 5 to 12
      if (known_q[0]) assert (base_5_q == base5_q);
      if (known_q[1]) assert (base_6_q == base6_q);
      if (known_q[2]) assert (base_7_q == base7_q);
      if (known_q[3]) assert (base_8_q == base8_q);
      if (known_q[4]) assert (base_9_q == b9_q && coarse_9_q == $signed({p9_q, 1'b0}) >>> {shift[4:3], 3'd0});
      if (known_q[5]) begin
        assert (base_10_q == b10_q && negative_10_q == p10_q[31]);
        if (!over_10_q) assert (33'(value_10_q) + 33'($signed({1'b0, up_10_q})) == shifted(p10_q));
        else assert (shifted(p10_q) >= 33'sd131071 || shifted(p10_q) <= -33'sd131072);
      end
      if (known_q[6]) begin
        assert (negative_11_q == p11_q[31]);
        if (!over_11_q) assert (34'(sum_11_q) == value11);
        else assert (negative_11_q ? value11 < -34'sd90000 : value11 > 34'sd90000);
      end
      if (known_q[7]) begin
        assert (word_o == (used_q ? bounded[15:0] : 16'd0) && saturated_o == (used_q && held_word != value_q));
      end
    end
`ifdef COVER
    cover (known_q[7] && used_q && saturated_o && word_o == 16'h1234);
    cover (known_q[3] && tables && x4_q < -16'sd20000 && window == 3'd3 && slope_4_q != 0);
    cover (known_q[3] && met4_q && tables && inside(x4_q) && piece4_q.slope == 16'sd77);
`endif
  end
`endif
