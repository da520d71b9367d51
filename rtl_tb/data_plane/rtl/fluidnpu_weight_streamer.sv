/// Copies a layer's weights to the core, once for each row block; the image has the stream's order.
///
/// A block's first command asks for all of its weights at once; they run ahead of the core as far as the
/// queues reach.
module fluidnpu_weight_streamer #(
  parameter int unsigned TP = 4,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                               clk_i,          // clock
  input  logic                               rst_ni,         // reset, synchronous
  input  logic [AddrWidth-1:0]               image_i,        // where the weight image begins
  input  fluidnpu_formats_pkg::layer_t       layer_i,        // the layer
  input  logic                               block_valid_i,  // a row block begins
  output logic                               block_ready_o,  // its weights are asked for
  output logic                               idle_o,         // every block asked for has been taken by the core
  output logic                               fetch_valid_o,  // a request for them
  input  logic                               fetch_ready_i,  // and is taken
  output logic [AddrWidth-1:0]               fetch_addr_o,   // its first byte
  output logic [31:0]                        fetch_beats_o,  // more than 2^24: a fully connected layer behind a narrow port
  input  logic                               data_valid_i,   // a word is there
  output logic                               data_ready_o,   // and is taken
  input  logic [PortWords*WordBits-1:0]      data_i,         // that word
  output logic                               beat_valid_o,   // a weight beat is there
  input  logic                               beat_ready_i,   // and is taken
  output logic [WeightSlots*TP*WordBits-1:0] beat_o          // that beat
);
  localparam int unsigned SkipWidth = PortWords > 1 ? $clog2(PortWords) : 1;

  logic job_ready, head_valid, head_ready;

  logic [31:0] head, left;
  assign idle_o = !block_valid_i && !head_valid && left == '0;

  if (PortWords * WordBits > 512) begin : gen_illegal
    $fatal(1, "weight parts begin on 64-byte boundaries, so a port has at most 64 bytes in %m");
  end

  assign fetch_valid_o = block_valid_i && job_ready;
  assign block_ready_o = fetch_valid_o && fetch_ready_i;
  always_ff @(posedge clk_i) begin  // settled before the layer's first block is asked for
    fetch_addr_o  <= image_i + AddrWidth'(layer_i.weights);
    fetch_beats_o <= layer_i.block_words / PortWords + 32'(layer_i.block_words % PortWords != '0);
  end

  common_fifo #(.Width(32), .Depth(2)) jobs (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(block_ready_o), .ready_o(job_ready), .data_i(layer_i.block_words),
    .valid_o(head_valid), .ready_i(head_ready), .data_o(head), .level_o()
  );

  fluidnpu_unpack #(.PortWords(PortWords), .BeatWords(WeightSlots * TP), .WordBits(WordBits)) unpack (
    .clk_i, .rst_ni, .job_valid_i(head_valid), .job_ready_o(head_ready), .job_skip_i(SkipWidth'(0)), .job_words_i(head),
    .port_valid_i(data_valid_i), .port_ready_o(data_ready_o), .port_i(data_i),
    .beat_valid_o, .beat_ready_i, .beat_o, .left_o(left), .missing_o()
  );
endmodule
