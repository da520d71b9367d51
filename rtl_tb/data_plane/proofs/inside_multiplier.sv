// Inside fluidnpu_multiplier in look-up tables: its product is the sum of the digits times a_i, each four times
// the one before, and the same digits without a_i add up to b_i. So it is a_i times b_i. Both sums are followed
// step by step.
`ifdef FORMAL
  localparam int unsigned Most = ABits + BBits;
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  logic [4:0]                      known_q = '0;  // the inputs of as many cycles ago were seen
  logic signed [Steps:1][ABits-1:0] a_was_q;
  logic signed [Steps:1][BBits-1:0] b_was_q;
  logic signed [Steps:1][Most-1:0] value_q, product_q;  // the digits of b so far; times a
  function automatic logic signed [Most-1:0] times(logic [2:0] digit, logic signed [Most-1:0] a);  // -2 * digit[2] + digit[1] + digit[0]
    case (digit)
      3'b001, 3'b010: times = a;
      3'b011:         times = a <<< 1;
      3'b100:         times = -(a <<< 1);
      3'b101, 3'b110: times = -a;
      default:        times = '0;
    endcase
  endfunction
  always_ff @(posedge clk_i) begin
    known_q <= {known_q[3:0], 1'b1};
    a_was_q <= {a_was_q[Steps-1:1], a_i};
    b_was_q <= {b_was_q[Steps-1:1], b_i};
  end
  for (genvar s = 0; s < Steps; s++) begin : gen_said
    logic signed [ABits-1:0] a;
    logic signed [BBits-1:0] b;
    logic signed [Most-1:0] value, product;
    logic        [BBits:0]  padded;  // b, and the zero before it
    assign padded = {b, 1'b0};
    if (s == 0) begin : gen_first
      assign a       = a_i;
      assign b       = b_i;
      assign value   = '0;
      assign product = '0;
    end else begin : gen_next
      assign a       = a_was_q[s];
      assign b       = b_was_q[s];
      assign value   = value_q[s];
      assign product = product_q[s];
    end
    always_ff @(posedge clk_i) begin
      value_q[s+1]   <= value + (times(padded[4*s+:3], 1) <<< 4 * s) + (times(padded[4*s+2+:3], 1) <<< 4 * s + 2);
      product_q[s+1] <= product + (times(padded[4*s+:3], Most'(a)) <<< 4 * s) + (times(padded[4*s+2+:3], Most'(a)) <<< 4 * s + 2);
    end
    always_comb begin
      if (past_q && known_q[s]) begin
        assert (gen_luts.gen_step[s].a_q == a_was_q[s+1]);
        assert (gen_luts.gen_step[s].b_q == {b_was_q[s+1], 1'b0} >> 4 * s);
        assert ($signed(value_q[s+1]) == Most'($signed(b_was_q[s+1][4*s+3:0])));
        assert ($signed(product_q[s+1]) == Most'($signed({gen_luts.gen_step[s].sum_q, gen_luts.gen_step[s].low_q})));
      end
    end
  end
  always_comb begin
    assert ((known_q & (known_q + 5'd1)) == '0 && (past_q || known_q == '0));
    if (past_q && known_q[Steps-1]) assert (product_o == product_q[Steps] && value_q[Steps] == Most'($signed(b_was_q[Steps])));
`ifdef COVER
    cover (known_q[Steps-1] && product_o == Most'(1) << Most - 2);
`endif
  end
`endif
