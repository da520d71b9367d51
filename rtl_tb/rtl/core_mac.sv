/// One multiply-accumulate, one DSP slice: sum_o = sum_i + x_i * weight, two cycles after x_i was registered.
///
/// The weight has two registers, as the B port of a DSP: `load_i` fills the waiting one, `swap_i` makes it the active one.
module core_mac #(
  localparam int unsigned SumBits = 48
) (
  input  logic               clk_i,
  input  logic [15:0]        x_i,
  input  logic [15:0]        weight_i,
  input  logic               load_i,
  input  logic               swap_i,
  input  logic [SumBits-1:0] sum_i,
  output logic [SumBits-1:0] sum_o
);
  logic signed [15:0]        x_q, waiting_q, active_q;
  logic signed [31:0]        product_q;
  logic signed [SumBits-1:0] sum_q;

  always_ff @(posedge clk_i) begin
    x_q <= x_i;
    if (load_i) waiting_q <= weight_i;
    if (swap_i) active_q <= waiting_q;
    product_q <= x_q * active_q;
    sum_q     <= $signed(sum_i) + SumBits'(product_q);
  end
  assign sum_o = sum_q;
endmodule
