/// Reads one 128-byte descriptor while `fetch_i` is held and shows it; `fetched_o` tells that all of it has
/// come. `layer_i` stands still from the cycle before `fetch_i` on, in which the address is added up.
module fluidnpu_descriptor_fetch #(
  parameter int unsigned PortWords = 8,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                              clk_i,          // clock
  input  logic                              rst_ni,         // reset, synchronous
  input  logic                              fetch_i,        // the descriptor is wanted, until it has come
  input  logic [AddrWidth-1:0]              program_i,      // where the program begins
  input  logic [15:0]                       layer_i,        // whose descriptor
  output logic                              fetched_o,      // all of it has come
  output fluidnpu_formats_pkg::descriptor_t descriptor_o,   // that descriptor
  output logic                              fetch_valid_o,  // a request for its words
  input  logic                              fetch_ready_i,  // and is taken
  output logic [AddrWidth-1:0]              fetch_addr_o,   // its first byte
  output logic [23:0]                       fetch_beats_o,  // its port words
  input  logic                              data_valid_i,   // a word is there
  output logic                              data_ready_o,   // and is taken
  input  logic [PortWords*16-1:0]           data_i          // that word
);
  localparam int unsigned Bytes = fluidnpu_formats_pkg::DescriptorBits / 8;
  localparam int unsigned Beats = Bytes / (PortWords * 2);

  logic               asked_q;
  logic [7:0]         got_q;
  logic [Beats-1:0][PortWords*16-1:0] words_q;  // each has an enable of its own

  if (PortWords < 2 || PortWords * 2 > Bytes || Bytes % (PortWords * 2) != 0) begin : gen_illegal
    $fatal(1, "a descriptor must be a whole number of port words in %m");
  end

  assign fetch_valid_o = fetch_i && !asked_q;
  assign fetch_beats_o = 24'(Beats);
  assign data_ready_o  = asked_q && got_q != 8'(Beats);
  assign fetched_o     = asked_q && got_q == 8'(Beats);
  assign descriptor_o  = words_q;

  always_ff @(posedge clk_i) begin
    fetch_addr_o <= program_i + (AddrWidth'(layer_i) << $clog2(Bytes));
    if (!rst_ni || !fetch_i) begin
      asked_q <= 1'b0;
      got_q   <= '0;
    end else begin
      if (fetch_valid_o && fetch_ready_i) asked_q <= 1'b1;
      if (data_valid_i && data_ready_o) got_q <= got_q + 8'd1;
    end
    for (int unsigned i = 0; i < Beats; i++) if (data_valid_i && data_ready_o && 32'(got_q) == i) words_q[i] <= data_i;
  end

  logic [15:0] before_q;
  always_ff @(posedge clk_i) begin
    before_q <= layer_i;
    if (rst_ni && fetch_i) assert (layer_i == before_q);
  end
endmodule
