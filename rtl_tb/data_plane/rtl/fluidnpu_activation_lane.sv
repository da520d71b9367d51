/// A lane of the activation unit: its pieces, its multiplier, and what follows a product, in twelve cycles (ADR 69).
///
/// Each input belongs to the word that entered as many cycles ago as its comment says. Nothing stops: who gives
/// words has kept room for them.
module fluidnpu_activation_lane #(
  parameter bit Dsp = 1'b0,
  parameter int unsigned WordBits = 16,
  localparam int unsigned RowWidth = $clog2(fluidnpu_pkg::PieceRows)
) (
  input  logic                       clk_i,         // clock
  input  fluidnpu_pkg::unit_t        unit_i,        // of the layer
  input  logic                       bank_i,        // of the layer
  input  logic [31:0]                below_i,       // of the layer's table: the piece below the window
  input  logic [31:0]                above_i,       // and the one above it
  input  logic signed [WordBits-1:0] word_i,        // 0
  input  logic signed [WordBits-1:0] residual_i,    // 0
  input  logic [RowWidth-1:0]        row_i,         // 1: of the channel
  input  logic                       used_i,        // 11: the lane has a column
  output logic [WordBits-1:0]        word_o,        // 12; 0 where the lane has none
  output logic                       saturated_o,   // 12
  input  logic                       write_i,       // a piece
  input  logic                       write_bank_i,  // into this bank,
  input  logic [RowWidth-1:0]        write_row_i,   // this row
  input  logic [31:0]                write_piece_i  // base in the low half, slope above
);
  typedef struct packed {  // as in memory: the low half first
    logic signed [15:0] slope;
    logic signed [15:0] base;
  } piece_t;
  typedef enum logic [1:0] {Inside, Below, Above, Other} source_e;

  // -- 1: the word, with its sign in front; 2: where its piece lies
  logic signed [15:0]  word_1_q, word_2_q, residual_1_q, residual_2_q;
  logic                outside_2_q, negative_2, passes;
  logic [RowWidth-1:0] row_2_q;
  logic [6:0]          segment;

  always_comb begin
    segment = 7'(word_1_q >> (4'(unit_i.window) + 4'd1));
  end
  always_ff @(posedge clk_i) begin
    word_1_q     <= 16'(word_i);
    residual_1_q <= 16'(residual_i);
    word_2_q     <= word_1_q;
    residual_2_q <= residual_1_q;
    outside_2_q  <= ((word_1_q[14:8] ^ {7{word_1_q[15]}}) & unit_i.beyond) != '0;
    row_2_q      <= unit_i.tables ? {!word_1_q[15], segment} : row_i;
  end

  // -- 3: the piece, and the factor of its slope: the word, what is left of it in its segment, or its distance
  // from the window. A word that passes is a base, and its factor is 0.
  (* ram_style = "block" *) logic [31:0] pieces_q [2*fluidnpu_pkg::PieceRows];
  piece_t             piece_3_q;
  logic signed [15:0] factor, factor_3_q, passed_3_q, residual_3_q;
  source_e            slope_from_3_q, base_from_3_q;

  assign negative_2 = word_2_q[15];
  assign passes     = unit_i.bends && !negative_2;
  assign factor     = (word_2_q & (unit_i.rest | {16{outside_2_q}}))
                    + (({unit_i.bound, 8'd0} ^ {16{!negative_2}}) & {16{outside_2_q}}) + 16'(outside_2_q && !negative_2);
  always_ff @(posedge clk_i) begin
    if (write_i) pieces_q[{write_bank_i, write_row_i}] <= write_piece_i;
    piece_3_q      <= pieces_q[{bank_i, row_2_q}];
    factor_3_q     <= passes ? '0 : factor;
    passed_3_q     <= passes ? word_2_q : '0;
    residual_3_q   <= residual_2_q;
    slope_from_3_q <= unit_i.multiplies ? Other : !outside_2_q ? Inside : negative_2 ? Below : Above;
    base_from_3_q  <= unit_i.multiplies || unit_i.bends ? Other : !outside_2_q ? Inside : negative_2 ? Below : Above;
  end

  // -- 4: both factors and what is added
  piece_t             below, above;
  logic signed [15:0] factor_4_q, slope_4_q, base_4_q;

  assign below = below_i;
  assign above = above_i;
  always_ff @(posedge clk_i) begin
    factor_4_q <= factor_3_q;
    case (slope_from_3_q)
      Inside:  slope_4_q <= piece_3_q.slope;
      Below:   slope_4_q <= below.slope;
      Above:   slope_4_q <= above.slope;
      default: slope_4_q <= residual_3_q;
    endcase
    case (base_from_3_q)
      Inside:  base_4_q <= piece_3_q.base;
      Below:   base_4_q <= below.base;
      Above:   base_4_q <= above.base;
      default: base_4_q <= passed_3_q;
    endcase
  end

  // -- 8: the product; 10: shifted, with the bit below it, which rounds; 11: the sum
  logic signed [WordBits+15:0] product_8;
  logic signed [32:0] coarse_9_q;
  logic signed [15:0] base_5_q, base_6_q, base_7_q, base_8_q, base_9_q, base_10_q;
  logic signed [17:0] value_10_q;
  logic               up_10_q, over_10_q, over_11_q, negative_10_q, negative_11_q;
  logic signed [18:0] fine;
  logic        [19:0] sum;
  logic signed [18:0] sum_11_q;
  logic        [14:0] upper;  // bits of `coarse_9_q` that are the sign's unless the value needs more than 18

  // A factor has no more bits than a word: a table of bytes has no value outside its window.
  fluidnpu_multiplier #(.Dsp(Dsp), .ABits(WordBits)) multiplier (.clk_i, .a_i(factor_4_q[WordBits-1:0]), .b_i(slope_4_q), .product_o(product_8));

  assign fine  = 19'(coarse_9_q >>> unit_i.shift[2:0]);
  assign upper = coarse_9_q[32:18] ^ {15{coarse_9_q[32]}};
  assign sum   = {base_10_q[15], base_10_q[15], base_10_q[15], base_10_q, 1'b1} + {value_10_q[17], value_10_q, up_10_q};
  always_ff @(posedge clk_i) begin
    coarse_9_q    <= 33'($signed({product_8, 1'b0})) >>> {unit_i.shift[4:3], 3'd0};
    value_10_q    <= fine[18:1];
    up_10_q       <= fine[0];
    over_10_q     <= (upper & (15'h7FFF << unit_i.shift[2:0])) != '0;
    negative_10_q <= coarse_9_q[32];
    sum_11_q      <= sum[19:1];
    over_11_q     <= over_10_q;
    negative_11_q <= negative_10_q;
    base_5_q      <= base_4_q;
    base_6_q      <= base_5_q;
    base_7_q      <= base_6_q;
    base_8_q      <= base_7_q;
    base_9_q      <= base_8_q;
    base_10_q     <= base_9_q;
  end

  // -- 12: what leaves. The bounds lie within a word, so that nothing is limited twice.
  logic [WordBits-1:0] word_12_q;
  logic               saturated_12_q;

  always_ff @(posedge clk_i) begin
    saturated_12_q <= used_i && (over_11_q || sum_11_q[18:WordBits-1] != {20 - WordBits{sum_11_q[18]}});
    if (!used_i) word_12_q <= '0;
    else if (over_11_q ? negative_11_q : sum_11_q < 19'($signed(unit_i.lo))) word_12_q <= unit_i.lo[WordBits-1:0];
    else if (over_11_q || sum_11_q > 19'($signed(unit_i.hi))) word_12_q <= unit_i.hi[WordBits-1:0];
    else word_12_q <= sum_11_q[WordBits-1:0];
  end
  assign word_o      = word_12_q;
  assign saturated_o = saturated_12_q;
endmodule
