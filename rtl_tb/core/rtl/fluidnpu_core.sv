/// The reference core: commands, inputs, weights and residuals in, outputs out (ADR 4); all five streams are
/// valid/ready.
///
/// Three walkers follow the commands at their own pace: `core_loader` the weights, one P-tile ahead;
/// `core_sequencer` the inputs, one beat a cycle; `core_drain` the outputs, OutWords words a cycle. The HLS
/// core gives the same bits; the build chooses between them. `saturations_o` counts since reset or `clear_i`
/// and saturates itself.
module fluidnpu_core #(
  parameter int unsigned TR = 64,
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned OutWords = 4,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  parameter int unsigned Cells = core_pkg::CellsInferred,  // how `core_mac` is written
  parameter int unsigned UltraBanks = 0,  // accumulator banks in UltraRAM, PE by PE; the rest is block RAM
  parameter int unsigned Piece = TP,      // words of a piece, of the chains that break
  parameter int unsigned Broken = 0,      // PEs whose chains break into pieces, to fit columns of DSP slices
  parameter int unsigned WordBits = 16,   // or 8: two columns share a slice (ADR 75)
  parameter int unsigned FieldBits = Cells == core_pkg::CellsDsp48e1 ? 17 : 18,  // of words of 8 bits: a slice's lower sum
  parameter int unsigned InWords = Stackable ? 2 * TP : TP,
  localparam int unsigned CommandBits = fluidnpu_formats_pkg::CoreCommandWireBits
) (
  input  logic                             clk_i,             // clock
  input  logic                             rst_ni,            // reset, synchronous
  input  logic                             clear_i,           // the count begins again
  output logic [31:0]                      saturations_o,     // words that could not be held; saturates
  input  logic                             cmd_valid_i,       // a command is there
  output logic                             cmd_ready_o,       // and is taken
  input  logic [CommandBits-1:0]           cmd_i,             // that command
  input  logic                             input_valid_i,     // an input beat is there
  output logic                             input_ready_o,     // and is taken
  input  logic [WordBits*InWords-1:0]       input_i,           // its words
  input  logic                             weight_valid_i,    // a weight beat is there
  output logic                             weight_ready_o,    // and is taken
  input  logic [WordBits*TP*WeightSlots-1:0] weight_i,         // its weights
  input  logic                             residual_valid_i,  // a residual beat is there
  output logic                             residual_ready_o,  // and is taken
  input  logic [WordBits*OutWords-1:0]      residual_i,        // its words
  output logic                             output_valid_o,    // an output beat is there
  input  logic                             output_ready_i,    // and is taken
  output logic [WordBits*OutWords-1:0]      output_o           // its words
);
  localparam int unsigned Columns = Split ? 2 * TC : TC;
  localparam int unsigned Banks = Columns;
  localparam int unsigned HalfRows = Split ? (TR + 1) / 2 : 0;
  localparam int unsigned Rows = Split ? HalfRows : TR;
  localparam int unsigned RowBits = Rows > 1 ? $clog2(Rows) : 1;
  localparam bit Scaled = WordBits == 8;
  localparam int unsigned BiasWords = Scaled ? 8 : 3;
  localparam int unsigned BiasWidth = Scaled ? core_pkg::ScaledBits : AccBits;
  localparam int unsigned BiasesPerSlot = TP < BiasWords ? 1 : TP / BiasWords;  // an illegal TP is to reach its message below
  localparam int unsigned BiasesPerBeat = BiasesPerSlot * WeightSlots;
  localparam int unsigned Breaks = Broken > 0 ? (TP - 1) / Piece : 0;
  localparam int unsigned Turnaround = Scaled ? 4 : (Stackable ? TP + 4 : TP + 3) + Breaks;
  localparam int unsigned QueueDepth = 4;
  localparam int unsigned DrainBits = fluidnpu_formats_pkg::CoreCommandBits - (Scaled ? 0 : 16);  // no residual's multiplier

  // Numbers of views as core_gather lays them out.
  localparam int unsigned Pairs = TC / 2;
  localparam int unsigned Groups = (TC + OutWords - 1) / OutWords;
  localparam bit Aligned = !Stackable || Pairs % OutWords == 0;
  localparam int unsigned LaneBase = Aligned ? Pairs / OutWords : Groups;
  localparam int unsigned HalfViews = Aligned ? Groups : Groups + (Pairs + OutWords - 1) / OutWords;
  localparam int unsigned SplitBase = 2 * HalfViews;
  localparam int unsigned PoolBase = Split ? SplitBase + (2 * TC + OutWords - 1) / OutWords : HalfViews;
  localparam int unsigned ViewBits = $clog2(PoolBase + (InWords + OutWords - 1) / OutWords + 1);
  localparam int unsigned BiasGroups = (Columns + OutWords - 1) / OutWords;
  localparam int unsigned GroupBits = BiasGroups > 1 ? $clog2(BiasGroups) : 1;

  if (TP < 3 || TC < 1 || TR < 1 || TR > 65535) begin : gen_illegal_array
    $fatal(1, "TP >= 3, TC >= 1 and TR in 1..65535 must hold in %m");
  end
  if (AccBits < 32 || AccBits > 48) begin : gen_illegal_acc_bits
    $fatal(1, "AccBits must lie in 32..48 in %m");
  end
  if (WeightSlots < 1 || OutWords < 1) begin : gen_illegal_streams
    $fatal(1, "WeightSlots and OutWords must be at least 1 in %m");
  end
  if (Stackable && TC < 2) begin : gen_illegal_pairs
    $fatal(1, "stackable PEs come in pairs: TC >= 2 must hold in %m");
  end
  if (Split && (TP % 2 != 0 || TP < 4 || TR < 2)) begin : gen_illegal_split
    $fatal(1, "split trees need an even TP of at least 4 and TR >= 2 in %m");
  end
  if (Columns > 4095 || TP > 4095) begin : gen_illegal_columns
    $fatal(1, "a column tile must have at most 4095 columns in %m");
  end
  if (WordBits != 16 && WordBits != 8) begin : gen_illegal_words
    $fatal(1, "WordBits must be 16 or 8 in %m");
  end
  if (Scaled && (AccBits != 32 || Split || TP < 8 || WeightSlots % 2 != 0 || TC % (Stackable ? 4 : 2) != 0)) begin : gen_illegal_bytes
    $fatal(1, "WordBits = 8 needs AccBits = 32, no split trees, TP >= 8, an even WeightSlots, and TC a multiple of 4 when Stackable, else of 2, in %m");
  end
  if (Scaled && FieldBits != 17 && FieldBits != 18) begin : gen_illegal_field
    $fatal(1, "FieldBits must be 17 or 18 in %m");
  end
  if (InWords < (Stackable ? 2 * TP : TP)) begin : gen_illegal_in_words
    $fatal(1, "InWords must be at least 2 * TP when Stackable, else TP, in %m");
  end

  if (Cells > core_pkg::CellsDsp48e2) begin : gen_illegal_cells
    $fatal(1, "Cells must be 0 (inferred), 1 (DSP48E1) or 2 (DSP48E2) in %m");
  end

  if (UltraBanks > (Split ? 4 : 2) * TC) begin : gen_illegal_ultra_banks
    $fatal(1, "UltraBanks must be at most the number of banks, 2 * TC or with split trees 4 * TC, in %m");
  end

  if (Piece < 1 || Piece > TP || Broken > TC || (Broken > 0 && Split)) begin : gen_illegal_pieces
    $fatal(1, "Piece must lie in 1..TP, Broken in 0..TC, and no chain may break with split trees, in %m");
  end

  if (Stackable && TC % 2 == 0 && Broken % 2 != 0) begin : gen_illegal_broken
    $fatal(1, "both chains of a pair must break, or none: Broken must be even in %m");
  end

  // Each part has registers of reset of its own. What is offered before they have all gone is lost.
  typedef enum logic [3:0] {OfQueues, OfSlices, OfLoader, OfBias, OfSequencer, OfArray, OfPool, OfDrain, OfFinish, Parts} part_e;
  logic [Parts-1:0] part_rst_n;
  common_reset #(.Copies(32'(Parts))) u_reset (.clk_i, .rst_ni, .rst_no(part_rst_n));

  // The command goes to three queues at once.
  fluidnpu_formats_pkg::core_command_t cmd, load_cmd, beat_cmd, drain_cmd;
  logic     load_ready, beat_ready, drain_ready, load_cmd_valid, beat_cmd_valid, drain_cmd_valid;
  logic     load_take, beat_take, drain_take, push;
  logic     one_beat, one_tile;  // of the command
  logic [31:0] load_fields;
  logic [37:0] beat_fields;
  logic [DrainBits-1:0] drain_fields;

  assign cmd         = cmd_i[fluidnpu_formats_pkg::CoreCommandBits-1:0];
  assign cmd_ready_o = load_ready && beat_ready && drain_ready;
  assign push        = cmd_valid_i && cmd_ready_o;

  common_fifo #(.Width(32), .Depth(QueueDepth), .Shown(1'b1)) u_load_queue (
    .clk_i, .rst_ni(part_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(push && cmd.mode < fluidnpu_formats_pkg::ModeMaxPool), .ready_o(load_ready),
    .data_i({cmd.mode, cmd.p_tiles, cmd.cols}), .valid_o(load_cmd_valid), .ready_i(load_take),
    .data_o(load_fields), .level_o()
  );
  common_fifo #(.Width(38), .Depth(QueueDepth), .Shown(1'b1)) u_beat_queue (
    .clk_i, .rst_ni(part_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(push), .ready_o(beat_ready),
    .data_i({cmd.mode, cmd.beats, cmd.p_tiles, cmd.beats == 16'd1, cmd.p_tiles == 16'd1}), .valid_o(beat_cmd_valid),
    .ready_i(beat_take), .data_o(beat_fields), .level_o()
  );
  common_fifo #(.Width(DrainBits), .Depth(QueueDepth), .Shown(1'b1)) u_drain_queue (
    .clk_i, .rst_ni(part_rst_n[OfQueues]), .clear_i(1'b0), .valid_i(push), .ready_o(drain_ready), .data_i(cmd[DrainBits-1:0]),
    .valid_o(drain_cmd_valid), .ready_i(drain_take), .data_o(drain_fields), .level_o()
  );
  assign drain_cmd = fluidnpu_formats_pkg::CoreCommandBits'(drain_fields);

  // Two of the queues keep only what their walkers look at.
  always_comb begin
    load_cmd = '0;
    beat_cmd = '0;
    {load_cmd.mode, load_cmd.p_tiles, load_cmd.cols}                        = load_fields;
    {beat_cmd.mode, beat_cmd.beats, beat_cmd.p_tiles, one_beat, one_tile} = beat_fields;
  end

  // Register slices cut the paths between data plane and core.
  logic                                 x_valid, x_take, slots_valid, slots_take, residual_valid, residual_take;
  logic [WordBits*OutWords-1:0]               residual;
  logic [InWords-1:0][WordBits-1:0]     x;
  logic [WeightSlots-1:0][TP-1:0][WordBits-1:0] slots;

  common_skid #(.Width(WordBits * InWords)) u_input (
    .clk_i, .rst_ni(part_rst_n[OfSlices]), .valid_i(input_valid_i), .ready_o(input_ready_o), .data_i(input_i), .valid_o(x_valid), .ready_i(x_take), .data_o(x)
  );
  common_skid #(.Width(WordBits * TP * WeightSlots)) u_weight (
    .clk_i, .rst_ni(part_rst_n[OfSlices]), .valid_i(weight_valid_i), .ready_o(weight_ready_o), .data_i(weight_i), .valid_o(slots_valid),
    .ready_i(slots_take), .data_o(slots)
  );
  common_skid #(.Width(WordBits * OutWords)) u_residual (
    .clk_i, .rst_ni(part_rst_n[OfSlices]), .valid_i(residual_valid_i), .ready_o(residual_ready_o), .data_i(residual_i), .valid_o(residual_valid),
    .ready_i(residual_take), .data_o(residual)
  );

  // Weights and biases.
  logic                             header_valid, header_ready, loaded, bias_ready;
  core_pkg::load_t                  load;
  logic [1:0]                       bias_generation, read_generation;
  logic [GroupBits-1:0]             group;
  logic [BiasesPerBeat-1:0][BiasWidth-1:0] header;
  logic [OutWords-1:0][BiasWidth-1:0]      bias;
  core_pkg::beat_t                  beat;
  core_pkg::fetch_t                 fetch;

  core_loader #(.BiasesPerBeat(BiasesPerBeat), .WeightSlots(WeightSlots), .ChainColumns(Scaled ? 2 : 1)) u_loader (
    .clk_i, .rst_ni(part_rst_n[OfLoader]), .cmd_valid_i(load_cmd_valid), .cmd_ready_o(load_take), .cmd_i(load_cmd),
    .weight_valid_i(slots_valid), .weight_ready_o(slots_take),
    .bias_valid_o(header_valid), .bias_ready_i(header_ready), .load_o(load), .loaded_o(loaded),
    .swap_i(beat.swap)
  );
  for (genvar i = 0; i < BiasesPerBeat; i++) begin : gen_header
    logic [BiasWords*WordBits-1:0] words;
    assign words = slots[i/BiasesPerSlot][i%BiasesPerSlot*BiasWords+:BiasWords];
    if (Scaled) begin : gen_scaled
      assign header[i] = {words[56+:6], words[32+:core_pkg::MultiplierBits], words[31:0]};
    end else begin : gen_plain
      assign header[i] = words[BiasWidth-1:0];
    end
  end
  core_bias #(.BiasesPerBeat(BiasesPerBeat), .Columns(Columns), .Width(BiasWidth), .OutWords(OutWords)) u_bias (
    .clk_i, .rst_ni(part_rst_n[OfBias]), .header_valid_i(header_valid), .header_ready_o(header_ready), .header_cols_i(load_cmd.cols),
    .header_i(header), .ready_o(bias_ready), .release_i(fetch.command), .generation_o(bias_generation),
    .read_generation_i(read_generation), .read_group_i(group), .bias_o(bias)
  );

  // Inputs: array or pool.
  logic                                  pool_ready, pool_row_valid, pool_take, written;
  core_pkg::taps_t                       taps;
  logic [Banks-1:0][AccBits-1:0]         rows;
  logic [InWords-1:0][WordBits+core_pkg::TapBits-1:0] pool_row;

  core_sequencer #(.Turnaround(Turnaround), .HalfRows(HalfRows)) u_sequencer (
    .clk_i, .rst_ni(part_rst_n[OfSequencer]), .cmd_valid_i(beat_cmd_valid), .cmd_ready_o(beat_take), .cmd_i(beat_cmd),
    .cmd_one_beat_i(one_beat), .cmd_one_tile_i(one_tile),
    .input_valid_i(x_valid), .input_ready_o(x_take), .loaded_i(loaded), .beat_o(beat), .fetch_i(fetch),
    .taps_o(taps), .pool_ready_i(pool_ready)
  );
  if (Scaled) begin : gen_packed
    core_packed_array #(
      .TP(TP), .TC(TC), .TR(TR), .AccBits(AccBits), .FieldBits(FieldBits), .WeightSlots(WeightSlots), .Stackable(Stackable),
      .Cells(Cells), .UltraBanks(UltraBanks), .Piece(Piece), .Broken(Broken), .InWords(InWords)
    ) u_array (
      .clk_i, .rst_ni(part_rst_n[OfArray]), .beat_i(beat), .mode_i(beat_cmd.mode), .x_i(x), .load_i(load),
      .load_mode_i(load_cmd.mode), .slots_i(slots), .written_o(written), .fetch_i(fetch.valid), .fetch_row_i(fetch.row[RowBits-1:0]),
      .rows_o(rows)
    );
  end else begin : gen_plain
    core_array #(
      .TP(TP), .TC(TC), .TR(TR), .AccBits(AccBits), .WeightSlots(WeightSlots), .Stackable(Stackable), .Split(Split), .Cells(Cells),
      .UltraBanks(UltraBanks), .Piece(Piece), .Broken(Broken), .InWords(InWords)
    ) u_array (
      .clk_i, .rst_ni(part_rst_n[OfArray]), .beat_i(beat), .mode_i(beat_cmd.mode), .x_i(x), .load_i(load),
      .load_mode_i(load_cmd.mode), .slots_i(slots), .written_o(written), .fetch_i(fetch.valid), .fetch_row_i(fetch.row[RowBits-1:0]),
      .rows_o(rows)
    );
  end
  core_pool #(.Channels(InWords), .WordBits(WordBits)) u_pool (
    .clk_i, .rst_ni(part_rst_n[OfPool]), .beat_i(taps), .ready_o(pool_ready), .maximum_i(beat_cmd.mode == fluidnpu_formats_pkg::ModeMaxPool),
    .taps_i(x), .valid_o(pool_row_valid), .take_i(pool_take), .row_o(pool_row)
  );

  // Outputs.
  logic                             enable;
  logic [ViewBits-1:0]              view;
  logic [OutWords-1:0]              used;
  core_pkg::issue_t                 issue;
  logic [OutWords-1:0][AccBits-1:0] sums;

  core_drain #(
    .OutWords(OutWords), .HalfRows(HalfRows), .ViewBits(ViewBits), .LaneBase(LaneBase), .HalfViews(HalfViews),
    .SplitBase(SplitBase), .PoolBase(PoolBase), .GroupBits(GroupBits)
  ) u_drain (
    .clk_i, .rst_ni(part_rst_n[OfDrain]), .cmd_valid_i(drain_cmd_valid), .cmd_ready_o(drain_take), .cmd_i(drain_cmd), .written_i(written),
    .bias_ready_i(bias_ready), .bias_generation_i(bias_generation), .fetch_o(fetch),
    .pool_valid_i(pool_row_valid), .pool_take_o(pool_take),
    .enable_i(enable), .residual_valid_i(residual_valid), .residual_ready_o(residual_take), .issue_o(issue),
    .view_o(view), .used_o(used), .generation_o(read_generation), .group_o(group)
  );
  core_gather #(.Channels(InWords), .TC(TC), .AccBits(AccBits), .WordBits(WordBits), .OutWords(OutWords), .Stackable(Stackable), .Split(Split)) u_gather (
    .clk_i, .enable_i(enable), .rows_i(rows), .pool_row_i(pool_row), .view_i(view), .sums_o(sums)
  );
  core_finish #(.AccBits(AccBits), .WordBits(WordBits), .OutWords(OutWords)) u_finish (
    .clk_i, .rst_ni(part_rst_n[OfFinish]), .enable_o(enable), .issue_i(issue), .used_i(used), .residual_i(residual),
    .bias_i(bias), .sums_i(sums), .output_valid_o, .output_ready_i, .output_o,
    .clear_i, .saturations_o
  );
endmodule
