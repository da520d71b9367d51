/// Takes the weight stream apart: bias headers go to `core_bias`, P-tiles to the waiting weights of the
/// array, one tile ahead.
///
/// A beat of a tile is taken while the waiting weights are empty or in the very cycle in which `swap_i`
/// empties them. As that comes late in a cycle, the tile's last beat and the last tile are found out a step
/// ahead.
module core_loader #(
  parameter int unsigned BiasesPerBeat = 1,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned ChainColumns = 1  // columns that share a slice
) (
  input  logic                                clk_i,           // clock
  input  logic                                rst_ni,          // reset, synchronous
  input  logic                                cmd_valid_i,     // a command waits for its weights
  output logic                                cmd_ready_o,     // all its weights are taken
  input  fluidnpu_formats_pkg::core_command_t cmd_i,           // its mode, P-tiles and columns count
  input  logic                                weight_valid_i,  // a weight beat is there
  output logic                                weight_ready_o,  // and is taken
  output logic                                bias_valid_o,    // it is a header of biases
  input  logic                                bias_ready_i,    // `core_bias` has room for it
  output core_pkg::load_t                     load_o,          // it is one of a P-tile
  output logic                                loaded_o,        // the waiting weights are whole
  input  logic                                swap_i           // they become the active ones
);
  localparam int unsigned Bits = $clog2((1 << 13) + WeightSlots + BiasesPerBeat);  // twice the columns, and a beat

  logic            in_tile_q, loaded_q, take, last_beat, last_slots_q, last_tile_q, tile_ends, load;
  logic [15:0]     tile_q;
  logic [12:0]     beat_q;
  logic [Bits-1:0] done_q, wanted;  // biases or slots, with this beat; slots of a tile

  always_comb begin
    wanted = Bits'(cmd_i.cols);
    if (cmd_i.mode == fluidnpu_formats_pkg::ModeWide) wanted = Bits'({cmd_i.cols, 1'b0}) + (ChainColumns > 1 && cmd_i.cols[0] ? Bits'(2) : '0);
    if (cmd_i.mode == fluidnpu_formats_pkg::ModeSplit) wanted = (Bits'(cmd_i.cols) + 1'b1) >> 1;
  end

  assign last_beat      = in_tile_q ? last_slots_q : done_q >= Bits'(cmd_i.cols);
  assign tile_ends      = load && last_slots_q;
  assign bias_valid_o   = cmd_valid_i && weight_valid_i && !in_tile_q;
  assign load           = cmd_valid_i && weight_valid_i && in_tile_q && (!loaded_q || swap_i);
  assign load_o         = {load, beat_q};
  assign take           = load || (bias_valid_o && bias_ready_i);
  assign weight_ready_o = take;
  assign cmd_ready_o    = load && last_slots_q && last_tile_q;
  assign loaded_o       = loaded_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      in_tile_q <= 1'b0;
      loaded_q  <= 1'b0;
      tile_q    <= '0;
      beat_q    <= '0;
      done_q    <= Bits'(BiasesPerBeat);
    end else begin
      // A cycle ahead: the tile that the next cycle finds; a command's header goes before its first.
      last_tile_q <= tile_ends ? tile_q + 16'd2 == cmd_i.p_tiles : tile_q + 16'd1 == cmd_i.p_tiles;
      if (take && last_beat) last_slots_q <= Bits'(WeightSlots) >= wanted;  // a tile begins
      else if (load) last_slots_q <= done_q + Bits'(WeightSlots) >= wanted;
      if (swap_i) loaded_q <= 1'b0;
      if (take) begin
        beat_q <= last_beat ? '0 : beat_q + 13'd1;
        done_q <= done_q + Bits'(in_tile_q ? WeightSlots : BiasesPerBeat);
        if (last_beat) begin
          in_tile_q <= !(in_tile_q && last_tile_q);
          done_q    <= Bits'(in_tile_q && last_tile_q ? BiasesPerBeat : WeightSlots);
          if (in_tile_q) tile_q <= last_tile_q ? '0 : tile_q + 16'd1;
          if (in_tile_q) loaded_q <= 1'b1;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && swap_i) assert (loaded_q);
    if (rst_ni && load) assert (last_tile_q == (tile_q + 16'd1 == cmd_i.p_tiles) && last_slots_q == (done_q >= wanted));
  end
endmodule
