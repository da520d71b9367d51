/// A cascade of multiply-accumulates: sum_o = sum_i + the sum of x_i[k] * weight[k]. Word k is taken k cycles late.
///
/// `sum_i` is wanted two cycles after `x_i[0]`; `sum_o` follows Words cycles later. `load_i` is passed on from word to word.
module core_chain #(
  parameter int unsigned Words = 4,
  localparam int unsigned SumBits = 48
) (
  input  logic                   clk_i,
  input  logic [Words-1:0][15:0] x_i,
  input  logic [Words-1:0][15:0] weight_i,
  input  logic                   load_i,
  input  logic [Words-1:0]       swap_i,
  input  logic [SumBits-1:0]     sum_i,
  output logic [SumBits-1:0]     sum_o
);
  for (genvar i = 0; i < Words; i++) begin : gen_mac
    logic               load;
    logic [SumBits-1:0] head, tail;

    if (i == 0) begin : gen_first
      assign load = load_i;
      assign head = sum_i;
    end else begin : gen_next
      logic load_q;
      always_ff @(posedge clk_i) load_q <= gen_mac[i-1].load;
      assign load = load_q;
      assign head = gen_mac[i-1].tail;
    end

    core_mac u_mac (
      .clk_i, .x_i(x_i[i]), .weight_i(weight_i[i]), .load_i(load), .swap_i(swap_i[i]), .sum_i(head), .sum_o(tail)
    );
  end
  assign sum_o = gen_mac[Words-1].tail;
endmodule
