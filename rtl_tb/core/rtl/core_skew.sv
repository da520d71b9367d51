/// Delays word i of a vector by i cycles, as a systolic chain takes it.
module core_skew #(
  parameter int unsigned Words = 4,
  parameter int unsigned Width = 16
) (
  input  logic                        clk_i,
  input  logic [Words-1:0][Width-1:0] data_i,
  output logic [Words-1:0][Width-1:0] data_o
);
  assign data_o[0] = data_i[0];

  for (genvar i = 1; i < Words; i++) begin : gen_word
    logic [Width-1:0] delay_q[i];

    always_ff @(posedge clk_i) begin
      delay_q[0] <= data_i[i];
      for (int k = 1; k < i; k++) delay_q[k] <= delay_q[k-1];
    end
    assign data_o[i] = delay_q[i-1];
  end
endmodule
