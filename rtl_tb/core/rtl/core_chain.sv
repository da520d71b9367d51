/// A cascade of multiply-accumulates: sum_o = head + the sum of x_i[k] * weight[k].
///
/// Word k is taken k cycles late. A chain breaks before each word whose number is a multiple of Piece: there
/// the sum goes over a register and port C instead of the cascade, so that the pieces may lie in columns of
/// their own, and all words from there on are taken a cycle later. The head is `sum_i`, wanted two cycles after `x_i[0]`, or with `Head` =
/// HeadRegister one cycle after it, when `clear_i` makes it zero. `sum_o` follows Words cycles later, and one
/// for each break.
/// `load_i` is passed on from word to word.
module core_chain #(
  parameter int unsigned Words = 4,
  parameter int unsigned Piece = Words,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned Head = core_pkg::HeadRegister,
  localparam int unsigned SumBits = 48
) (
  input  logic                   clk_i,     // clock
  input  logic [Words-1:0][15:0] x_i,       // word k, k cycles late
  input  logic [Words-1:0][15:0] weight_i,  // its weight, as late
  input  logic                   load_i,    // weight 0 comes; passed on from word to word
  input  logic [Words-1:0]       swap_i,    // the waiting weight becomes the active one, as late as the word
  input  logic                   clear_i,   // Head = HeadRegister: the head is zero
  input  logic [SumBits-1:0]     sum_i,     // the head
  output logic [SumBits-1:0]     sum_o      // the sum of the chain
);
  for (genvar i = 0; i < Words; i++) begin : gen_mac
    localparam bit Begins = i % Piece == 0;  // a piece
    logic               load;
    logic [SumBits-1:0] sum, head, cascade_in, cascade;

    if (i == 0) begin : gen_first
      assign load       = load_i;
      assign head       = sum_i;
      assign cascade_in = '0;
    end else begin : gen_next
      logic [1:0] load_q;
      always_ff @(posedge clk_i) load_q <= {load_q[0], gen_mac[i-1].load};
      assign load       = load_q[Begins];
      assign head       = Begins ? gen_mac[i-1].sum : '0;
      assign cascade_in = Begins ? '0 : gen_mac[i-1].cascade;
    end

    core_mac #(.Cells(Cells), .Head(i == 0 ? Head : Begins ? core_pkg::HeadRegister : core_pkg::HeadCascade)) u_mac (
      .clk_i, .x_i(x_i[i]), .weight_i(weight_i[i]), .load_i(load), .swap_i(swap_i[i]), .clear_i(i == 0 && clear_i),
      .sum_i(head), .cascade_i(cascade_in), .cascade_o(cascade), .sum_o(sum)
    );
  end
  assign sum_o = gen_mac[Words-1].sum;
endmodule
