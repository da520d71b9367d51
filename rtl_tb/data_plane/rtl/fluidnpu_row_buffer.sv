/// Caches input rows: each is read from memory once, ahead of its use, and dropped when no window needs it
/// any more.
///
/// A ring of lines in two banks, so that a segment may begin anywhere and straddle two lines. Rows follow one
/// another in the order in which windows reach them, `layer_t.pitch` apart; with lanes by samples each lane
/// has half of the ring. A segment waits until the rows of its window are loaded. Two segments of a beat
/// issue together if both are resident and no fill uses the shared RAM port of a bank that the second one
/// reads in this cycle; `fluidnpu_beat_builder` makes beats of them. `stuck_o`: a window waits for a row for
/// which nothing can make room, so this row block does not fit.
module fluidnpu_row_buffer #(
  parameter int unsigned BMax = 4,
  parameter int unsigned InWords = 8,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned LineWords = 16,
  parameter int unsigned Sets = 64,  // lines of one bank
  parameter bit Ultra = 1'b0,        // in UltraRAM: UltraScale+ only
  localparam int unsigned CountWidth = $clog2(InWords + 1),
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                           clk_i,            // clock
  input  logic                           rst_ni,           // reset, synchronous
  input  logic                           layer_start_i,    // a layer begins
  input  logic [BMax-1:0][AddrWidth-1:0] slot_i,           // where each active slot begins
  input  logic [4:0]                     b_act_i,          // active slots, how many
  input  fluidnpu_formats_pkg::layer_t   layer_i,          // that layer
  output logic [BMax-1:0][31:0]          base_o,           // where each sample of a lane begins
  input  logic [31:0]                    oldest_i,         // windows need nothing before it any more
  output logic                           stuck_o,          // the row block does not fit
  input  logic                           segment_valid_i,  // a segment is there
  output logic                           segment_ready_o,  // and is taken
  input  fluidnpu_formats_pkg::segment_t segment_i,        // that segment
  input  logic [CountWidth-1:0]          segment_words_i,  // its words
  input  logic [CountWidth-1:0]          segment_place_i,  // its first word in the beat
  input  logic                           second_valid_i,   // so is another one of the same beat
  output logic                           second_ready_o,   // which is taken as well
  input  fluidnpu_formats_pkg::segment_t second_i,         // that one
  input  logic [CountWidth-1:0]          second_words_i,   // its words
  input  logic [CountWidth-1:0]          second_place_i,   // its first word in the beat
  output logic                           fetch_valid_o,    // a request for the words of a row
  input  logic                           fetch_ready_i,    // and is taken
  output logic [AddrWidth-1:0]           fetch_addr_o,     // its first byte
  output logic [23:0]                    fetch_beats_o,    // its port words
  input  logic                           data_valid_i,     // a word is there
  output logic                           data_ready_o,     // and is taken
  input  logic [PortWords*WordBits-1:0]  data_i,           // that word
  output logic                           beat_valid_o,     // an input beat is there
  input  logic                           beat_ready_i,     // and is taken
  output logic [InWords*WordBits-1:0]    beat_o            // that beat
);
  localparam int unsigned WordBytes = WordBits / 8;
  localparam int unsigned ByteBits = $clog2(WordBytes);
  localparam int unsigned PortBytes = WordBytes * PortWords;
  localparam int unsigned PortBits = $clog2(PortBytes);
  localparam int unsigned OffsetBits = $clog2(LineWords);
  localparam int unsigned LineBits = $clog2(2 * Sets);
  localparam int unsigned SetBits = LineBits - 1;
  localparam int unsigned Parts = LineWords / PortWords;
  localparam int unsigned PartBits = $clog2(Parts);
  localparam int unsigned PlaceBits = LineBits + PartBits;  // number of a port word in the ring
  localparam logic [31:0] Capacity = 32'(2 * Sets * LineWords * WordBytes);
  localparam int unsigned BeatQueue = 16;
  localparam int unsigned BuildSteps = 5;  // cycles from the RAM's answer to the beat, that one included
  localparam int unsigned RowQueue = 8;

  if (LineWords < PortWords || LineWords % PortWords != 0 || (LineWords & (LineWords - 1)) != 0) begin : gen_illegal_line
    $fatal(1, "LineWords must be a power of two and a multiple of PortWords in %m");
  end
  if (LineWords < InWords) begin : gen_short_line  // no run is cut at a line's end
    $fatal(1, "LineWords must be at least InWords in %m");
  end
  if (Sets < 4 || Sets > 1048576 || (Sets & (Sets - 1)) != 0) begin : gen_illegal_sets
    $fatal(1, "Sets must be a power of two in 4..2^20 in %m");
  end

  // Samples of a lane follow one another. Windows are cut ahead of their rows, the last sample's soon after the
  // layer starts: so products are sums of two parts, which settle in two cycles, and not a chain.
  logic [3:0][31:0] units_q, fours_q;
  always_ff @(posedge clk_i) begin
    units_q <= {(layer_i.sample_pitch << 1) + layer_i.sample_pitch, layer_i.sample_pitch << 1, layer_i.sample_pitch, 32'd0};
    fours_q <= {(layer_i.sample_pitch << 3) + (layer_i.sample_pitch << 2), layer_i.sample_pitch << 3, layer_i.sample_pitch << 2, 32'd0};
    for (int unsigned i = 0; i < BMax; i++) base_o[i] <= units_q[i%4] + fours_q[i/4];
  end

  // Load: the next row of each lane, as soon as there is room.
  logic [1:0][4:0]  sample_q, end_q;
  logic [1:0][23:0] row_q, asked_q, loaded_q;
  logic [1:0][31:0] offset_q, place_q, after_q, at;  // after_q: where the next sample begins
  logic [1:0][32:0] due_q;  // signed: place_q has room when no window needs a place before it
  logic [1:0]       more, room, able, go, last_row;
  logic             lane, turn_q, ask, rows_ready, asked_for_q;
  logic [31:0]      low, reach_q;
  logic [32:0]      due, first_due_q;  // of place 0
  logic [1:0][AddrWidth-1:0] addr;
  logic [1:0][23:0] beats_of;

  assign low      = layer_i.in_offset & 32'(PortBytes - 1);
  // A row and the port word that it may share, less the ring
  assign due      = 33'(layer_i.pitch) + (layer_i.sample_lanes ? 33'(PortBytes) - 33'(Capacity >> 1) : 33'(PortBytes) - 33'(Capacity));
  always_ff @(posedge clk_i) begin  // stand still from the layer's first row on
    first_due_q <= due;
    reach_q     <= layer_i.row_bytes + 32'(PortBytes - 1);
  end
  for (genvar l = 0; l < 2; l++) begin : gen_lanes
    assign more[l]     = sample_q[l] != end_q[l];
    assign last_row[l] = row_q[l] + 24'd1 == layer_i.sample_rows;
    assign room[l]     = $signed(due_q[l]) <= $signed({1'b0, oldest_i});
    assign go[l]       = ask && lane == 1'(l);
    assign addr[l]     = slot_i[sample_q[l][(BMax > 1 ? $clog2(BMax) : 1)-1:0]] + AddrWidth'(offset_q[l]);
    // Slots begin at port words, so the offset says how far into one a row begins.
    assign beats_of[l] = 24'((32'(offset_q[l][PortBits-1:0]) + reach_q) >> PortBits);
    assign at[l]       = place_q[l] + low;
  end
  assign able = more & room;
  assign lane = able[turn_q] ? turn_q : !turn_q;
  assign ask  = able != '0 && rows_ready && (!asked_for_q || fetch_ready_i);

  // The row that was chosen last, until the master takes it.
  logic [AddrWidth-1:PortBits] fetch_page_q;
  assign fetch_valid_o = asked_for_q;
  assign fetch_addr_o  = {fetch_page_q, PortBits'(0)};
  always_ff @(posedge clk_i) begin
    if (!rst_ni) asked_for_q <= 1'b0;
    else asked_for_q <= ask || (asked_for_q && !fetch_ready_i);
    if (ask) begin
      fetch_page_q  <= addr[lane][AddrWidth-1:PortBits];
      fetch_beats_o <= beats_of[lane];
    end
  end

  typedef struct packed {
    logic                 lane;
    logic [PlaceBits-1:0] place;
    logic [23:0]          beats;
  } row_t;

  row_t row, head;
  logic head_valid, head_ready, arrive, row_ends;
  logic [23:0] beat_q;

  always_comb begin
    row.lane  = lane;
    row.place = at[lane][PortBits+:PlaceBits];
    row.beats = beats_of[lane];
    if (layer_i.sample_lanes) row.place[PlaceBits-1] = lane;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      sample_q <= '0;
      end_q    <= '0;
      turn_q   <= 1'b0;
      asked_q  <= '0;
      loaded_q <= '0;
    end else if (layer_start_i) begin
      sample_q <= {layer_i.sample_lanes ? layer_i.b_r : b_act_i, 5'd0};
      end_q    <= {b_act_i, layer_i.sample_lanes ? layer_i.b_r : b_act_i};
      turn_q   <= 1'b0;
      asked_q  <= '0;
      loaded_q <= '0;
    end else begin
      if (ask) turn_q <= !lane;
      for (int unsigned l = 0; l < 2; l++) begin
        if (go[l]) asked_q[l] <= asked_q[l] + 24'd1;
        if (go[l] && last_row[l]) sample_q[l] <= sample_q[l] + 5'd1;
      end
      if (row_ends) loaded_q[head.lane] <= loaded_q[head.lane] + 24'd1;
    end
    if (layer_start_i) begin
      row_q    <= '0;
      offset_q <= {2{layer_i.in_offset}};
      place_q  <= '0;
      after_q  <= {2{layer_i.sample_pitch}};
      due_q    <= {2{due}};
    end else begin
      for (int unsigned l = 0; l < 2; l++) begin
        if (go[l]) begin
          row_q[l]    <= row_q[l] + 24'd1;
          offset_q[l] <= offset_q[l] + layer_i.row_step;
          place_q[l]  <= place_q[l] + layer_i.pitch;
          due_q[l]    <= due_q[l] + 33'(layer_i.pitch);
          if (last_row[l]) begin
            row_q[l]    <= '0;
            offset_q[l] <= layer_i.in_offset;
            place_q[l]  <= after_q[l];
            after_q[l]  <= after_q[l] + layer_i.sample_pitch;
            due_q[l]    <= 33'(after_q[l]) + first_due_q;
          end
        end
      end
    end
  end

  common_fifo #(.Width($bits(row)), .Depth(RowQueue)) rows (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(ask), .ready_o(rows_ready), .data_i(row),
    .valid_o(head_valid), .ready_i(head_ready), .data_o(head), .level_o()
  );

  assign data_ready_o = head_valid;
  assign arrive       = data_valid_i && data_ready_o;
  assign row_ends     = arrive && beat_q + 24'd1 == head.beats;
  assign head_ready   = row_ends;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) beat_q <= '0;
    else if (arrive) beat_q <= row_ends ? '0 : beat_q + 24'd1;
  end

  // Where an arriving port word goes; with lanes by samples it stays in its lane's half.
  logic [PlaceBits-1:0] to;
  always_comb begin
    to = head.place + PlaceBits'(beat_q);
    if (layer_i.sample_lanes) to[PlaceBits-1] = head.lane;
  end

  // Serve: both banks are read, segments are cut out and put in their places.
  logic                              there, other_there, stuck, take, take_two, s1_valid_q, s1_two_q, s1_ends_q;
  logic [1:0]                        s1_bank_q;  // of each segment, as what follows
  logic [1:0][OffsetBits-1:0]        s1_offset_q;
  logic [1:0][CountWidth-1:0]        s1_words_q, s1_place_q;
  logic [1:0][1:0][LineWords*WordBits-1:0] bank_q;
  logic [1:0][LineBits-1:0]          line, next_line;
  logic [$clog2(BeatQueue+1)-1:0]    beat_level;

  always_comb begin
    line[0] = segment_i.addr[ByteBits+OffsetBits+:LineBits];
    line[1] = second_i.addr[ByteBits+OffsetBits+:LineBits];
    for (int unsigned i = 0; i < 2; i++) next_line[i] = line[i] + 1'b1;
    if (layer_i.sample_lanes) begin
      line[0][LineBits-1]      = segment_i.lane;
      next_line[0][LineBits-1] = segment_i.lane;
      line[1][LineBits-1]      = second_i.lane;
      next_line[1][LineBits-1] = second_i.lane;
    end
  end

  // The shared ports of the banks: those that the second segment needs, and the one that a fill uses.
  logic       crosses;  // the second segment ends in the line behind its first
  logic [1:0] reads, fills;
  assign crosses = 32'(second_i.addr[ByteBits+:OffsetBits]) + 32'(second_words_i) > LineWords;
  always_comb begin
    for (int unsigned b = 0; b < 2; b++) begin
      reads[b] = crosses || line[1][0] == 1'(b);
      fills[b] = arrive && to[PartBits] == 1'(b);
    end
  end

  assign there           = loaded_q[segment_i.lane] >= segment_i.rows;
  assign other_there     = loaded_q[second_i.lane] >= second_i.rows;
  assign segment_ready_o = there && 32'(beat_level) + BuildSteps + 1 <= BeatQueue;
  assign second_ready_o  = other_there && (reads & fills) == '0;
  assign take            = segment_valid_i && segment_ready_o;
  assign take_two        = take && second_valid_i && second_ready_o;
  assign stuck           = segment_valid_i && !there && more[segment_i.lane] && !room[segment_i.lane]
      && asked_q[segment_i.lane] == loaded_q[segment_i.lane];
  always_ff @(posedge clk_i) stuck_o <= rst_ni && stuck;  // it lasts

  for (genvar b = 0; b < 2; b++) begin : gen_banks
    logic [SetBits-1:0] set, shared;
    assign set    = line[0][0] == 1'(b) ? line[0][LineBits-1:1] : next_line[0][LineBits-1:1];
    assign shared = fills[b] ? to[PartBits+1+:SetBits] : line[1][0] == 1'(b) ? line[1][LineBits-1:1] : next_line[1][LineBits-1:1];
    for (genvar p = 0; p < Parts; p++) begin : gen_parts
      logic here;
      assign here = fills[b] && 32'(to & PlaceBits'(Parts - 1)) == p;
      if (Ultra) begin : gen_ultra
        (* ram_style = "ultra" *)logic [PortWords*WordBits-1:0] words_q[Sets];
        always_ff @(posedge clk_i) begin
          if (here) words_q[shared] <= data_i;
          else if (take_two) bank_q[1][b][p*PortWords*WordBits+:PortWords*WordBits] <= words_q[shared];
          if (take) bank_q[0][b][p*PortWords*WordBits+:PortWords*WordBits] <= words_q[set];
        end
      end else begin : gen_block
        (* ram_style = "block" *)logic [PortWords*WordBits-1:0] words_q[Sets];
        always_ff @(posedge clk_i) begin
          if (here) words_q[shared] <= data_i;
          else if (take_two) bank_q[1][b][p*PortWords*WordBits+:PortWords*WordBits] <= words_q[shared];
          if (take) bank_q[0][b][p*PortWords*WordBits+:PortWords*WordBits] <= words_q[set];
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) s1_valid_q <= 1'b0;
    else s1_valid_q <= take;
    if (take) begin
      s1_two_q       <= take_two;
      s1_ends_q      <= take_two ? second_i.ends_beat : segment_i.ends_beat;
      s1_bank_q[0]   <= line[0][0];
      s1_offset_q[0] <= segment_i.addr[ByteBits+:OffsetBits];
      s1_words_q[0]  <= segment_words_i;
      s1_place_q[0]  <= segment_place_i;
      s1_bank_q[1]   <= line[1][0];
      s1_offset_q[1] <= second_i.addr[ByteBits+:OffsetBits];
      s1_words_q[1]  <= second_words_i;
      s1_place_q[1]  <= second_place_i;
    end
  end

  logic                  built;
  logic [InWords*WordBits-1:0] built_beat;
  fluidnpu_beat_builder #(.InWords(InWords), .WordBits(WordBits), .LineWords(LineWords)) builder (
    .clk_i, .rst_ni, .maximum_i(layer_i.mode == fluidnpu_formats_pkg::ModeMaxPool),
    .valid_i(s1_valid_q), .two_i(s1_two_q), .ends_i(s1_ends_q), .lines_i(bank_q), .odd_i(s1_bank_q), .offset_i(s1_offset_q),
    .words_i(s1_words_q), .place_i(s1_place_q), .beat_valid_o(built), .beat_o(built_beat)
  );

  logic out_ready;
  common_fifo #(.Width(InWords * WordBits), .Depth(BeatQueue)) beats (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(built), .ready_o(out_ready), .data_i(built_beat),
    .valid_o(beat_valid_o), .ready_i(beat_ready_i), .data_o(beat_o), .level_o(beat_level)
  );

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (built) assert (out_ready);
      if (take) assert (32'(segment_words_i) <= LineWords && segment_words_i != '0 && (segment_i.addr & 32'(WordBytes - 1)) == '0);
      if (take_two) assert (32'(second_words_i) <= LineWords && second_words_i != '0 && (second_i.addr & 32'(WordBytes - 1)) == '0);
      if (s1_valid_q) assert (32'(s1_place_q[0]) + 32'(s1_words_q[0]) <= InWords);
      if (s1_valid_q && s1_two_q) assert (32'(s1_place_q[1]) + 32'(s1_words_q[1]) <= InWords);
      if (ask) assert (addr[lane][PortBits-1:0] == offset_q[lane][PortBits-1:0]);
      if (ask) assert (due_q[lane] == 33'(place_q[lane]) + due);
      if (ask) assert (at[lane][PortBits-1:0] == addr[lane][PortBits-1:0]);
      if (segment_valid_i && !there) assert (more[segment_i.lane] || asked_q[segment_i.lane] != loaded_q[segment_i.lane]);
    end
  end
endmodule
