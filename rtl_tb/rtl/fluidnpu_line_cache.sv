/// Gives the beats of the core's input stream from segments; what overlapping windows share is read from memory once, while it fits.
///
/// Two banks hold even and odd lines, so that a segment may straddle two lines. Tags are looked up ahead of the data: a miss
/// asks for its line at once and the data follow in order, so latency hides behind the queue. A line is replaced only when
/// all earlier segments that use it have been served. `layer_start_i` forgets everything (by an epoch number).
module fluidnpu_line_cache #(
  parameter int unsigned InWords = 8,
  parameter int unsigned PortWords = 8,
  parameter int unsigned LineWords = 16,
  parameter int unsigned Sets = 64,  // lines of one bank
  parameter int unsigned Ahead = 32, // segments looked up and not yet served
  localparam int unsigned CountWidth = $clog2(InWords + 1),
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,   // forgets everything, slowly
  input  logic                    flush_i,  // drops what is under way
  output logic                    ready_o,  // may start a layer
  input  logic                    layer_start_i,
  input  logic                    segment_valid_i,
  output logic                    segment_ready_o,
  input  logic [AddrWidth-1:0]    segment_addr_i,
  input  logic [CountWidth-1:0]   segment_words_i,
  input  logic [CountWidth-1:0]   segment_place_i,
  input  logic                    segment_ends_beat_i,
  output logic                    fetch_valid_o,
  input  logic                    fetch_ready_i,
  output logic [AddrWidth-1:0]    fetch_addr_o,
  input  logic                    data_valid_i,
  output logic                    data_ready_o,
  input  logic [PortWords*16-1:0] data_i,
  output logic                    beat_valid_o,
  input  logic                    beat_ready_i,
  output logic [InWords*16-1:0]   beat_o
);
  localparam int unsigned LineBits = $clog2(LineWords * 2);
  localparam int unsigned OffsetBits = $clog2(LineWords);
  localparam int unsigned SetBits = $clog2(Sets);
  localparam int unsigned PairWidth = AddrWidth - LineBits - 1;  // number of a line without its bank bit
  localparam int unsigned TagWidth = PairWidth - SetBits;
  localparam int unsigned Parts = LineWords / PortWords;
  localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1;
  localparam int unsigned BeatQueue = 8;
  localparam int unsigned EntryWidth = 8 + TagWidth + 16;

  if (LineWords < PortWords || LineWords % PortWords != 0 || (LineWords & (LineWords - 1)) != 0) begin : gen_illegal_line
    $fatal(1, "LineWords must be a power of two and a multiple of PortWords in %m");
  end
  if (Sets < 4 || (Sets & (Sets - 1)) != 0 || TagWidth < SetBits) begin : gen_illegal_sets
    $fatal(1, "Sets must be a power of two of at least 4 and small against the address space in %m");
  end
  if (Ahead < 2 || Ahead > 2048) begin : gen_illegal_ahead
    $fatal(1, "Ahead must lie in 2..2048 in %m");
  end

  typedef struct packed {
    logic [7:0]          epoch;
    logic [TagWidth-1:0] tag;
    logic [15:0]         used;  // number of the last segment that uses the line
  } entry_t;

  typedef struct packed {
    logic [OffsetBits-1:0] offset;
    logic [CountWidth-1:0] words;
    logic [CountWidth-1:0] place;
    logic                  ends_beat;
    logic                  first_bank;
    logic [1:0][SetBits-1:0] set;
    logic [15:0]           fills;  // lines that must have arrived
  } served_t;

  typedef struct packed {
    logic               bank;
    logic [SetBits-1:0] set;
    logic               wait_use;
    logic [15:0]        used;
  } fill_t;

  // A power-of-two distance between pixels would hit few sets; folding the tag in spreads it.
  function automatic logic [SetBits-1:0] fold(logic [PairWidth-1:0] pair);
    fold = pair[SetBits-1:0] ^ pair[2*SetBits-1:SetBits];
  endfunction

  // Epochs and the sweep that makes number 0 mean "never".
  logic [7:0]         epoch_q;
  logic [SetBits-1:0] sweep_q;
  logic               sweeping_q;

  assign ready_o = !sweeping_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      sweeping_q <= 1'b1;
      sweep_q    <= '0;
      epoch_q    <= 8'd1;
    end else begin
      if (sweeping_q) begin
        sweep_q <= sweep_q + 1'b1;
        if (sweep_q == SetBits'(Sets - 1)) sweeping_q <= 1'b0;
      end
      if (layer_start_i) begin
        epoch_q <= epoch_q == 8'hFF ? 8'd1 : epoch_q + 8'd1;
        if (epoch_q == 8'hFF) sweeping_q <= 1'b1;
      end
    end
  end

  // Stage 0: which lines, which sets; the tags are read.
  logic [1:0][PairWidth-1:0] pair;
  logic [1:0]                use_bank;
  logic                      first_bank, straddles;
  logic [PairWidth-1:0]      first_pair;

  assign first_bank  = segment_addr_i[LineBits];
  assign first_pair  = segment_addr_i[AddrWidth-1:LineBits+1];
  assign straddles   = 32'(segment_addr_i[LineBits-1:1]) + 32'(segment_words_i) > LineWords;
  assign pair[0]     = first_bank ? first_pair + 1'b1 : first_pair;
  assign pair[1]     = first_pair;
  assign use_bank[0] = !first_bank || straddles;
  assign use_bank[1] = first_bank || straddles;

  logic                      valid_q, take, done;
  logic [1:0]                use_q, asked_q;
  logic [1:0][PairWidth-1:0] pair_q;
  served_t                   segment_q;
  logic [1:0][EntryWidth-1:0] entry, write;
  logic [1:0]                hit, miss, want, live;
  logic [15:0]               number_q, fills_q, fills_now;

  assign segment_ready_o = !sweeping_q && !layer_start_i && (!valid_q || done);
  assign take            = segment_valid_i && segment_ready_o;

  for (genvar b = 0; b < 2; b++) begin : gen_tags
    logic [EntryWidth-1:0] tags_q [Sets];
    logic [EntryWidth-1:0] read_q, bypass_entry_q;
    logic                  bypass_q;
    entry_t                known;
    logic [SetBits-1:0] write_set;
    logic               write_tag;

    assign write_tag = sweeping_q || (valid_q && done && use_q[b]);
    assign write_set = sweeping_q ? sweep_q : fold(pair_q[b]);

    always_ff @(posedge clk_i) begin
      if (write_tag) tags_q[write_set] <= sweeping_q ? '0 : write[b];
      if (take) begin
        read_q         <= tags_q[fold(pair[b])];
        bypass_q       <= write_tag && write_set == fold(pair[b]);
        bypass_entry_q <= write[b];
      end
    end

    assign known    = bypass_q ? bypass_entry_q : read_q;
    assign entry[b] = known;
    assign live[b]  = known.epoch == epoch_q;
    assign hit[b]   = live[b] && known.tag == pair_q[b][PairWidth-1:SetBits];
    assign miss[b]  = use_q[b] && !hit[b];
    assign want[b]  = valid_q && miss[b] && !asked_q[b];
    assign write[b] = {epoch_q, pair_q[b][PairWidth-1:SetBits], number_q};
  end

  // Stage 1: missing lines are asked for, the first of them first; then the segment is queued.
  logic  first, fill_ready, fill_push, serve_ready, serve_push, line_bank, still_used;
  fill_t fill;
  entry_t line_entry;
  logic [PairWidth-1:0] line_pair;
  logic [1:0] left;

  assign first         = segment_q.first_bank;
  assign line_bank     = want[first] ? first : !first;
  assign line_pair     = line_bank ? pair_q[1] : pair_q[0];
  assign line_entry    = line_bank ? entry[1] : entry[0];
  assign fetch_valid_o = want != '0 && fill_ready;
  assign fetch_addr_o  = {line_pair, line_bank, LineBits'(0)};
  assign fill_push     = fetch_valid_o && fetch_ready_i;
  // Of the old line only segments that may still wait in the queue matter; an older number may cause a needless wait, no more.
  // Numbers wrap: a use exactly 65536 segments ago must not look like one of the segment at hand, which would wait for itself.
  assign still_used    = live[line_bank] && 16'(number_q - line_entry.used - 16'd1) < 16'(Ahead + 4);
  assign fill          = {line_bank, fold(line_pair), still_used, line_entry.used};
  assign left          = want & ~(fill_push ? (line_bank ? 2'b10 : 2'b01) : 2'b00);
  assign fills_now     = fills_q + 16'(fill_push);
  assign serve_push    = valid_q && left == '0;
  assign done          = serve_push && serve_ready;

  served_t serve_in, serve;
  always_comb begin
    serve_in       = segment_q;
    serve_in.set   = {fold(pair_q[1]), fold(pair_q[0])};
    serve_in.fills = fills_now;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) begin
      valid_q  <= 1'b0;
      asked_q  <= '0;
      number_q <= '0;
      fills_q  <= '0;
    end else begin
      if (fill_push) asked_q[line_bank] <= 1'b1;
      fills_q <= fills_now;
      if (done) begin
        valid_q  <= 1'b0;
        number_q <= number_q + 16'd1;
      end
      if (take) begin
        valid_q <= 1'b1;
        asked_q <= '0;
      end
    end
    if (take) begin
      use_q     <= use_bank;
      pair_q    <= pair;
      segment_q.offset     <= segment_addr_i[LineBits-1:1];
      segment_q.words      <= segment_words_i;
      segment_q.place      <= segment_place_i;
      segment_q.ends_beat  <= segment_ends_beat_i;
      segment_q.first_bank <= first_bank;
      segment_q.set        <= '0;
      segment_q.fills      <= '0;
    end
  end

  logic  serve_valid, serve_pop, fill_valid, fill_pop;
  fill_t fill_head;

  fluidnpu_fifo #(.Width($bits(serve_in)), .Depth(Ahead)) segments (
    .clk_i, .rst_ni, .clear_i(flush_i), .valid_i(serve_push), .ready_o(serve_ready), .data_i(serve_in),
    .valid_o(serve_valid), .ready_i(serve_pop), .data_o(serve), .level_o()
  );

  fluidnpu_fifo #(.Width($bits(fill)), .Depth(Ahead)) fills (
    .clk_i, .rst_ni, .clear_i(flush_i), .valid_i(fill_push), .ready_o(fill_ready), .data_i(fill),
    .valid_o(fill_valid), .ready_i(fill_pop), .data_o(fill_head), .level_o()
  );

  // Fill: lines arrive in the order they were asked for.
  logic [15:0]         served_q, filled_q;
  logic [PartBits-1:0] part_q;
  logic                safe, part_last, fill_write;

  assign safe         = !fill_head.wait_use || $signed(served_q - fill_head.used) > 0;
  assign data_ready_o = fill_valid && safe;
  assign fill_write   = data_valid_i && data_ready_o;
  assign part_last    = 32'(part_q) == Parts - 1;
  assign fill_pop     = fill_write && part_last;

  // Serve: both banks are read, the segment is cut out and put in its place.
  logic                      read_go, s1_valid_q, s1_ends_q, s1_bank_q;
  logic [OffsetBits-1:0]     s1_offset_q;
  logic [CountWidth-1:0]     s1_words_q, s1_place_q;
  logic [1:0][LineWords*16-1:0] bank_q;
  logic [$clog2(BeatQueue+1)-1:0] beat_level;
  logic                      beat_room;

  assign beat_room = 32'(beat_level) + 2 <= BeatQueue;
  assign read_go   = serve_valid && $signed(filled_q - serve.fills) >= 0 && beat_room;
  assign serve_pop = read_go;

  for (genvar b = 0; b < 2; b++) begin : gen_banks
    for (genvar p = 0; p < Parts; p++) begin : gen_parts
      logic [PortWords*16-1:0] words_q [Sets];
      always_ff @(posedge clk_i) begin
        if (fill_write && 32'(fill_head.bank) == b && 32'(part_q) == p) words_q[fill_head.set] <= data_i;
        if (read_go) bank_q[b][p*PortWords*16+:PortWords*16] <= words_q[serve.set[b]];
      end
    end
  end

  logic [2*LineWords*16-1:0] lines;
  logic [LineWords*16-1:0]   cut;
  logic [InWords*16-1:0]     piece, beat_q, beat_d;

  assign lines = s1_bank_q ? {bank_q[0], bank_q[1]} : {bank_q[1], bank_q[0]};
  assign cut   = (LineWords * 16)'(lines >> {s1_offset_q, 4'd0});

  always_comb begin
    piece = '0;
    for (int unsigned i = 0; i < InWords && i < LineWords; i++) begin
      if (i < 32'(s1_words_q)) piece[i*16+:16] = cut[i*16+:16];
    end
    beat_d = beat_q | piece << {s1_place_q, 4'd0};
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) begin
      served_q   <= '0;
      filled_q   <= '0;
      part_q     <= '0;
      s1_valid_q <= 1'b0;
      beat_q     <= '0;
    end else begin
      if (serve_pop) served_q <= served_q + 16'd1;
      if (fill_pop) filled_q <= filled_q + 16'd1;
      if (fill_write) part_q <= part_last ? '0 : part_q + 1'b1;
      s1_valid_q <= read_go;
      if (s1_valid_q) beat_q <= s1_ends_q ? '0 : beat_d;
    end
    if (read_go) begin
      s1_ends_q   <= serve.ends_beat;
      s1_bank_q   <= serve.first_bank;
      s1_offset_q <= serve.offset;
      s1_words_q  <= serve.words;
      s1_place_q  <= serve.place;
    end
  end

  logic out_ready;
  fluidnpu_fifo #(.Width(InWords * 16), .Depth(BeatQueue)) beats (
    .clk_i, .rst_ni, .clear_i(flush_i), .valid_i(s1_valid_q && s1_ends_q), .ready_o(out_ready), .data_i(beat_d),
    .valid_o(beat_valid_o), .ready_i(beat_ready_i), .data_o(beat_o), .level_o(beat_level)
  );

  always_ff @(posedge clk_i) begin
    if (rst_ni && !flush_i) begin
      if (s1_valid_q && s1_ends_q) assert (out_ready);
      if (take) assert (32'(segment_words_i) <= LineWords && segment_words_i != '0 && !segment_addr_i[0]);
      if (s1_valid_q) assert (32'(s1_place_q) + 32'(s1_words_q) <= InWords);
    end
  end
endmodule
