/// Replaces fluidnpu_row_addresses in proofs of its users: rows anywhere come at any pace and hold still until
/// they are taken.
///
/// Commands are taken at any time. A user's checker assumes the properties of the proof `ahead` beyond that.
module fluidnpu_row_addresses #(
  parameter int unsigned BMax = 4,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned Depth = 8,
  parameter bit Pools = 1'b0,
  parameter bit Filters = 1'b0,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                           clk_i,
  input  logic                           rst_ni,
  input  logic                           layer_start_i,
  input  logic [BMax-1:0][AddrWidth-1:0] slot_i,
  input  fluidnpu_formats_pkg::layer_t   layer_i,
  input  fluidnpu_pkg::pool_t            pool_i,
  input  logic [31:0]                    step_h_i,
  input  logic [31:0]                    step_w_i,
  input  logic [31:0]                    offset_i,
  input  logic                           command_valid_i,
  output logic                           command_ready_o,
  input  fluidnpu_formats_pkg::tile_t    command_i,
  output logic                           row_valid_o,
  input  logic                           row_ready_i,
  output logic [AddrWidth-1:0]           row_addr_o,
  output logic [11:0]                    row_cols_o,
  output logic                           row_new_o,
  output logic                           row_last_o,
  output logic                           busy_o
);
  (* anyseq *) logic                  command_ready, any_valid, any_new, any_last, busy;
  (* anyseq *) logic [AddrWidth-1:0]  any_addr;
  (* anyseq *) logic [11:0]           any_cols;
  logic                  held_q = 1'b0;
  logic [AddrWidth+13:0] held_row_q;

  assign command_ready_o = command_ready;
  assign busy_o          = busy;
  assign row_valid_o     = held_q || any_valid;
  assign {row_addr_o, row_cols_o, row_new_o, row_last_o} = held_q ? held_row_q : {any_addr, any_cols, any_new, any_last};
  always_ff @(posedge clk_i) begin
    held_q     <= rst_ni && row_valid_o && !row_ready_i;
    held_row_q <= {row_addr_o, row_cols_o, row_new_o, row_last_o};
  end
endmodule
