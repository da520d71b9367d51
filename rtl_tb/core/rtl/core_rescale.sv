/// One output word of int8 (ADR 75): a scaled sum and a residual times its multiplier, shifted and limited.
///
/// rint((rint((sum + bias) * multiplier / 2**scale) + residual * residual_multiplier) / 2**shift), limited to
/// int8, then to lo..hi. `rint` rounds half to even.
///
/// Latency: 15 cycles. Each input belongs to the word that entered as many cycles ago as its comment says. The
/// residual's product comes of four digits of it, of -2..2, in LUTs. `saturated_o` comes with `word_o`.
module core_rescale #(
  localparam int unsigned AccBits = 32
) (
  input  logic                                 clk_i,                  // clock
  input  logic                                 enable_i,               // every step moves
  input  logic signed [7:0]                    residual_i,             // 0: a residual
  input  core_pkg::scaled_bias_t               bias_i,                 // 1: a bias, its channel's multiplier and shift
  input  logic signed [AccBits-1:0]            sum_i,                  // 2: a sum
  input  logic [3:0][15:0]                     residual_multiplier_i,  // 4, 5, 6, 7: factor of the residual
  input  logic [1:0]                           coarse_shift_i,         // 11: sixteens of bits that the total is shifted right
  input  logic [3:0]                           fine_shift_i,           // 12: the rest of them
  input  logic signed [7:0]                    lo_i,                   // 14: lower bound
  input  logic signed [7:0]                    hi_i,                   // 14: upper bound
  output logic signed [7:0]                    word_o,                 // 15: the word
  output logic                                 saturated_o             // 15: int8 could not hold it
);
  localparam int unsigned PartBits = 20;  // of a digit's product and what is carried to it, with a carry below

  core_pkg::scaled_bias_t    bias_2_q;
  logic signed [AccBits-1:0] value_3_q, value, product;
  logic [core_pkg::MultiplierBits-1:0] multiplier_3_q;
  logic [7:2][5:0]           scale_q;

  always_ff @(posedge clk_i) begin
    if (enable_i) begin
      bias_2_q       <= bias_i;
      value_3_q      <= sum_i + bias_2_q.bias;
      multiplier_3_q <= bias_2_q.multiplier;
      scale_q        <= {scale_q[6:2], bias_i.shift};
    end
  end
  core_scale u_scale (
    .clk_i, .enable_i, .value_i(value_3_q), .multiplier_i(multiplier_3_q), .coarse_shift_i(scale_q[6][5:4]),
    .fine_shift_i(scale_q[7][3:0]), .value_o(value)
  );

  // Digit d of the residual is -2 * bit 2d+1 + bit 2d + bit 2d-1. It is added in step 4 + d, the lowest first, above
  // the two bits that each step leaves behind.
  logic [7:1][7:0] residual_q;

  for (genvar d = 0; d < 4; d++) begin : gen_digit
    logic [7:0]                 residual;
    logic [2:0]                 digit;
    logic                       single, double_;
    logic signed [PartBits-2:0] prior, factor;
    logic [PartBits-1:0]        part_q;
    logic [5:0]                 left_q;

    assign residual = residual_q[4+d];
    assign digit    = 3'({residual, 1'b0} >> 2 * d);
    assign single   = digit[1] != digit[0];
    assign double_  = digit == 3'b011 || digit == 3'b100;
    assign factor   = single ? (PartBits - 1)'(residual_multiplier_i[d]) : double_ ? (PartBits - 1)'({residual_multiplier_i[d], 1'b0}) : '0;
    if (d == 0) begin : gen_first
      assign prior = '0;
      assign left_q = '0;
    end else begin : gen_next
      assign prior = (PartBits - 1)'($signed(gen_digit[d-1].part_q[PartBits-1:3]));
      always_ff @(posedge clk_i) begin
        if (enable_i) left_q <= {gen_digit[d-1].part_q[2:1], gen_digit[d-1].left_q[5:2]};
      end
    end
    // The lowest bit of both summands is the sign: their carry makes a complement of what is inverted.
    always_ff @(posedge clk_i) begin
      if (enable_i) part_q <= {prior, digit[2]} + {factor ^ {(PartBits - 1) {digit[2]}}, digit[2]};
    end
  end
  always_ff @(posedge clk_i) begin
    if (enable_i) residual_q <= {residual_q[6:1], residual_i};
  end
  assign product = AccBits'($signed({gen_digit[3].part_q[PartBits-1:1], gen_digit[3].left_q}));

  core_requantise #(.AccBits(AccBits), .WordBits(8)) u_requantise (
    .clk_i, .enable_i, .residual_i('0), .residual_shift_i('0), .bias_i(product), .sum_i(value), .coarse_shift_i, .fine_shift_i,
    .lo_i, .hi_i, .word_o, .saturated_o
  );
endmodule
