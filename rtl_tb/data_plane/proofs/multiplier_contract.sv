/// Replaces fluidnpu_multiplier in the proof of a lane: any product at all, which the checker follows.
module fluidnpu_multiplier #(
  parameter bit Dsp = 1'b0
) (
  input  logic               clk_i,
  input  logic signed [15:0] a_i,
  input  logic signed [15:0] b_i,
  output logic signed [31:0] product_o
);
  (* anyseq *) logic signed [31:0] product;
  assign product_o = product;
endmodule
