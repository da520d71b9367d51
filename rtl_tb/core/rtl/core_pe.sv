/// A processing element: a chain of TP multiply-accumulates, its accumulator bank and its output bank.
///
/// Partial sums circulate through the accumulator bank and the C port of the first multiply-accumulate, so
/// that nothing but DSPs adds. Those of the last P-tile go to the output bank instead, which drains while the
/// next command computes: that is the double buffer. `sum_o` comes back as `result_i`, by way of the pair
/// adder where there is one. With split trees use `core_pe_split`.
module core_pe #(
  parameter int unsigned TP = 4,
  parameter int unsigned TR = 512,
  parameter int unsigned AccBits = 48,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned UltraBanks = 0,  // of its two
  parameter int unsigned Piece = TP,      // of its chain
  localparam int unsigned SumBits = 48,
  localparam int unsigned AddressBits = TR > 1 ? $clog2(TR) : 1
) (
  input  logic                   clk_i,        // clock
  input  logic [TP-1:0][15:0]    x_i,          // word i comes late as `core_chain` says, as do weight i and swap i
  input  logic [TP-1:0][15:0]    weight_i,     // weights of the next P-tile
  input  logic                   load_i,       // weight 0 comes
  input  logic [TP-1:0]          swap_i,       // the waiting weights become the active ones
  input  logic [AddressBits-1:0] read_row_i,   // where the sum so far lies
  input  logic                   zero_i,       // a cycle after `read_row_i`
  output logic [SumBits-1:0]     sum_o,        // the chain's sum
  input  logic [SumBits-1:0]     result_i,     // that sum, or that of the pair
  input  core_pkg::store_t       store_i,      // where it goes
  input  logic [AddressBits-1:0] write_row_i,  // where
  input  logic                   fetch_i,      // reads the output bank
  input  logic [AddressBits-1:0] fetch_row_i,  // where
  output logic [AccBits-1:0]     row_o         // the row read last
);  /*verilator no_inline_module*/
  logic [AccBits-1:0] accumulated;
  logic [SumBits-1:0] start;

  assign start = SumBits'($signed(accumulated));

  core_chain #(.Words(TP), .Piece(Piece), .Cells(Cells)) u_chain (
    .clk_i, .x_i, .weight_i, .load_i, .swap_i, .clear_i(zero_i), .sum_i(start), .sum_o
  );

  core_bank #(.Depth(TR), .Width(AccBits), .Ultra(UltraBanks > 0)) u_accumulator (
    .clk_i, .write_i(store_i.partial), .write_row_i, .data_i(result_i[AccBits-1:0]), .read_i(1'b1), .read_row_i,
    .data_o(accumulated)
  );
  core_bank #(.Depth(TR), .Width(AccBits), .Ultra(UltraBanks > 1)) u_output (
    .clk_i, .write_i(store_i.final_sum), .write_row_i, .data_i(result_i[AccBits-1:0]), .read_i(fetch_i), .read_row_i(fetch_row_i),
    .data_o(row_o)
  );
endmodule
