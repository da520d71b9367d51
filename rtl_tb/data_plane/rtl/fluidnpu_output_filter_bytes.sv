/// The arithmetic of a filter's lane where words are bytes: nine products, their sum, its multiplier and limits (ADR 75).
///
/// Each input belongs to the position that was given as many cycles ago as its comment says, as in
/// `fluidnpu_output_filter_lane`, which has that of 16-bit words. Products and sums are look-up tables. A window's bias,
/// multiplier and shift come with its first step.
module fluidnpu_output_filter_bytes #(
  parameter int unsigned Taps = 9,  // of a step, in the order of a cascade: the last one first
  parameter bit Several = 1'b0,     // a window may have more than one step
  localparam int unsigned Pairs = 5
) (
  input  logic                          clk_i,        // clock
  input  logic signed [Taps-1:0][7:0]   taps_i,       // 5: of a step
  input  logic        [Pairs-1:0][31:0] constants_i,  // 5: the weights, then half of the bias; 11: the rest
  input  logic                          first_i,      // 12: the first step of a window
  input  logic signed [7:0]             lo_i,         // of the layer: the lower bound of the word
  input  logic signed [7:0]             hi_i,         // and the upper one
  output logic        [7:0]             word_o,       // 23: what leaves
  output logic                          saturated_o   // 23: int8 could not hold it
);
  localparam int unsigned Sums = 32;
  localparam int unsigned Late = 2;  // cycles that 16-bit words take longer

  if (Taps != 9) begin : gen_illegal
    $fatal(1, "Taps must be 9 in %m");
  end

  // -- 6: the factors; 8: their products; 12: the sum of a step
  logic signed [Taps-1:0][15:0] products_8;
  for (genvar m = 0; m < Taps; m++) begin : gen_tap
    logic signed [7:0] tap_6_q, weight_6_q;
    always_ff @(posedge clk_i) begin
      tap_6_q    <= taps_i[m==Taps-1?0:m+1];
      weight_6_q <= constants_i[m/4][8*(m%4)+:8];
    end
    fluidnpu_multiplier #(.ABits(8), .BBits(8)) multiplier (.clk_i, .a_i(tap_6_q), .b_i(weight_6_q), .product_o(products_8[m]));
  end

  logic signed [3:0][16:0] twos_9_q;
  logic signed [1:0][17:0] fours_10_q;
  logic signed [18:0]      eight_11_q;
  logic signed [2:0][15:0] last_q;  // the product of the last tap, in cycles 9, 10 and 11
  logic signed [19:0]      step_12_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < 4; i++) twos_9_q[i] <= 17'($signed(products_8[2*i])) + 17'($signed(products_8[2*i+1]));
    for (int unsigned i = 0; i < 2; i++) fours_10_q[i] <= 18'($signed(twos_9_q[2*i])) + 18'($signed(twos_9_q[2*i+1]));
    eight_11_q <= 19'($signed(fours_10_q[0])) + 19'($signed(fours_10_q[1]));
    last_q     <= {last_q[1:0], products_8[Taps-1]};
    step_12_q  <= 20'(eight_11_q) + 20'($signed(last_q[2]));
  end

  // -- 13: the sum of a window; its multiplier and its shift stay at hand for all of its steps
  logic        [11:6][15:0]                   low_q;  // of the bias, on its way
  logic        [Sums-1:0]                     bias_12;
  logic        [15:0]                         low_12_q, high_12_q;
  logic        [core_pkg::MultiplierBits-1:0] multiplier_12_q, multiplier_13_q;
  logic        [5:0]                          shift_12_q;
  logic        [17:13][5:0]                   shift_q;
  logic signed [Sums-1:0]                     sum_13_q, scaled_19;
  logic                                       goes_on;

  assign goes_on = Several && !first_i;
  assign bias_12 = {high_12_q, low_12_q};
  always_ff @(posedge clk_i) begin
    low_q           <= {low_q[10:6], constants_i[2][31:16]};
    low_12_q        <= low_q[11];
    high_12_q       <= constants_i[3][15:0];
    multiplier_12_q <= {constants_i[4][0], constants_i[3][31:16]};
    shift_12_q      <= constants_i[4][13:8];
    sum_13_q        <= Sums'(step_12_q) + (goes_on ? sum_13_q : $signed(bias_12));
    shift_q         <= {shift_q[16:13], shift_12_q};
    if (goes_on) shift_q[13] <= shift_q[13];
    else multiplier_13_q <= multiplier_12_q;
  end

  // -- 19: multiplied and shifted; 21: the word. The bounds lie within int8, so that nothing is limited twice.
  core_scale scale (
    .clk_i, .enable_i(1'b1), .value_i(sum_13_q), .multiplier_i(multiplier_13_q), .coarse_shift_i(shift_q[16][5:4]),
    .fine_shift_i(shift_q[17][3:0]), .value_o(scaled_19)
  );

  logic                 over_20_q, negative_20_q;
  logic signed [7:0]    word_20_q;
  logic [Late:0][7:0]   word_q;       // from cycle 21 on
  logic [Late:0]        saturated_q;
  always_ff @(posedge clk_i) begin
    over_20_q     <= scaled_19[Sums-1:7] != {Sums - 7{scaled_19[Sums-1]}};
    negative_20_q <= scaled_19[Sums-1];
    word_20_q     <= scaled_19[7:0];
    word_q        <= {word_q[Late-1:0], word_20_q};
    if (over_20_q ? negative_20_q : word_20_q < lo_i) word_q[0] <= lo_i;
    else if (over_20_q || word_20_q > hi_i) word_q[0] <= hi_i;
    saturated_q   <= {saturated_q[Late-1:0], over_20_q};
  end
  assign word_o      = word_q[Late];
  assign saturated_o = saturated_q[Late];
endmodule
