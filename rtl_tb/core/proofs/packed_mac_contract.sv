/// Replaces core_packed_mac in the proof of its chain: products of any words, told apart on the cascade.
///
/// `cascade_o` holds the sums of both weights, 24 bits each; `sum_o` is what a slice makes of them.
module core_packed_mac #(
  parameter int unsigned Cells = 0,
  parameter int unsigned FieldBits = 18,
  parameter bit First = 1'b0
) (
  input  logic        clk_i,
  input  logic [7:0]  x_i,
  input  logic [15:0] weight_i,
  input  logic        load_i,
  input  logic        swap_i,
  input  logic [47:0] cascade_i,
  output logic [47:0] cascade_o,
  output logic [47:0] sum_o
);
  localparam logic signed [23:0] Most = 128 * 127;
  (* anyseq *) logic signed [23:0] more_upper, more_lower;
  logic signed [23:0] upper_q, lower_q;

  always_ff @(posedge clk_i) begin
    upper_q <= cascade_i[47:24] + more_upper;
    lower_q <= cascade_i[23:0] + more_lower;
  end
  always_comb assume (more_upper <= Most && more_upper >= -Most && more_lower <= Most && more_lower >= -Most);
  assign cascade_o = {upper_q, lower_q};
  assign sum_o     = (48'(upper_q) << FieldBits) + 48'(lower_q);
endmodule
