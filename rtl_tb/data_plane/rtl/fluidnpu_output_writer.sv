/// Writes the core's output stream back: packs the words of each row into port words and hands them to a
/// write master.
///
/// Rows come in the order of the row walker, `ceil(cols / OutWords)` beats each. Words of neighbouring rows
/// that share a port word are written together. `layer_done_o` (a level): the last row of the layer has been
/// handed over.
module fluidnpu_output_writer #(
  parameter int unsigned BMax = 4,
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortWords = 8,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                           clk_i,
  input  logic                           rst_ni,
  input  logic                           layer_start_i,
  input  logic [BMax-1:0][AddrWidth-1:0] slot_i,
  input  fluidnpu_formats_pkg::layer_t   layer_i,
  input  logic                           command_valid_i,
  output logic                           command_ready_o,
  input  fluidnpu_formats_pkg::tile_t    command_i,
  output logic                           layer_done_o,
  input  logic                           beat_valid_i,
  output logic                           beat_ready_o,
  input  logic [OutWords*16-1:0]         beat_i,
  output logic                           word_valid_o,
  input  logic                           word_ready_i,
  output logic [AddrWidth-1:0]           word_addr_o,
  output logic [PortWords*16-1:0]        word_data_o,
  output logic [PortWords*2-1:0]         word_strb_o
);
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1;
  localparam int unsigned PortBits = $clog2(PortWords * 2);
  localparam int unsigned OffsetWidth = PortWords > 1 ? $clog2(PortWords) : 1;
  localparam int unsigned PieceWidth = $clog2((PortWords > OutWords ? PortWords : OutWords) + 1);

  logic                     row_valid, row_ready, row_ends_pass, layer_open_q, last_q;
  logic [AddrWidth-1:0]     row_addr;
  logic [11:0]              cols_q;

  // The pass of a command starts at once: its rows are needed for nothing else.
  logic [31:0]            row_offset;
  logic [SampleWidth-1:0] row_sample;

  assign row_addr = slot_i[row_sample] + AddrWidth'(row_offset);

  fluidnpu_row_walker #(.BMax(BMax)) rows (
    .clk_i, .rst_ni, .layer_start_i,
    .out_h_i(layer_i.out_h), .out_w_i(layer_i.out_w),
    .row_lanes_i(layer_i.row_lanes), .sample_lanes_i(layer_i.sample_lanes), .b_r_i(layer_i.b_r),
    .step_h_i(layer_i.out_row), .step_w_i(layer_i.out_pixel), .rise_i('0), .span_i('0),
    .pass_valid_i(command_valid_i), .pass_ready_o(command_ready_o), .beats_i(command_i.beats),
    .lane1_beats_i(command_i.lane1_beats), .shift_i(command_i.out_shift + layer_i.out_offset), .commit_i(command_i.block_last),
    .row_valid_o(row_valid), .row_ready_i(row_ready), .row_sample_o(row_sample), .row_index_o(), .row_offset_o(row_offset),
    .row_top_o(), .row_lane_o(),
    .row_ends_beat_o(), .row_ends_pass_o(row_ends_pass), .row_both_i(1'b0), .other_index_o(), .other_offset_o(), .other_top_o(),
    .other_ends_pass_o(), .start_index_o(), .start_offset_o()
  );

  // Where we are: words of the row done, words of the beat done.
  logic [11:0]              word_q;
  logic [PieceWidth-1:0]    taken_q, piece, space, in_beat;
  logic [11:0]              in_row;
  logic [AddrWidth-1:0]     addr;
  logic [OffsetWidth-1:0]   offset;
  logic                     move, beat_ends, row_done, port_full;

  // The port word being packed
  logic                     any_q, full_q, push, can_take;
  logic [AddrWidth-1:0]     pack_addr_q;
  logic [PortWords*16-1:0]  pack_q, placed;
  logic [PortWords*2-1:0]   strobe_q, strobe;

  assign addr   = row_addr + AddrWidth'({word_q, 1'b0});
  assign offset = addr[1+:OffsetWidth] & OffsetWidth'(PortWords - 1);
  assign space  = PieceWidth'(PortWords) - PieceWidth'(offset);
  assign in_row = cols_q - word_q;

  always_comb begin
    in_beat = PieceWidth'(OutWords) - taken_q;
    if (in_row < 12'(in_beat)) in_beat = in_row[PieceWidth-1:0];
    piece     = in_beat < space ? in_beat : space;
    port_full = piece == space;
    row_done  = 12'(piece) == in_row;
    beat_ends = row_done || taken_q + piece == PieceWidth'(OutWords);
    placed    = '0;
    strobe    = '0;
    for (int unsigned i = 0; i < PortWords; i++) begin
      if (i >= 32'(offset) && i < 32'(offset) + 32'(piece)) strobe[2*i+:2] = 2'b11;
    end
    placed = (PortWords * 16)'((PortWords * 16 + OutWords * 16)'(beat_i >> {taken_q, 4'd0}) << {offset, 4'd0});
    for (int unsigned i = 0; i < PortWords; i++) begin
      if (!strobe[2*i]) placed[i*16+:16] = '0;
    end
  end

  assign push         = any_q && (full_q || !layer_open_q || (row_valid && pack_addr_q != {addr[AddrWidth-1:PortBits], PortBits'(0)}));
  assign word_valid_o = push;
  assign word_addr_o  = pack_addr_q;
  assign word_data_o  = pack_q;
  assign word_strb_o  = strobe_q;
  assign can_take     = push ? word_ready_i : !full_q;
  assign move         = row_valid && beat_valid_i && can_take;
  assign beat_ready_o = move && beat_ends;
  assign row_ready    = move && row_done;
  assign layer_done_o = !layer_open_q && !any_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      cols_q       <= '0;
      last_q       <= 1'b0;
      word_q       <= '0;
      taken_q      <= '0;
      any_q        <= 1'b0;
      full_q       <= 1'b0;
      pack_q       <= '0;
      strobe_q     <= '0;
      pack_addr_q  <= '0;
      layer_open_q <= 1'b0;
    end else begin
      if (push && word_ready_i) begin
        any_q    <= 1'b0;
        full_q   <= 1'b0;
        pack_q   <= '0;
        strobe_q <= '0;
      end
      if (move) begin
        any_q       <= 1'b1;
        full_q      <= port_full;
        pack_q      <= (push ? '0 : pack_q) | placed;
        strobe_q    <= (push ? '0 : strobe_q) | strobe;
        pack_addr_q <= {addr[AddrWidth-1:PortBits], PortBits'(0)};
        word_q      <= row_done ? '0 : word_q + 12'(piece);
        taken_q     <= beat_ends ? '0 : taken_q + piece;
      end
      if (row_ready && row_ends_pass && last_q) layer_open_q <= 1'b0;
      if (command_valid_i && command_ready_o) begin
        cols_q <= command_i.cols;
        last_q <= command_i.layer_last;
      end
      if (layer_start_i) layer_open_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && move) assert (piece != '0);
    if (rst_ni && move && any_q && !push) assert ((strobe_q & strobe) == '0);
  end
endmodule
