/// One accumulator bank: block RAM, or UltraRAM, with a write port and a read port that keeps its word until
/// the next read.
///
/// A row that is written in the cycle in which it is read gives its old word.
module core_bank #(
  parameter int unsigned Depth = 512,
  parameter int unsigned Width = 48,
  parameter bit Ultra = 1'b0,  // UltraScale+ only
  localparam int unsigned AddressBits = Depth > 1 ? $clog2(Depth) : 1
) (
  input  logic                   clk_i,        // clock
  input  logic                   write_i,      // writes a word
  input  logic [AddressBits-1:0] write_row_i,  // where
  input  logic [Width-1:0]       data_i,       // that word
  input  logic                   read_i,       // reads a word
  input  logic [AddressBits-1:0] read_row_i,   // where
  output logic [Width-1:0]       data_o        // the word read last
);
  if (Ultra) begin : gen_ultra
    (* ram_style = "ultra" *)logic [Width-1:0] store_q[Depth];

    always_ff @(posedge clk_i) begin
      if (write_i) store_q[write_row_i] <= data_i;
      if (read_i) data_o <= store_q[read_row_i];
    end
  end else begin : gen_block
    (* ram_style = "block" *)logic [Width-1:0] store_q[Depth];

    always_ff @(posedge clk_i) begin
      if (write_i) store_q[write_row_i] <= data_i;
      if (read_i) data_o <= store_q[read_row_i];
    end
  end
endmodule
