/// Reads the residual words in the order of the output stream; each row is filled up to whole beats.
///
/// A layer whose residual is spread (`Spreads`) has one word a row, which all columns of it repeat.
module fluidnpu_residual_reader #(
  parameter int unsigned BMax = 4,
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  parameter bit Spreads = 1'b0,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                           clk_i,            // clock
  input  logic                           rst_ni,           // reset, synchronous
  input  logic                           layer_start_i,    // a layer begins
  input  logic [BMax-1:0][AddrWidth-1:0] slot_i,           // where each active slot begins
  input  fluidnpu_formats_pkg::layer_t   layer_i,          // that layer
  input  logic                           command_valid_i,  // a command is there
  output logic                           command_ready_o,  // and is taken
  input  fluidnpu_formats_pkg::tile_t    command_i,        // that command
  output logic                           fetch_valid_o,    // a request for the words of a row
  input  logic                           fetch_ready_i,    // and is taken
  output logic [AddrWidth-1:0]           fetch_addr_o,     // its first byte
  output logic [23:0]                    fetch_beats_o,    // its port words
  input  logic                           data_valid_i,     // a word is there
  output logic                           data_ready_o,     // and is taken
  input  logic [PortWords*WordBits-1:0]  data_i,           // that word
  output logic                           beat_valid_o,     // a residual beat is there
  input  logic                           beat_ready_i,     // and is taken
  output logic [OutWords*WordBits-1:0]   beat_o            // that beat
);
  localparam int unsigned ByteBits = $clog2(WordBits / 8);
  localparam int unsigned PortBits = $clog2(PortWords) + ByteBits;
  localparam int unsigned SkipWidth = PortWords > 1 ? $clog2(PortWords) : 1;
  localparam int unsigned WordsWidth = (SkipWidth > 12 ? SkipWidth : 12) + 1;
  localparam int unsigned JobQueue = 32;  // rows asked for ahead, to hide the latency of memory when rows are short

  logic                  row_valid, row_ready, job_ready, head_valid, head_ready;
  logic [AddrWidth-1:0]  row_addr;
  logic [11:0]           row_cols;
  logic [SkipWidth-1:0]  skip;
  logic [SkipWidth+11:0] head;

  // One word of a row is read, which no column tile or group has a place of its own for.
  logic                       spreads;
  fluidnpu_formats_pkg::tile_t walked;
  assign spreads = Spreads && layer_i.residual_spread;
  always_comb begin
    walked = command_i;
    if (spreads) walked.out_shift = '0;
  end

  fluidnpu_row_addresses #(.BMax(BMax), .PortWords(PortWords), .WordBits(WordBits)) rows (
    .clk_i, .rst_ni, .layer_start_i, .slot_i, .layer_i,
    .pool_i('0), .step_h_i(layer_i.residual_row), .step_w_i(layer_i.residual_pixel), .offset_i(layer_i.residual_offset),
    .command_valid_i, .command_ready_o, .command_i(walked),
    .row_valid_o(row_valid), .row_ready_i(row_ready), .row_addr_o(row_addr), .row_cols_o(row_cols), .row_new_o(), .row_last_o(), .busy_o()
  );

  // The row at hand: the port words that hold it.
  logic                        asks_q, asked;
  logic [AddrWidth-1:PortBits] page_q;
  logic [SkipWidth-1:0]        skip_q;
  logic [11:0]                 cols_q;
  logic [23:0]                 beats_q;
  logic [11:0]                 row_words;

  assign row_words     = spreads ? 12'd1 : row_cols;

  assign skip          = row_addr[ByteBits+:SkipWidth] & SkipWidth'(PortWords - 1);
  assign fetch_valid_o = asks_q && job_ready;
  assign fetch_addr_o  = {page_q, PortBits'(0)};
  assign fetch_beats_o = beats_q;
  assign asked         = fetch_valid_o && fetch_ready_i;
  assign row_ready     = !asks_q || asked;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) asks_q <= 1'b0;
    else if (row_ready) asks_q <= row_valid;
    if (row_ready) begin
      page_q  <= row_addr[AddrWidth-1:PortBits];
      skip_q  <= skip;
      cols_q  <= row_cols;
      beats_q <= 24'((32'(skip) + 32'(row_words) + 32'(PortWords) - 32'd1) / PortWords);
    end
  end

  common_fifo #(.Width(SkipWidth + 12), .Depth(JobQueue)) jobs (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(asked), .ready_o(job_ready), .data_i({skip_q, cols_q}),
    .valid_o(head_valid), .ready_i(head_ready), .data_o(head), .level_o()
  );

  logic                   unpack_take;
  logic [OutWords*WordBits-1:0] unpacked;
  fluidnpu_unpack #(.PortWords(PortWords), .BeatWords(OutWords), .WordBits(WordBits), .WordsWidth(WordsWidth)) unpack (
    .clk_i, .rst_ni, .job_valid_i(head_valid), .job_ready_o(head_ready), .job_skip_i(head[12+:SkipWidth]),
    .job_words_i(WordsWidth'(spreads ? 12'd1 : head[11:0])), .port_valid_i(data_valid_i), .port_ready_o(data_ready_o), .port_i(data_i),
    .beat_valid_o, .beat_ready_i(unpack_take), .beat_o(unpacked), .left_o(), .missing_o()
  );

  if (Spreads) begin : gen_spreads
    // The next row begins as the last beat of this one leaves.
    logic [11:0] rest_q;  // columns of the row from this beat on
    logic        last_q;
    assign unpack_take = beat_ready_i && (!spreads || last_q);
    always_comb begin  // lanes that the row has no column for stay zero
      beat_o = unpacked;
      for (int unsigned i = 1; i < OutWords; i++) begin
        if (spreads && !(last_q && i >= 32'(rest_q))) beat_o[i*WordBits+:WordBits] = unpacked[i*WordBits+:WordBits] | unpacked[WordBits-1:0];
      end
    end
    always_ff @(posedge clk_i) begin
      if (head_valid && head_ready) begin
        rest_q <= head[11:0];
        last_q <= 32'(head[11:0]) <= OutWords;
      end else if (beat_valid_o && beat_ready_i) begin
        rest_q <= rest_q - 12'(OutWords);
        last_q <= 32'(rest_q) <= 2 * OutWords;
      end
    end
  end else begin : gen_as_read
    assign unpack_take = beat_ready_i;
    assign beat_o      = unpacked;
  end
endmodule
