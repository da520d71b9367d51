/// A processing element whose tree can split (k = 1/2): two chains of TP / 2 with half a bank each.
///
/// Together they are one chain over banks of 2 * HalfRows rows, as `core_pe`. Split, the upper chain starts
/// from its own bank and both store their sums: `middle_i` says so for the lower one, which is done TP / 2
/// cycles earlier.
module core_pe_split #(
  parameter int unsigned TP = 4,
  parameter int unsigned HalfRows = 256,
  parameter int unsigned AccBits = 48,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned UltraBanks = 0,  // of its four
  localparam int unsigned SumBits = 48,
  localparam int unsigned AddressBits = HalfRows > 1 ? $clog2(HalfRows) : 1
) (
  input  logic                   clk_i,              // clock
  input  logic [TP-1:0][15:0]    x_i,                // word i comes late as `core_chain` says
  input  logic [TP-1:0][15:0]    weight_i,           // weights of the next P-tile, as late
  input  logic                   load_i,             // weight 0 comes
  input  logic [TP-1:0]          swap_i,             // the waiting weights become the active ones, as late as the word
  input  logic [AddressBits-1:0] read_row_i,         // where the sum so far lies
  input  logic [AddressBits-1:0] read_upper_row_i,   // the same in the upper half bank
  input  logic                   zero_i,             // a cycle after `read_row_i`: the sum starts from nothing
  input  logic                   from_upper_i,       // with `zero_i`: the row lies in the upper half bank
  input  logic                   zero_upper_i,       // TP / 2 cycles after `zero_i`
  input  logic                   split_i,            // a cycle after `zero_upper_i`
  output logic [SumBits-1:0]     sum_o,              // the sum of the whole, or of the upper chain
  input  logic [SumBits-1:0]     result_i,           // that sum, or that of the pair
  input  logic                   middle_i,           // the lower chain's own sum is stored
  input  core_pkg::store_t       store_i,            // where it, or the lower chain's own, goes in the lower banks
  input  logic [AddressBits-1:0] write_row_i,        // where
  input  core_pkg::store_t       store_upper_i,      // where `result_i` goes in the upper banks
  input  logic [AddressBits-1:0] write_upper_row_i,  // where
  input  logic                   fetch_i,            // reads both output banks
  input  logic [AddressBits-1:0] fetch_row_i,        // where
  output logic [AccBits-1:0]     row_o,              // the row read last of the lower one
  output logic [AccBits-1:0]     upper_row_o         // of the upper one
);  /*verilator no_inline_module*/
  localparam int unsigned Half = TP / 2;

  logic [AccBits-1:0] accumulated, upper_accumulated;
  logic [SumBits-1:0] start, upper_start_q, middle, stored;

  assign start = SumBits'($signed(from_upper_i ? upper_accumulated : accumulated));

  always_ff @(posedge clk_i) begin
    if (zero_upper_i) upper_start_q <= '0;
    else upper_start_q <= SumBits'($signed(upper_accumulated));
  end

  core_chain #(.Words(Half), .Cells(Cells)) u_lower (
    .clk_i, .x_i(x_i[Half-1:0]), .weight_i(weight_i[Half-1:0]), .load_i, .swap_i(swap_i[Half-1:0]), .clear_i(zero_i),
    .sum_i(start), .sum_o(middle)
  );

  logic [Half:0] load_q;
  assign load_q[0] = load_i;
  always_ff @(posedge clk_i) load_q[Half:1] <= load_q[Half-1:0];

  core_chain #(.Words(Half), .Cells(Cells), .Head(core_pkg::HeadDirect)) u_upper (
    .clk_i, .x_i(x_i[TP-1:Half]), .weight_i(weight_i[TP-1:Half]), .load_i(load_q[Half]), .swap_i(swap_i[TP-1:Half]),
    .clear_i(1'b0), .sum_i(split_i ? upper_start_q : middle), .sum_o
  );

  assign stored = middle_i ? middle : result_i;

  core_bank #(.Depth(HalfRows), .Width(AccBits), .Ultra(UltraBanks > 0)) u_accumulator (
    .clk_i, .write_i(store_i.partial), .write_row_i, .data_i(stored[AccBits-1:0]), .read_i(1'b1), .read_row_i, .data_o(accumulated)
  );
  core_bank #(.Depth(HalfRows), .Width(AccBits), .Ultra(UltraBanks > 1)) u_output (
    .clk_i, .write_i(store_i.final_sum), .write_row_i, .data_i(stored[AccBits-1:0]), .read_i(fetch_i), .read_row_i(fetch_row_i),
    .data_o(row_o)
  );
  core_bank #(.Depth(HalfRows), .Width(AccBits), .Ultra(UltraBanks > 2)) u_upper_accumulator (
    .clk_i, .write_i(store_upper_i.partial), .write_row_i(write_upper_row_i), .data_i(result_i[AccBits-1:0]), .read_i(1'b1),
    .read_row_i(read_upper_row_i), .data_o(upper_accumulated)
  );
  core_bank #(.Depth(HalfRows), .Width(AccBits), .Ultra(UltraBanks > 3)) u_upper_output (
    .clk_i, .write_i(store_upper_i.final_sum), .write_row_i(write_upper_row_i), .data_i(result_i[AccBits-1:0]), .read_i(fetch_i),
    .read_row_i(fetch_row_i), .data_o(upper_row_o)
  );
endmodule
