/// One output word: (sum + bias + (residual << residual_shift)) / 2**shift, half to even, limited to a word,
/// then to lo..hi.
///
/// Latency: eight cycles. Each input belongs to the word that entered as many cycles ago as its comment says.
/// `saturated_o` comes with `word_o`.
module core_requantise #(
  parameter int unsigned AccBits = 48,
  parameter int unsigned WordBits = 16
) (
  input  logic                      clk_i,             // clock
  input  logic                      enable_i,          // every step moves
  input  logic signed [WordBits-1:0] residual_i,       // 0: a residual
  input  logic        [4:0]         residual_shift_i,  // 1: bits that it is shifted left
  input  logic signed [AccBits-1:0] bias_i,            // 1: a bias
  input  logic signed [AccBits-1:0] sum_i,             // 2: a sum
  input  logic        [1:0]         coarse_shift_i,    // 4: sixteens of bits that the total is shifted right
  input  logic        [3:0]         fine_shift_i,      // 5: the rest of them
  input  logic signed [WordBits-1:0] lo_i,             // 7: lower bound
  input  logic signed [WordBits-1:0] hi_i,             // 7: upper bound
  output logic signed [WordBits-1:0] word_o,           // 8: the word
  output logic                      saturated_o        // 8: a word could not hold it
);
  localparam logic signed [WordBits+1:0] Most = (1 << (WordBits - 1)) - 1, Least = -(1 << (WordBits - 1));

  logic signed [WordBits-1:0] residual_1_q;
  logic signed [AccBits-1:0] residual_2_q, residual_3_q, bias_2_q, biased_3_q, value_4_q;

  always_ff @(posedge clk_i) begin
    if (enable_i) begin
      residual_1_q <= residual_i;
      residual_2_q <= AccBits'(residual_1_q) <<< residual_shift_i;
      bias_2_q     <= bias_i;
      residual_3_q <= residual_2_q;
      biased_3_q   <= sum_i + bias_2_q;
      value_4_q    <= biased_3_q + residual_3_q;
    end
  end

  // A guard bit below the value catches the half; a sticky bit remembers that anything below it was not zero.
  logic signed [AccBits:0] guarded, coarse, coarse_5_q, fine;
  logic                    lost_5_q, lost, over, up;
  logic        [15:0]      fine_mask;

  assign guarded   = {value_4_q, 1'b0};
  assign coarse    = guarded >>> {coarse_shift_i, 4'b0000};
  assign fine      = coarse_5_q >>> fine_shift_i;
  assign fine_mask = ~(16'hFFFF << fine_shift_i);
  assign lost      = lost_5_q || (coarse_5_q[15:0] & fine_mask) != '0;
  assign up        = fine[0] && (lost || fine[1]);
  assign over      = fine[AccBits:WordBits+1] != {(AccBits - WordBits) {fine[WordBits+1]}};

  logic signed [WordBits+1:0] rounded_6_q, limited;
  logic               over_6_q, negative_6_q, saturated_7_q, saturated_8_q;
  logic signed [WordBits-1:0] word_7_q, word_8_q;

  assign limited = over_6_q ? (negative_6_q ? 2 * Least : 2 * Most + 1'sb1) : rounded_6_q;

  always_ff @(posedge clk_i) begin
    if (enable_i) begin
      coarse_5_q    <= coarse;
      lost_5_q      <= coarse_shift_i[1] && guarded[31:0] != '0 || coarse_shift_i[0] && guarded[15:0] != '0;
      rounded_6_q   <= (WordBits + 2)'($signed(fine[WordBits+1:1])) + (WordBits + 2)'(up);
      over_6_q      <= over;
      negative_6_q  <= fine[AccBits];
      word_7_q      <= limited > Most ? Most[WordBits-1:0] : limited < Least ? Least[WordBits-1:0] : limited[WordBits-1:0];
      saturated_7_q <= limited > Most || limited < Least;
      word_8_q      <= word_7_q < lo_i ? lo_i : word_7_q > hi_i ? hi_i : word_7_q;
      saturated_8_q <= saturated_7_q;
    end
  end
  assign word_o      = word_8_q;
  assign saturated_o = saturated_8_q;
endmodule
