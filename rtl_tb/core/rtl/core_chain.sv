/// A cascade of multiply-accumulates: sum_o = head + the sum of x_i[k] * weight[k].
///
/// Word k is taken k cycles late. The head is `sum_i`, wanted two cycles after `x_i[0]`, or with `Head` =
/// HeadRegister one cycle after it, when `clear_i` makes it zero. `sum_o` follows Words cycles later.
/// `load_i` is passed on from word to word.
module core_chain #(
  parameter int unsigned Words = 4,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned Head = core_pkg::HeadRegister,
  localparam int unsigned SumBits = 48
) (
  input  logic                   clk_i,
  input  logic [Words-1:0][15:0] x_i,
  input  logic [Words-1:0][15:0] weight_i,
  input  logic                   load_i,
  input  logic [Words-1:0]       swap_i,
  input  logic                   clear_i,
  input  logic [SumBits-1:0]     sum_i,
  output logic [SumBits-1:0]     sum_o
);
  for (genvar i = 0; i < Words; i++) begin : gen_mac
    logic               load;
    logic [SumBits-1:0] sum, cascade_in, cascade;

    if (i == 0) begin : gen_first
      assign load       = load_i;
      assign cascade_in = '0;
    end else begin : gen_next
      logic load_q;
      always_ff @(posedge clk_i) load_q <= gen_mac[i-1].load;
      assign load       = load_q;
      assign cascade_in = gen_mac[i-1].cascade;
    end

    core_mac #(.Cells(Cells), .Head(i == 0 ? Head : core_pkg::HeadCascade)) u_mac (
      .clk_i, .x_i(x_i[i]), .weight_i(weight_i[i]), .load_i(load), .swap_i(swap_i[i]), .clear_i(i == 0 && clear_i),
      .sum_i(i == 0 ? sum_i : '0), .cascade_i(cascade_in), .cascade_o(cascade), .sum_o(sum)
    );
  end
  assign sum_o = gen_mac[Words-1].sum;
endmodule
