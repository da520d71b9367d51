/// Adds up the addresses of segments and keeps segments until the row buffer takes them, so that windows are
/// cut ahead of their rows.
///
/// Takes one segment a cycle, or two of the same beat, whenever it has room, and shows them in the same order:
/// a pair that came together is shown together, and what is left of it when only the first was taken. With
/// each pair goes the oldest place that it and all later ones need. Addresses are sums of five parts, added in
/// two steps; three cycles later than the parts a segment is shown.
module fluidnpu_segment_queue #(
  parameter int unsigned CountWidth = 4,
  parameter int unsigned Depth = 16,  // pairs, 4 at least
  parameter int unsigned WordBits = 16
) (
  input  logic                           clk_i,            // clock
  input  logic                           rst_ni,           // reset, synchronous
  input  logic                           layer_start_i,    // a layer begins
  input  logic [23:0]                    span_i,           // input rows of a window
  input  logic [31:0]                    oldest_i,         // oldest place that the segments need
  input  logic                           segment_valid_i,  // a segment comes
  output logic                           segment_ready_o,  // and is taken, the second as well
  input  fluidnpu_formats_pkg::parts_t   segment_parts_i,  // the parts of its place
  input  logic [CountWidth-1:0]          segment_words_i,  // its words
  input  logic [CountWidth-1:0]          segment_place_i,  // its first word in the beat
  input  logic                           second_valid_i,   // so does another one of the same beat
  input  fluidnpu_formats_pkg::parts_t   second_parts_i,   // the parts of its place
  input  logic [CountWidth-1:0]          second_words_i,   // its words
  input  logic [CountWidth-1:0]          second_place_i,   // its first word in the beat
  output logic [31:0]                    oldest_o,         // oldest place that these and all later ones need
  output logic                           segment_valid_o,  // a segment is there
  input  logic                           segment_ready_i,  // and is taken
  output fluidnpu_formats_pkg::segment_t segment_o,        // that segment
  output logic [CountWidth-1:0]          segment_words_o,  // its words
  output logic [CountWidth-1:0]          segment_place_o,  // its first word in the beat
  output logic                           second_valid_o,   // so is another one of the same beat
  input  logic                           second_ready_i,   // which is taken as well
  output fluidnpu_formats_pkg::segment_t second_o,         // that one
  output logic [CountWidth-1:0]          second_words_o,   // its words
  output logic [CountWidth-1:0]          second_place_o    // its first word in the beat
);
  localparam int unsigned ByteBits = $clog2(WordBits / 8);

  if (Depth < 4) begin : gen_illegal
    $fatal(1, "Depth must be at least 4 in %m");
  end

  typedef struct packed {
    fluidnpu_formats_pkg::segment_t at;
    logic [CountWidth-1:0]          words;
    logic [CountWidth-1:0]          place;
  } entry_t;
  typedef struct packed {
    logic [31:0] oldest;
    logic        two;
    entry_t      first;
    entry_t      second;
  } pair_t;

  logic                         parts_valid_q, sums_valid_q, parts_two_q, shown_q, first_gone_q, next, both, take, next_valid;
  fluidnpu_formats_pkg::parts_t         parts_q, second_parts_q;
  logic [1:0][CountWidth-1:0]   words_q, place_q;
  logic [31:0]                  parts_oldest_q;
  logic [1:0][31:0]             reach_q;
  pair_t                        sums_q, sums_d, pushed, head, shown_pair_q;
  logic [$clog2(Depth+1)-1:0]   level;

  // What is on its way must fit as well: two pairs, besides this one. Found out a step ahead.
  logic roomy_q;
  assign segment_ready_o = roomy_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) roomy_q <= 1'b1;
    else if (sums_valid_q && !(next && next_valid)) roomy_q <= 32'(level) + 4 <= Depth;
    else if (!sums_valid_q && next && next_valid) roomy_q <= 32'(level) + 2 <= Depth;
    else roomy_q <= 32'(level) + 3 <= Depth;
  end

  function automatic entry_t sums(
    fluidnpu_formats_pkg::parts_t parts, logic [CountWidth-1:0] words, logic [CountWidth-1:0] place
  );
    entry_t made;
    made.at.addr      = parts.base + parts.offset;
    made.at.lane      = parts.lane;
    made.at.rows      = parts.top + span_i;
    made.at.ends_beat = parts.ends_beat;
    made.words        = words;
    made.place        = place;
    sums = made;
  endfunction

  always_comb begin
    sums_d        = '0;
    sums_d.oldest = parts_oldest_q;
    sums_d.two    = parts_two_q;
    sums_d.first  = sums(parts_q, words_q[0], place_q[0]);
    sums_d.second = sums(second_parts_q, words_q[1], place_q[1]);
    pushed                = sums_q;
    pushed.first.at.addr  = sums_q.first.at.addr + reach_q[0];
    pushed.second.at.addr = sums_q.second.at.addr + reach_q[1];
  end

  always_ff @(posedge clk_i) begin
    parts_q        <= segment_parts_i;
    second_parts_q <= second_parts_i;
    words_q        <= {second_words_i, segment_words_i};
    place_q        <= {second_place_i, segment_place_i};
    parts_two_q    <= second_valid_i;
    parts_oldest_q <= oldest_i;
    sums_q         <= sums_d;
    reach_q[0]     <= parts_q.row_reach + parts_q.column_reach + (32'(parts_q.word) << ByteBits);
    reach_q[1]     <= second_parts_q.row_reach + second_parts_q.column_reach + (32'(second_parts_q.word) << ByteBits);
    if (!rst_ni) begin
      parts_valid_q <= 1'b0;
      sums_valid_q  <= 1'b0;
    end else begin
      parts_valid_q <= segment_valid_i && segment_ready_o;
      sums_valid_q  <= parts_valid_q;
    end
  end

  logic room;
  common_fifo #(.Width($bits(pushed)), .Depth(Depth)) pairs (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(sums_valid_q), .ready_o(room), .data_i(pushed),
    .valid_o(next_valid), .ready_i(next), .data_o(head), .level_o(level)
  );

  assign take = segment_valid_o && segment_ready_i;
  assign both = take && (!second_valid_o || second_ready_i);  // nothing is left of the pair
  assign next = !shown_q || both;

  always_ff @(posedge clk_i) begin
    if (next) shown_pair_q <= head;
    if (!rst_ni) begin
      shown_q      <= 1'b0;
      first_gone_q <= 1'b0;
      oldest_o     <= '0;
    end else begin
      if (next) begin
        shown_q      <= next_valid;
        first_gone_q <= 1'b0;
        if (next_valid) oldest_o <= head.oldest;
      end else if (take) begin
        first_gone_q <= 1'b1;
      end
      if (layer_start_i) oldest_o <= '0;
    end
  end

  entry_t shown;
  assign shown           = first_gone_q ? shown_pair_q.second : shown_pair_q.first;
  assign segment_valid_o = shown_q;
  assign segment_o       = shown.at;
  assign segment_words_o = shown.words;
  assign segment_place_o = shown.place;
  assign second_valid_o  = shown_q && !first_gone_q && shown_pair_q.two;
  assign second_o        = shown_pair_q.second.at;
  assign second_words_o  = shown_pair_q.second.words;
  assign second_place_o  = shown_pair_q.second.place;

  always_ff @(posedge clk_i) begin
    if (rst_ni && sums_valid_q) assert (room);
    if (rst_ni) assert (roomy_q == (32'(level) + 3 <= Depth));
    if (rst_ni && second_valid_i) assert (segment_valid_i);
  end
endmodule
