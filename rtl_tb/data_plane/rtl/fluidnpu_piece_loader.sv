/// Fills the activation unit's bank that is not in use with the pieces of the layer that is planned next (ADR 69).
///
/// It shares the read master of residuals by turns: with `turn_o` the reader of residuals asks for nothing, and
/// all that it has asked for is taken before the pieces are asked for, in one request. Then a piece a cycle
/// goes into every lane (table), or into one lane after another (channels); those of a table behind the rows of
/// the RAM are the outer ones, below first.
module fluidnpu_piece_loader #(
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortWords = 8,
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth,
  localparam int unsigned RowWidth = $clog2(fluidnpu_pkg::PieceRows)
) (
  input  logic                         clk_i,          // clock
  input  logic                         rst_ni,         // reset, synchronous
  input  logic [AddrWidth-1:0]         image_i,        // where the weight image begins
  input  fluidnpu_formats_pkg::layer_t layer_i,        // that is planned; its pieces stand some cycles before
  input  logic                         planned_i,      // held until loaded_o
  output logic                         loaded_o,       // its pieces are in the bank, or it has none
  output logic                         turn_o,         // nobody else may ask the read master
  output logic                         reads_o,        // nor take its data
  input  logic                         quiet_i,        // nothing is under way in the read master
  output logic                         fetch_valid_o,  // request of all pieces
  input  logic                         fetch_ready_i,  // it is taken
  output logic [AddrWidth-1:0]         fetch_addr_o,   // of the first port word
  output logic [23:0]                  fetch_beats_o,  // port words
  input  logic                         data_valid_i,   // a port word is there
  output logic                         data_ready_o,   // and is taken
  input  logic [PortWords*16-1:0]      data_i,         // its words
  output logic                         bank_o,         // that was filled last: the next layer's
  output logic                         write_o,        // a piece goes into the other bank
  output logic [OutWords-1:0]          write_lanes_o,  // in these lanes
  output logic [RowWidth-1:0]          write_row_o,    // in this row
  output logic                         write_outer_o,  // not into the RAM: below the window, or with row 1 above it
  output logic [31:0]                  write_piece_o   // base in the low half, slope above
);
  localparam int unsigned WordPieces = PortWords / 2;
  localparam int unsigned SlotWidth = WordPieces > 1 ? $clog2(WordPieces) : 1;

  if (PortWords < 2 || PortWords > 32) begin : gen_illegal
    $fatal(1, "a port word must hold whole pieces and at most the 64 bytes that pieces begin at a multiple of in %m");
  end

  // Rest: waits for a plan with pieces. Ask: until the read master is quiet. Fetch: until it takes the request.
  // Read: a piece for every cycle in which a port word is there. Loaded: one cycle, in which the plan ends.
  typedef enum logic [2:0] {Rest, Ask, Fetch, Read, Loaded} state_e;
  state_e               state_q;
  logic                 wanted_q, fill_q, table_q, take, word_ends, ends;
  logic [15:0]          left_q;  // pieces still to come
  logic [SlotWidth-1:0] slot_q;  // of the port word
  logic [OutWords-1:0]  lane_q;
  logic [RowWidth:0]    row_q;

  assign loaded_o      = !wanted_q || state_q == Loaded;
  assign turn_o        = state_q == Ask || state_q == Fetch || state_q == Read;
  assign reads_o       = state_q == Read;
  assign fetch_valid_o = state_q == Fetch;
  assign take          = reads_o && data_valid_i;
  assign ends          = left_q == 16'd1;
  assign word_ends     = 32'(slot_q) == WordPieces - 1;
  assign data_ready_o  = reads_o && (word_ends || ends);
  assign bank_o        = !fill_q;

  always_ff @(posedge clk_i) begin
    wanted_q      <= layer_i.pieces != '0;
    fetch_addr_o  <= image_i + AddrWidth'(layer_i.piece_address);
    fetch_beats_o <= 24'((32'(layer_i.pieces) + WordPieces - 1) / WordPieces);
    case (state_q)
      Rest:    if (planned_i && wanted_q) state_q <= Ask;
      Ask:     if (quiet_i) state_q <= Fetch;
      Fetch:   if (fetch_ready_i) state_q <= Read;
      Read:    if (take && ends) state_q <= Loaded;
      default: state_q <= Rest;
    endcase
    if (state_q == Loaded) fill_q <= !fill_q;
    if (state_q == Ask) begin
      table_q <= layer_i.activation == fluidnpu_formats_pkg::ActivationTable;
      left_q  <= layer_i.pieces;
      slot_q  <= '0;
      lane_q  <= OutWords'(1);
      row_q   <= '0;
    end else if (take) begin
      left_q <= left_q - 16'd1;
      slot_q <= word_ends ? '0 : slot_q + 1'b1;
      lane_q <= lane_q << 1 | lane_q >> (OutWords - 1);
      if (table_q || lane_q[OutWords-1]) row_q <= row_q + 1'b1;
    end
    if (!rst_ni) begin  // of the others each is set before its use
      state_q <= Rest;
      fill_q  <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    write_o       <= rst_ni && take;
    write_lanes_o <= table_q ? '1 : lane_q;
    write_row_o   <= row_q[RowWidth-1:0];
    write_outer_o <= row_q[RowWidth];
    write_piece_o <= data_i[32*32'(slot_q)+:32];
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (state_q <= Loaded);
      if (state_q != Rest) assert (wanted_q);  // a soft reset takes the plan away before it comes here
      if (state_q == Read) assert (left_q != '0 && lane_q != '0 && 32'(slot_q) < WordPieces);
    end
  end
endmodule
