/// Descriptors and weights of any layer are read from exactly the port words that hold them.
module addresses_proof (
  input logic                   clk_i,
  input logic                   fetch_i,
  input logic [39:0]            program_i,
  input logic [15:0]            layer_index_i,
  input logic [39:0]            image_i,
  input fluidnpu_formats_pkg::layer_t   layer_i,
  input logic                   block_valid_i,
  input logic                   ready_i,
  input logic                   data_valid_i,
  input logic [63:0]            data_i
);
  localparam int unsigned PortBytes = 8;
  logic rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  // Layer and image stand still from a cycle before the first block is asked for.
  (* anyconst *) fluidnpu_formats_pkg::layer_t layer;
  (* anyconst *) logic [39:0]                  image;
  logic settled_q = 1'b0;
  always_ff @(posedge clk_i) settled_q <= rst_n;
  always_comb begin
    assume (layer_i == layer && image_i == image);
    if (!settled_q) assume (!block_valid_i);
  end
  // As START and the planner demand: 64-byte boundaries, addresses of 40 bits. A block has any number of
  // words.
  always_comb assume (program_i[5:0] == '0 && image_i[5:0] == '0 && layer_i.weights[5:0] == '0);
  always_comb assume (program_i[39] == '0 && image_i[39] == '0);
  // The layer to be fetched stands still from the cycle before (the proof `sequencer`), and so does the program.
  logic [39:0] before_program_q;
  logic [15:0] before_index_q;
  always_ff @(posedge clk_i) begin
    before_program_q <= program_i;
    before_index_q   <= layer_index_i;
  end
  always_comb if (fetch_i) assume (settled_q && program_i == before_program_q && layer_index_i == before_index_q);

  logic d_valid, w_valid;
  logic [39:0] d_addr, w_addr, w_end, weights_end;
  logic [23:0] d_beats;
  logic [31:0] w_beats;

  fluidnpu_descriptor_fetch #(.PortWords(4)) descriptor (
    .clk_i, .rst_ni(rst_n), .fetch_i, .program_i, .layer_i(layer_index_i), .fetched_o(), .descriptor_o(), .fetch_valid_o(d_valid),
    .fetch_ready_i(ready_i), .fetch_addr_o(d_addr), .fetch_beats_o(d_beats), .data_valid_i, .data_ready_o(), .data_i
  );
  fluidnpu_weight_streamer #(.TP(4), .WeightSlots(1), .PortWords(4)) weights (
    .clk_i, .rst_ni(rst_n), .image_i, .layer_i, .block_valid_i, .block_ready_o(), .idle_o(), .fetch_valid_o(w_valid),
    .fetch_ready_i(ready_i), .fetch_addr_o(w_addr), .fetch_beats_o(w_beats), .data_valid_i, .data_ready_o(), .data_i,
    .beat_valid_o(), .beat_ready_i(1'b1), .beat_o()
  );

  assign weights_end = image_i + 40'(layer_i.weights) + {7'd0, layer_i.block_words, 1'b0};
  assign w_end       = w_addr + {5'd0, w_beats, 3'd0};

  always_comb begin
    if (rst_n) begin
      if (d_valid) assert (d_addr == program_i + {17'd0, layer_index_i, 7'd0} && d_beats == 24'd16);
      if (settled_q) assert (w_addr == image_i + 40'(layer_i.weights));
      if (settled_q) assert (w_end >= weights_end && w_end < weights_end + PortBytes);
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_n && d_valid && ready_i && layer_index_i == 16'd3);
    cover (rst_n && w_valid && ready_i && w_beats == 32'd3);
    cover (rst_n && w_valid && ready_i && w_beats > 32'h0100_0000);
  end
`endif
endmodule
