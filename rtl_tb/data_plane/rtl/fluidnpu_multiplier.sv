/// Multiplies two signed numbers, one product a cycle: in look-up tables, or in a DSP slice with `BBits` of 16.
///
/// In look-up tables it is Booth's method of radix 4 (A. D. Booth, 1951): a row for two bits of `b_i`, two rows in a
/// cycle, each a chain of `ABits` and two bits whose tables choose -2, -1, 0, 1 or 2 times `a_i` as well. A row leaves
/// two bits of the product.
module fluidnpu_multiplier #(
  parameter bit Dsp = 1'b0,
  parameter int unsigned ABits = 16,
  parameter int unsigned BBits = 16,  // a multiple of four
  localparam int unsigned Steps = BBits / 4
) (
  input  logic                          clk_i,     // clock
  input  logic signed [ABits-1:0]       a_i,       // one factor
  input  logic signed [BBits-1:0]       b_i,       // the other; its bits choose the rows
  output logic signed [ABits+BBits-1:0] product_o  // of what came `Steps` cycles ago
);
  if (BBits % 4 != 0 || BBits < 4 || (Dsp && BBits != 16)) begin : gen_illegal
    $fatal(1, "BBits must be a multiple of four, and 16 in a DSP slice in %m");
  end

  if (Dsp) begin : gen_dsp
    logic signed [ABits-1:0] a_q;
    logic signed [BBits-1:0] b_q;
    (* use_dsp = "yes" *) logic signed [ABits+BBits-1:0] product_q, shown_q;
    logic signed [ABits+BBits-1:0] left_q;

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
    function automatic logic signed [ABits+1:0] row(logic signed [ABits+1:0] above, logic signed [ABits-1:0] a, logic [2:0] digit);
      logic [ABits+1:0] some;
      logic [ABits+2:0] sum;
      some = digit[1] != digit[0] ? {{2{a[ABits-1]}}, a} : digit[2] != digit[1] ? {a[ABits-1], a, 1'b0} : '0;
      sum  = {above, 1'b1} + {some ^ {ABits + 2{digit[2]}}, digit[2]};
      row  = sum[ABits+2:1];
    endfunction

    for (genvar s = 0; s < Steps; s++) begin : gen_step
      logic signed [ABits+1:0]     above, upper, sum_q;
      logic signed [ABits-1:0]     a, a_q;
      logic        [BBits-4*s:0]   b;      // the bits that are left, and the one before them
      logic        [BBits-4*s:0]   b_q;
      logic        [4*s+1:0]       low_q;  // of the product
      if (s == 0) begin : gen_first
        assign above = '0;
        assign a     = a_i;
        assign b     = {b_i, 1'b0};
        always_ff @(posedge clk_i) low_q <= upper[1:0];
      end else begin : gen_next
        assign above = gen_step[s-1].sum_q >>> 2;
        assign a     = gen_step[s-1].a_q;
        assign b     = gen_step[s-1].b_q[BBits+4-4*s:4];
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
