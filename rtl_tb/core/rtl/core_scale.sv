/// A sum times the multiplier of its channel: value_i * multiplier_i / 2**shift, half to even (ADR 75).
///
/// Two products of at most 18 x 18 bits, of which each has registers in and behind it. Latency: six cycles. Each
/// input belongs to the word that entered as many cycles ago as its comment says. The result must fit 32 bits.
module core_scale #(
  localparam int unsigned Bits = 32,
  localparam int unsigned MultiplierBits = core_pkg::MultiplierBits
) (
  input  logic                             clk_i,           // clock
  input  logic                             enable_i,        // every step moves
  input  logic signed [Bits-1:0]           value_i,         // 0: a sum
  input  logic        [MultiplierBits-1:0] multiplier_i,    // 0: its multiplier
  input  logic        [1:0]                coarse_shift_i,  // 3: sixteens of bits that the product is shifted right
  input  logic        [3:0]                fine_shift_i,    // 4: the rest of them
  output logic signed [Bits-1:0]           value_o          // 6: the result
);
  localparam int unsigned LowBits = 17;  // what DSP slices shift a sum right on its way from one to the next
  localparam int unsigned ProductBits = Bits + MultiplierBits;

  logic [LowBits+MultiplierBits-1:0]     low_1_q, low_2_q;
  logic signed [Bits-LowBits-1:0]        high_1_q;
  logic [MultiplierBits-1:0]             multiplier_1_q;
  logic signed [ProductBits-LowBits-1:0] high_2_q;
  logic signed [ProductBits-1:0]         product_3_q;

  always_ff @(posedge clk_i) begin
    if (enable_i) begin
      low_1_q        <= value_i[LowBits-1:0] * multiplier_i;
      high_1_q       <= value_i[Bits-1:LowBits];
      multiplier_1_q <= multiplier_i;
      low_2_q        <= low_1_q;
      high_2_q       <= high_1_q * $signed({1'b0, multiplier_1_q});
      product_3_q    <= {high_2_q + (ProductBits - LowBits)'(low_2_q[LowBits+:MultiplierBits]), low_2_q[LowBits-1:0]};
    end
  end

  // A guard bit below the value catches the half; a sticky bit remembers that anything below it was not zero.
  logic signed [ProductBits:0] guarded, coarse_4_q, fine;
  logic [Bits:0]               fine_5_q;
  logic [15:0]                 fine_mask;
  logic                        lost_4_q, lost, up_5_q;
  logic signed [Bits-1:0]      value_6_q;

  assign guarded   = {product_3_q, 1'b0};
  assign fine      = coarse_4_q >>> fine_shift_i;
  assign fine_mask = ~(16'hFFFF << fine_shift_i);
  assign lost      = lost_4_q || (coarse_4_q[15:0] & fine_mask) != '0;

  always_ff @(posedge clk_i) begin
    if (enable_i) begin
      coarse_4_q <= guarded >>> {coarse_shift_i, 4'b0000};
      lost_4_q   <= coarse_shift_i[1] && guarded[31:0] != '0 || coarse_shift_i[0] && guarded[15:0] != '0;
      fine_5_q   <= fine[Bits:0];
      up_5_q     <= fine[0] && (lost || fine[1]);
      value_6_q  <= fine_5_q[Bits:1] + Bits'(up_5_q);
    end
  end
  assign value_o = value_6_q;
endmodule
