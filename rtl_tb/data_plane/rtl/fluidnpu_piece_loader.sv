/// Fills the banks that are not in use with the constants of the layer that is planned next (ADR 69, ADR 70).
///
/// They are pieces of the activation unit, weights of the filter and pieces of the table behind it, one after another.
/// It shares the read master of residuals by turns: with `turn_o` the reader of residuals asks for nothing, and
/// all that it has asked for is taken before the constants are asked for, in one request. Then a piece a cycle
/// goes into every lane (table), or into one lane after another (channels); those of a table behind the rows of
/// the RAM are the outer ones, below first. Of the filter's weights it is a port word a cycle: a pair of 16-bit
/// words for as many lanes as it holds. Each section begins with a port word.
module fluidnpu_piece_loader #(
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortWords = 8,
  parameter int unsigned WordBits = 16,
  parameter int unsigned FilterWeights = 0,  // rows of a bank of the filter; 0: there is none
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth,
  localparam int unsigned RowWidth = $clog2(fluidnpu_pkg::PieceRows),
  localparam int unsigned FilterWidth = FilterWeights > 1 ? $clog2(FilterWeights) : 1
) (
  input  logic                          clk_i,            // clock
  input  logic                          rst_ni,           // reset, synchronous
  input  logic [AddrWidth-1:0]          image_i,          // where the weight image begins
  input  fluidnpu_formats_pkg::layer_t  layer_i,          // that is planned; it stands some cycles before
  input  logic                          planned_i,        // held until loaded_o
  output logic                          loaded_o,         // its constants are in the bank, or it has none
  output logic                          turn_o,           // nobody else may ask the read master
  output logic                          reads_o,          // nor take its data
  input  logic                          quiet_i,          // nothing is under way in the read master
  output logic                          fetch_valid_o,    // request of all constants
  input  logic                          fetch_ready_i,    // it is taken
  output logic [AddrWidth-1:0]          fetch_addr_o,     // of the first port word
  output logic [23:0]                   fetch_beats_o,    // port words
  input  logic                          data_valid_i,     // a port word is there
  output logic                          data_ready_o,     // and is taken
  input  logic [PortWords*WordBits-1:0] data_i,           // its words
  output logic                          bank_o,           // that was filled last: the next layer's
  output logic                          write_o,          // a piece goes into the other bank of the unit
  output logic                          write_behind_o,   // of that behind the filter
  output logic [OutWords-1:0]           write_lanes_o,    // in these lanes
  output logic [RowWidth-1:0]           write_row_o,      // in this row
  output logic                          write_outer_o,    // not into the RAM: below the window, or with row 1 above it
  output logic [31:0]                   write_piece_o,    // base in the low half, slope above
  output logic                          weights_o,        // a pair of weights goes into the other bank of the filter
  output logic [OutWords-1:0]           weights_lanes_o,  // in these lanes
  output logic [FilterWidth-1:0]        weights_row_o,    // in this row
  output logic [2:0]                    weights_pair_o,   // which of its six
  output logic [PortWords*WordBits-1:0] weights_words_o   // lane l takes pair l % WordPieces
);
  localparam int unsigned WordPieces = PortWords * WordBits / 32;
  localparam int unsigned SlotWidth = WordPieces > 1 ? $clog2(WordPieces) : 1;

  if (WordPieces < 1 || WordPieces > 16) begin : gen_illegal
    $fatal(1, "a port word must hold whole pieces and at most the 64 bytes that pieces begin at a multiple of in %m");
  end

  localparam int unsigned TablePieces = fluidnpu_pkg::PieceRows + 2;
  localparam int unsigned PairWords = (OutWords + WordPieces - 1) / WordPieces;  // port words of a pair of all lanes
  localparam int unsigned PartWidth = PairWords > 1 ? $clog2(PairWords) : 1;
  localparam int unsigned LeftWidth = FilterWeights != 0 ? 24 : 16;
  localparam bit Filters = FilterWeights != 0;

  // Rest: waits for a plan with constants. Ask: until the read master is quiet. Fetch: until it takes the request.
  // Read: a piece, or a port word of weights, for every cycle in which a port word is there. Loaded: one cycle, in
  // which the plan ends.
  typedef enum logic [2:0] {Rest, Ask, Fetch, Read, Loaded} state_e;
  typedef enum logic [1:0] {Front, Weights, Behind} section_e;
  state_e               state_q;
  section_e             section_q, section;  // at hand; that begins
  logic                 wanted_q, fill_q, table_q, take, word_ends, ends, begins, last, filters, weights;
  logic [23:0]          weights_q;  // port words of the filter's weights
  logic [LeftWidth-1:0] left_q;     // of the section: pieces, or port words of weights, still to come
  logic [SlotWidth-1:0] slot_q;  // of the port word
  logic [OutWords-1:0]  lane_q;
  logic [RowWidth:0]    row_q;
  logic [FilterWidth-1:0] weights_row_q;
  logic [2:0]           pair_q;
  logic [PartWidth-1:0] part_q;  // of the port words of a pair

  assign loaded_o      = !wanted_q || state_q == Loaded;
  assign turn_o        = state_q == Ask || state_q == Fetch || state_q == Read;
  assign reads_o       = state_q == Read;
  assign fetch_valid_o = state_q == Fetch;
  assign take          = reads_o && data_valid_i;
  assign filters       = Filters && layer_i.filter_kernel != '0;
  assign weights       = Filters && section_q == Weights;
  assign ends          = left_q == LeftWidth'(1);
  assign word_ends     = weights || 32'(slot_q) == WordPieces - 1;
  assign data_ready_o  = reads_o && (word_ends || ends);
  assign bank_o        = !fill_q;

  always_comb begin  // sections follow one another without a gap
    section = Front;
    last    = 1'b1;
    if (Filters) begin
      section = state_q == Ask ? (layer_i.pieces != '0 ? Front : Weights) : section_q == Front ? Weights : Behind;
      last    = section_q == Front ? !filters : section_q == Behind || !layer_i.filter_table;
    end
  end
  assign begins = state_q == Ask || (Filters && take && ends);

  always_ff @(posedge clk_i) begin
    wanted_q      <= layer_i.pieces != '0 || filters;
    fetch_addr_o  <= image_i + AddrWidth'(layer_i.piece_address);
    weights_q     <= Filters ? 24'(layer_i.filter_rows) * 24'(6 * PairWords) : '0;
    fetch_beats_o <= 24'((32'(layer_i.pieces) + WordPieces - 1) / WordPieces) + (filters ? weights_q : '0)
        + (filters && layer_i.filter_table ? 24'((TablePieces + WordPieces - 1) / WordPieces) : '0);
    case (state_q)
      Rest:    if (planned_i && wanted_q) state_q <= Ask;
      Ask:     if (quiet_i) state_q <= Fetch;
      Fetch:   if (fetch_ready_i) state_q <= Read;
      Read:    if (take && ends && last) state_q <= Loaded;
      default: state_q <= Rest;
    endcase
    if (state_q == Loaded) fill_q <= !fill_q;
    if (begins) begin
      section_q <= section;
      table_q   <= section == Behind || layer_i.activation == fluidnpu_formats_pkg::ActivationTable;
      unique case (section)
        Weights: left_q <= LeftWidth'(weights_q);
        Behind:  left_q <= LeftWidth'(TablePieces);
        default: left_q <= LeftWidth'(layer_i.pieces);
      endcase
      slot_q  <= '0;
      lane_q  <= OutWords'(1);
      row_q   <= '0;
    end else if (take) begin
      left_q <= left_q - 1'b1;
      slot_q <= word_ends ? '0 : slot_q + 1'b1;
      lane_q <= lane_q << 1 | lane_q >> (OutWords - 1);
      if (table_q || lane_q[OutWords-1]) row_q <= row_q + 1'b1;
    end
    if (state_q == Ask) begin
      part_q        <= '0;
      pair_q        <= '0;
      weights_row_q <= '0;
    end else if (take && weights) begin
      part_q <= 32'(part_q) == PairWords - 1 ? '0 : part_q + 1'b1;
      if (32'(part_q) == PairWords - 1) begin
        pair_q <= pair_q == 3'd5 ? '0 : pair_q + 3'd1;
        if (pair_q == 3'd5) weights_row_q <= weights_row_q + 1'b1;
      end
    end
    if (!rst_ni) begin  // of the others each is set before its use
      state_q <= Rest;
      fill_q  <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    write_o        <= rst_ni && take && (!Filters || section_q == Front);
    write_behind_o <= rst_ni && take && Filters && section_q == Behind;
    write_lanes_o  <= table_q ? '1 : lane_q;
    write_row_o    <= row_q[RowWidth-1:0];
    write_outer_o  <= row_q[RowWidth];
    write_piece_o  <= data_i[32*32'(slot_q)+:32];
  end
  always_ff @(posedge clk_i) begin
    weights_o       <= rst_ni && take && weights;
    weights_row_o   <= weights_row_q;
    weights_pair_o  <= pair_q;
    weights_words_o <= Filters ? data_i : '0;
    for (int unsigned i = 0; i < OutWords; i++) weights_lanes_o[i] <= Filters && 32'(part_q) == i / WordPieces;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (state_q <= Loaded);
      if (state_q != Rest) assert (wanted_q);  // a soft reset takes the plan away before it comes here
      if (state_q == Read) assert (left_q != '0 && lane_q != '0 && 32'(slot_q) < WordPieces);
      if (state_q == Read && weights) assert (pair_q <= 3'd5 && 32'(weights_row_q) < FilterWeights && 32'(part_q) < PairWords);
    end
  end
endmodule
