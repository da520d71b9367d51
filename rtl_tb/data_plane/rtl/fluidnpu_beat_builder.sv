/// Cuts segments out of lines of the input buffer and puts each in its place of a beat, in registered steps.
///
/// Takes one segment a cycle, or two of the same beat, and gives the beat behind its last one, four cycles
/// later. Words that no segment covers are zero; in a max pool a word that is covered twice is the larger one.
/// Lines come as the two banks give them.
module fluidnpu_beat_builder #(
  parameter int unsigned InWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned LineWords = 16,
  localparam int unsigned CountWidth = $clog2(InWords + 1),
  localparam int unsigned OffsetBits = $clog2(LineWords)
) (
  input  logic                                    clk_i,         // clock
  input  logic                                    rst_ni,        // reset, synchronous
  input  logic                                    maximum_i,     // stands still while segments are under way
  input  logic                                    valid_i,       // a segment comes
  input  logic                                    two_i,         // the second is there too
  input  logic                                    ends_i,        // the beat, behind the last of them
  input  logic [1:0][1:0][LineWords*WordBits-1:0] lines_i,       // of each segment both banks
  input  logic [1:0]                              odd_i,         // the segment begins in bank 1
  input  logic [1:0][OffsetBits-1:0]              offset_i,      // words into its first line
  input  logic [1:0][CountWidth-1:0]              words_i,       // of the segment
  input  logic [1:0][CountWidth-1:0]              place_i,       // first word in the beat
  output logic                                    beat_valid_o,  // a beat is there
  output logic [InWords*WordBits-1:0]             beat_o         // that beat
);
  localparam int unsigned Piece = InWords < LineWords ? InWords : LineWords;  // words of the longest segment
  localparam int unsigned IndexBits = $clog2(WordBits);

  typedef struct packed {
    logic [1:0]                  odd;
    logic [1:0][OffsetBits-1:0]  offset;
    logic [1:0][CountWidth-1:0]  words;
    logic [1:0][CountWidth-1:0]  place;
    logic                        two;
  } where_t;

  (* max_fanout = 64 *) logic [3:0] valid_q, ends_q;  // of the steps: lines, cut, placed, merged
  (* max_fanout = 64 *) where_t where_q;
  logic [1:0][1:0][LineWords*WordBits-1:0] lines_q;
  logic [1:0][Piece*WordBits-1:0]          cut_q;
  (* max_fanout = 64 *) logic [1:0][CountWidth-1:0] place_q;
  logic [1:0][InWords-1:0]           covers_d, covers_q, placed_covers_q;
  logic [1:0][InWords*WordBits-1:0]        placed_d, placed_q;
  logic [InWords*WordBits-1:0]             merged_d, merged_q, beat_d, part_q;
  logic [InWords-1:0]                merged_covers_q, covered_q;

  function automatic logic signed [WordBits-1:0] larger(logic signed [WordBits-1:0] a, logic signed [WordBits-1:0] b);
    larger = a > b ? a : b;
  endfunction

  always_comb begin
    covers_d = '0;
    for (int unsigned i = 0; i < 2; i++) begin
      for (int unsigned w = 0; w < InWords; w++) begin
        covers_d[i][w] = (i == 0 || where_q.two) && w >= 32'(where_q.place[i]) && w < 32'(where_q.place[i]) + 32'(where_q.words[i]);
      end
    end
    for (int unsigned i = 0; i < 2; i++) begin
      placed_d[i] = (InWords * WordBits)'(cut_q[i]) << {place_q[i], IndexBits'(0)};
      for (int unsigned w = 0; w < InWords; w++) begin
        if (!covers_q[i][w]) placed_d[i][w*WordBits+:WordBits] = '0;
      end
    end
    merged_d = placed_q[0] | placed_q[1];
    beat_d   = part_q | merged_q;
    for (int unsigned w = 0; w < InWords; w++) begin
      if (maximum_i && placed_covers_q[0][w] && placed_covers_q[1][w]) begin
        merged_d[w*WordBits+:WordBits] = larger(placed_q[0][w*WordBits+:WordBits], placed_q[1][w*WordBits+:WordBits]);
      end
      if (maximum_i && covered_q[w] && merged_covers_q[w]) begin
        beat_d[w*WordBits+:WordBits] = larger(part_q[w*WordBits+:WordBits], merged_q[w*WordBits+:WordBits]);
      end
    end
  end
  assign beat_valid_o = valid_q[3] && ends_q[3];
  assign beat_o       = beat_d;

  always_ff @(posedge clk_i) begin
    where_q <= {odd_i, offset_i, words_i, place_i, two_i};
    lines_q <= lines_i;  // a block RAM's own output register
    for (int unsigned i = 0; i < 2; i++) begin
      cut_q[i] <= (Piece * WordBits)'((where_q.odd[i] ? {lines_q[i][0], lines_q[i][1]} : {lines_q[i][1], lines_q[i][0]}) >> {where_q.offset[i], IndexBits'(0)});
    end
    place_q         <= where_q.place;
    covers_q        <= covers_d;
    placed_q        <= placed_d;
    placed_covers_q <= covers_q;
    merged_q        <= merged_d;
    merged_covers_q <= placed_covers_q[0] | placed_covers_q[1];
    ends_q          <= {ends_q[2:0], ends_i};
    if (!rst_ni) begin
      ends_q[3] <= '0;  // with a reset a flip-flop, which may be replicated, and not the end of a shift register
      valid_q   <= '0;
      part_q    <= '0;
      covered_q <= '0;
    end else begin
      valid_q <= {valid_q[2:0], valid_i};
      if (valid_q[3]) begin
        part_q    <= ends_q[3] ? '0 : beat_d;
        covered_q <= ends_q[3] ? '0 : covered_q | merged_covers_q;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && valid_i) begin
      assert (words_i[0] != '0 && 32'(words_i[0]) <= Piece && 32'(place_i[0]) + 32'(words_i[0]) <= InWords);
      if (two_i) assert (words_i[1] != '0 && 32'(words_i[1]) <= Piece && 32'(place_i[1]) + 32'(words_i[1]) <= InWords);
    end
  end
endmodule
