/// Multiplies two signed 16-bit words in four cycles, one product a cycle: in look-up tables or in a DSP slice.
///
/// In look-up tables it is Booth's method of radix 4 (A. D. Booth, 1951): eight rows, two in a cycle, each a chain
/// of 18 bits whose tables choose -2, -1, 0, 1 or 2 times `a_i` as well. A row leaves two bits of the product.
module fluidnpu_multiplier #(
  parameter bit Dsp = 1'b0
) (
  input  logic               clk_i,     // clock
  input  logic signed [15:0] a_i,       // one factor
  input  logic signed [15:0] b_i,       // the other; its bits choose the rows
  output logic signed [31:0] product_o  // of what came four cycles ago
);
  localparam int unsigned Steps = 4;

  if (Dsp) begin : gen_dsp
    logic signed [15:0] a_q, b_q;
    (* use_dsp = "yes" *) logic signed [31:0] product_q, shown_q;
    logic signed [31:0] left_q;

    always_ff @(posedge clk_i) begin
      a_q       <= a_i;
      b_q       <= b_i;
      product_q <= a_q * b_q;
      shown_q   <= product_q;
      left_q    <= shown_q;
    end
    assign product_o = left_q;
  end else begin : gen_luts
    // above + digit * a, where the digit is -2 * digit[2] + digit[1] + digit[0]. The lowest bit carries one in.
    function automatic logic signed [17:0] row(logic signed [17:0] above, logic signed [15:0] a, logic [2:0] digit);
      logic [17:0] some;
      logic [18:0] sum;
      some = digit[1] != digit[0] ? {{2{a[15]}}, a} : digit[2] != digit[1] ? {a[15], a, 1'b0} : 18'd0;
      sum  = {above, 1'b1} + {some ^ {18{digit[2]}}, digit[2]};
      row  = sum[18:1];
    endfunction

    for (genvar s = 0; s < Steps; s++) begin : gen_step
      logic signed [17:0]       above, upper, sum_q;
      logic signed [15:0]       a, a_q;
      logic        [16-4*s:0]   b;      // the bits that are left, and the one before them
      logic        [16-4*s:0]   b_q;
      logic        [4*s+1:0]    low_q;  // of the product
      if (s == 0) begin : gen_first
        assign above = '0;
        assign a     = a_i;
        assign b     = {b_i, 1'b0};
        always_ff @(posedge clk_i) low_q <= upper[1:0];
      end else begin : gen_next
        assign above = gen_step[s-1].sum_q >>> 2;
        assign a     = gen_step[s-1].a_q;
        assign b     = gen_step[s-1].b_q[20-4*s:4];
        always_ff @(posedge clk_i) low_q <= {upper[1:0], gen_step[s-1].sum_q[1:0], gen_step[s-1].low_q};
      end
      assign upper = row(above, a, b[2:0]);
      always_ff @(posedge clk_i) begin
        sum_q <= row(upper >>> 2, a, b[4:2]);
        a_q   <= a;
        b_q   <= b;
      end
    end
    assign product_o = {gen_step[Steps-1].sum_q, gen_step[Steps-1].low_q};
  end
endmodule
