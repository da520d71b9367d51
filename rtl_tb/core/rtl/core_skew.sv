/// Delays word i of a vector by i / Step cycles, as a systolic chain takes it.
///
/// `Step` is one for a whole chain, and the length of a piece for a chain that breaks into pieces. `Segment` is the
/// length of chains side by side: each begins anew, and all end together, so that the first may be shorter.
module core_skew #(
  parameter int unsigned Words = 4,
  parameter int unsigned Width = 16,
  parameter int unsigned Step = 1,
  parameter int unsigned Segment = Words
) (
  input  logic                        clk_i,   // clock
  input  logic [Words-1:0][Width-1:0] data_i,  // words of one cycle
  output logic [Words-1:0][Width-1:0] data_o   // each word, late
);
  for (genvar i = 0; i < Words; i++) begin : gen_word
    localparam int unsigned Cycles = (i + Segment - 1 - (Words - 1) % Segment) % Segment / Step;

    if (Cycles == 0) begin : gen_now
      assign data_o[i] = data_i[i];
    end else begin : gen_later
      logic [Width-1:0] delay_q[Cycles];

      always_ff @(posedge clk_i) begin
        delay_q[0] <= data_i[i];
        for (int k = 1; k < Cycles; k++) delay_q[k] <= delay_q[k-1];
      end
      assign data_o[i] = delay_q[Cycles-1];
    end
  end
endmodule
