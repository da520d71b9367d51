/// Replaces fluidnpu_multiplier in the proof of a lane: any product at all, which the checker follows.
module fluidnpu_multiplier #(
  parameter bit Dsp = 1'b0,
  parameter int unsigned ABits = 16,
  parameter int unsigned BBits = 16
) (
  input  logic               clk_i,
  input  logic signed [ABits-1:0] a_i,
  input  logic signed [BBits-1:0] b_i,
  output logic signed [ABits+BBits-1:0] product_o
);
  (* anyseq *) logic signed [ABits+BBits-1:0] product;
  assign product_o = product;
endmodule
