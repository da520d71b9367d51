/// Writes the core's output stream back: packs the words of each row into port words and hands them to a
/// write master.
///
/// Rows come in the order of the row walker, `ceil(cols / OutWords)` beats each; with a pool or a filter, those that
/// end its windows. Words of neighbouring rows that share a port word are written together. `layer_done_o` (a
/// level): the last row of the layer has been handed over, and no position behind it is still to be visited.
module fluidnpu_output_writer #(
  parameter int unsigned BMax = 4,
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  parameter bit Pools = 1'b1,    // outputs can have passed a pool
  parameter bit Filters = 1'b0,  // or a filter
  localparam int unsigned WordBytes = WordBits / 8,
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
  output logic                           layer_done_o,     // the last row of the layer is handed over
  input  logic                           beat_valid_i,     // a beat of outputs is there
  output logic                           beat_ready_o,     // and is taken
  input  logic [OutWords*WordBits-1:0]   beat_i,           // that beat
  output logic                           word_valid_o,     // a port word is there
  input  logic                           word_ready_i,     // and is taken
  output logic [AddrWidth-1:0]           word_addr_o,      // its first byte
  output logic [PortWords*WordBits-1:0]  word_data_o,      // its bytes
  output logic [PortWords*WordBytes-1:0] word_strb_o       // which of them are written
);
  localparam int unsigned ByteBits = $clog2(WordBytes);
  localparam int unsigned IndexBits = $clog2(WordBits);
  localparam int unsigned PortBits = $clog2(PortWords) + ByteBits;
  localparam int unsigned OffsetWidth = PortWords > 1 ? $clog2(PortWords) : 1;
  localparam int unsigned BeatWidth = $clog2(OutWords + 1);
  // Of sums of an offset and what is left of a row, or of a beat.
  localparam int unsigned RowEndWidth = (OffsetWidth > 12 ? OffsetWidth : 12) + 1;
  localparam int unsigned BeatEndWidth = $clog2(PortWords + OutWords + 1);

  logic                  row_valid, row_ready, row_new, row_last, walks;
  logic [AddrWidth-1:0]  row_addr;
  logic [11:0]           row_cols;

  // The pass of a command starts at once: its rows are needed for nothing else.
  fluidnpu_row_addresses #(.BMax(BMax), .PortWords(PortWords), .WordBits(WordBits), .Pools(Pools), .Filters(Filters)) rows (
    .clk_i, .rst_ni, .layer_start_i, .slot_i, .layer_i,
    .pool_i({layer_i.pool_kernel, layer_i.pool_top, layer_i.pool_left}),
    .step_h_i(layer_i.out_row), .step_w_i(layer_i.out_pixel), .offset_i(layer_i.out_offset),
    .command_valid_i, .command_ready_o, .command_i,
    .row_valid_o(row_valid), .row_ready_i(row_ready), .row_addr_o(row_addr), .row_cols_o(row_cols), .row_new_o(row_new),
    .row_last_o(row_last), .busy_o(walks)
  );

  // The row at hand: where it goes on, what is left of it and of the beat.
  logic                        have_q, new_q, last_q, layer_open_q;
  logic [AddrWidth-1:PortBits] page_q;    // port word
  logic [OffsetWidth-1:0]      offset_q;  // first word in it
  logic [11:0]                 rest_q;
  logic [BeatWidth-1:0]        in_beat_q;
  logic [RowEndWidth-1:0]      row_end;   // behind the last word of the row, counted from the port word's first,
  logic [BeatEndWidth-1:0]     beat_end;  // and of the beat
  logic                        move, port_ends, row_ends, beat_ends;

  // The port word being packed
  logic                        any_q, full_q, push, can_take;
  logic [AddrWidth-1:PortBits] pack_page_q;
  logic [PortWords*WordBits-1:0]     pack_q, placed;
  logic [PortWords*WordBytes-1:0] strobe_q, strobe;

  assign row_end   = RowEndWidth'(offset_q) + RowEndWidth'(rest_q);
  assign beat_end  = BeatEndWidth'(offset_q) + BeatEndWidth'(in_beat_q);
  assign port_ends = 32'(row_end) >= PortWords && 32'(beat_end) >= PortWords;
  assign row_ends  = 32'(row_end) <= PortWords && rest_q <= 12'(in_beat_q);
  assign beat_ends = row_ends || (32'(beat_end) <= PortWords && 12'(in_beat_q) <= rest_q);

  always_comb begin
    strobe = '0;
    placed = (PortWords * WordBits)'((PortWords * WordBits + OutWords * WordBits)'(beat_i >> {BeatWidth'(OutWords) - in_beat_q, IndexBits'(0)}) << {offset_q, IndexBits'(0)});
    for (int unsigned i = 0; i < PortWords; i++) begin
      if (i >= 32'(offset_q) && i < 32'(row_end) && i < 32'(beat_end)) strobe[i*WordBytes+:WordBytes] = '1;
      if (!strobe[i*WordBytes]) placed[i*WordBits+:WordBits] = '0;
    end
  end

  assign push         = any_q && (full_q || !layer_open_q || (have_q && new_q));
  assign word_valid_o = push;
  assign word_addr_o  = {pack_page_q, PortBits'(0)};
  assign word_data_o  = pack_q;
  assign word_strb_o  = strobe_q;
  assign can_take     = push ? word_ready_i : !full_q;
  assign move         = have_q && beat_valid_i && can_take;
  assign beat_ready_o = move && beat_ends;
  assign row_ready    = !have_q || (move && row_ends);
  assign layer_done_o = !layer_open_q && !any_q && !(Filters && (walks || command_valid_i)); // nothing leaves behind a map's last window

  always_ff @(posedge clk_i) begin
    if (push && word_ready_i) begin
      any_q    <= 1'b0;
      full_q   <= 1'b0;
      pack_q   <= '0;
      strobe_q <= '0;
    end
    if (move) begin
      any_q       <= 1'b1;
      full_q      <= port_ends;
      pack_q      <= (push ? '0 : pack_q) | placed;
      strobe_q    <= (push ? '0 : strobe_q) | strobe;
      pack_page_q <= page_q;
      new_q       <= 1'b0;
      page_q      <= port_ends ? page_q + 1'b1 : page_q;
      offset_q    <= port_ends ? '0 : OffsetWidth'(beat_end);
      rest_q      <= port_ends ? 12'(row_end - RowEndWidth'(PortWords)) : rest_q - 12'(in_beat_q);
      in_beat_q   <= beat_ends ? BeatWidth'(OutWords) : BeatWidth'(beat_end - BeatEndWidth'(PortWords));
      if (row_ends && last_q) layer_open_q <= 1'b0;
    end
    if (row_ready) begin
      have_q   <= row_valid;
      new_q    <= row_new;
      last_q   <= row_last;
      page_q   <= row_addr[AddrWidth-1:PortBits];
      offset_q <= row_addr[ByteBits+:OffsetWidth] & OffsetWidth'(PortWords - 1);
      rest_q   <= row_cols;
    end
    if (layer_start_i) layer_open_q <= 1'b1;
    if (!rst_ni) begin  // of the others each is set before its use
      have_q       <= 1'b0;
      new_q        <= 1'b0;
      last_q       <= 1'b0;
      in_beat_q    <= BeatWidth'(OutWords);
      any_q        <= 1'b0;
      full_q       <= 1'b0;
      pack_q       <= '0;
      strobe_q     <= '0;
      pack_page_q  <= '0;
      layer_open_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && have_q) assert (rest_q != '0 && in_beat_q != '0);
    if (rst_ni && move && any_q && !push) assert ((strobe_q & strobe) == '0 && pack_page_q == page_q);
  end
endmodule
