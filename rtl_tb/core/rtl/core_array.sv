/// TC processing elements with the front that feeds them, the pair adders, and the control line that follows
/// every beat.
///
/// A beat given in cycle s reads its accumulators in s + 1 and writes them in s + TP + 3, one later behind a
/// pair adder, and one for each break of a chain. The chains of the last pairs break into pieces, as many of
/// them as `Broken` says, in PEs; both of a pair break or none. `written_o` pulses with the last write of a
/// finished row. Split designs: see `core_pe_split`.
module core_array #(
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned TR = 512,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WeightSlots = 1,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned UltraBanks = 0,
  parameter int unsigned Piece = TP,   // words of a piece
  parameter int unsigned Broken = 0,   // PEs whose chains break
  parameter int unsigned InWords = Stackable ? 2 * TP : TP,  // of a beat: at least so many
  localparam int unsigned Rows = Split ? (TR + 1) / 2 : TR,
  localparam int unsigned RowBits = Rows > 1 ? $clog2(Rows) : 1,
  localparam int unsigned Banks = Split ? 2 * TC : TC
) (
  input  logic                                 clk_i,        // clock
  input  logic                                 rst_ni,       // reset, synchronous
  input  core_pkg::beat_t                      beat_i,       // a beat of a P-tile, or zero
  input  fluidnpu_formats_pkg::mode_e          mode_i,       // of the beat's command
  input  logic [InWords-1:0][15:0]             x_i,          // its words, InWords of which mode and design use some
  input  core_pkg::load_t                      load_i,       // weights of the next P-tile come
  input  fluidnpu_formats_pkg::mode_e          load_mode_i,  // of their command
  input  logic [WeightSlots-1:0][TP-1:0][15:0] slots_i,      // weights, a column a slot
  output logic                                 written_o,    // a row is finished in the output banks
  input  logic                                 fetch_i,      // reads a row of the output banks
  input  logic [RowBits-1:0]                   fetch_row_i,  // which
  output logic [Banks-1:0][AccBits-1:0]        rows_o        // upper half banks from TC on
);
  localparam int unsigned SumBits = 48;
  localparam int unsigned Pairs = Stackable ? TC / 2 : TC;
  localparam int unsigned Half = TP / 2;
  localparam int unsigned Second = Stackable ? TP : 0;  // where a beat's second P-tile begins
  localparam int unsigned BanksPerPe = Split ? 4 : 2;
  localparam int unsigned Breaks = (TP - 1) / Piece;
  localparam int unsigned Early = TP + 3 + (Broken > 0 ? Breaks : 0);
  localparam int unsigned Late = Stackable ? Early + 1 : Early;

  // Front: which half of the beat, or which half twice, a processing element sees.
  logic [TP-1:0][15:0] low, lower_half_q, upper_half_q, lower_x, upper_x;

  always_comb begin
    low = x_i[TP-1:0];
    if (Split && mode_i == fluidnpu_formats_pkg::ModeSplit) for (int i = Half; i < TP; i++) low[i] = x_i[i-Half];
  end
  always_ff @(posedge clk_i) begin
    lower_half_q <= low;
    upper_half_q <= Stackable && (mode_i == fluidnpu_formats_pkg::ModeWide || mode_i == fluidnpu_formats_pkg::ModeLanes) ? x_i[Second+:TP] : low;
  end
  core_skew #(.Words(TP)) u_lower (.clk_i, .data_i(lower_half_q), .data_o(lower_x));
  core_skew #(.Words(TP)) u_upper (.clk_i, .data_i(upper_half_q), .data_o(upper_x));

  logic [WeightSlots-1:0][TP-1:0][15:0] lower_weight, upper_weight;
  logic [TC-1:0]                        load;

  core_weight_bus #(.TP(TP), .TC(TC), .WeightSlots(WeightSlots), .Stackable(Stackable)) u_weights (
    .clk_i, .load_i, .mode_i(load_mode_i), .slots_i, .lower_o(lower_weight), .upper_o(upper_weight),
    .load_o(load)
  );

  // Index k of the control line belongs to the beat that was given k cycles ago.
  (* max_fanout = 64 *) logic [Late:1] swap_q, zero_q, partial_q, final_q, wide_q, split_q, upper_q;
  logic [Late:1][RowBits-1:0] row_q;

  always_ff @(posedge clk_i) begin
    swap_q    <= {swap_q[Late-1:1], beat_i.swap};
    zero_q    <= {zero_q[Late-1:1], beat_i.zero};
    wide_q    <= {wide_q[Late-1:1], beat_i.wide};
    upper_q   <= {upper_q[Late-1:1], beat_i.upper};
    row_q     <= {row_q[Late-1:1], beat_i.row[RowBits-1:0]};
    partial_q <= {partial_q[Late-1:1], beat_i.partial};
    split_q   <= {split_q[Late-1:1], beat_i.split};
    final_q   <= rst_ni ? {final_q[Late-1:1], beat_i.final_sum} : '0;  // alone is looked at before a beat sets it
  end
  assign written_o = final_q[Late];

  // The same for chains in pieces.
  logic [TP-1:0][15:0]                  lower_late_x, upper_late_x;
  logic [WeightSlots-1:0][TP-1:0][15:0] lower_late_weight, upper_late_weight;
  logic [TP-1:0]                        swap, late_swap;

  assign swap = swap_q[TP:1];
  for (genvar i = 0; i < TP; i++) begin : gen_late_swap
    assign late_swap[i] = Broken > 0 ? swap_q[1+i+i/Piece] : swap_q[1+i];
  end
  if (Broken > 0) begin : gen_late
    core_skew #(.Words(TP), .Step(Piece)) u_lower (.clk_i, .data_i(lower_x), .data_o(lower_late_x));
    core_skew #(.Words(TP), .Step(Piece)) u_upper (.clk_i, .data_i(upper_x), .data_o(upper_late_x));
    for (genvar lane = 0; lane < WeightSlots; lane++) begin : gen_lane
      core_skew #(.Words(TP), .Step(Piece)) u_lower (.clk_i, .data_i(lower_weight[lane]), .data_o(lower_late_weight[lane]));
      core_skew #(.Words(TP), .Step(Piece)) u_upper (.clk_i, .data_i(upper_weight[lane]), .data_o(upper_late_weight[lane]));
    end
  end else begin : gen_none_late
    assign lower_late_x      = lower_x;
    assign upper_late_x      = upper_x;
    assign lower_late_weight = lower_weight;
    assign upper_late_weight = upper_weight;
  end

  /// Whether the chain of PE j breaks: those of the last pairs do, and with an odd number the one without a pair.
  function automatic bit breaks(int unsigned j);
    if (!Stackable) breaks = j >= TC - Broken;
    else if (j == 2 * Pairs) breaks = Broken % 2 == 1;
    else breaks = j % Pairs >= Pairs - Broken / 2;
  endfunction

  logic [SumBits-1:0] sum[TC];

  for (genvar j = 0; j < TC; j++) begin : gen_pe
    localparam bit Lower = j < Pairs;
    localparam int unsigned Lane = (Lower ? j : j - Pairs) % WeightSlots;
    localparam bit Breaking = breaks(j);
    localparam int unsigned Own = Breaking ? Early : TP + 3;  // when its sum is there
    localparam int unsigned Write = Stackable && Lower ? Own + 1 : Own;
    localparam int unsigned Ultra = UltraBanks <= BanksPerPe * j ? 0 : UltraBanks - BanksPerPe * j < BanksPerPe ? UltraBanks - BanksPerPe * j : BanksPerPe;
    logic [SumBits-1:0] result;
    logic               zero;

    // In wide mode the pair's sum lives in the lower bank alone.
    assign zero = zero_q[2] || (!Lower && wide_q[2]);

    if (Stackable && Lower) begin : gen_adder
      // wide_q[Own], which every bit of every pair's sum asks. With a reset it stays a flip-flop, which may be
      // replicated; without one it would be the end of a shift register.
      (* max_fanout = 64 *) logic wide_sum_q;
      logic [SumBits-1:0] pair_q;
      always_ff @(posedge clk_i) begin
        wide_sum_q <= rst_ni && wide_q[Own-1];
        pair_q     <= sum[j] + (wide_sum_q ? sum[j+Pairs] : '0);
      end
      assign result = pair_q;
    end else begin : gen_direct
      assign result = sum[j];
    end

    if (Split) begin : gen_split
      logic middle, whole;

      assign middle = split_q[Half+3];
      assign whole  = !split_q[Write] && !upper_q[Write];

      core_pe_split #(.TP(TP), .HalfRows(Rows), .AccBits(AccBits), .Cells(Cells), .UltraBanks(Ultra)) u_pe (
        .clk_i, .x_i(Lower ? lower_x : upper_x), .weight_i(Lower ? lower_weight[Lane] : upper_weight[Lane]),
        .load_i(load[j]), .swap_i(swap_q[TP:1]), .read_row_i(row_q[1]),
        .read_upper_row_i(split_q[1+Half] ? row_q[1+Half] : row_q[1]), .zero_i(zero), .from_upper_i(upper_q[2]),
        .zero_upper_i(zero_q[2+Half]), .split_i(split_q[3+Half]), .sum_o(sum[j]), .result_i(result), .middle_i(middle),
        .store_i(middle ? {partial_q[Half+3], final_q[Half+3]} : {partial_q[Write] && whole, final_q[Write] && whole}),
        .write_row_i(middle ? row_q[Half+3] : row_q[Write]),
        .store_upper_i({partial_q[Write] && !whole, final_q[Write] && !whole}),
        .write_upper_row_i(row_q[Write]), .fetch_i, .fetch_row_i, .row_o(rows_o[j]), .upper_row_o(rows_o[TC+j])
      );
    end else begin : gen_whole
      logic [16*TP-1:0] x, weight;

      assign x      = Breaking ? (Lower ? lower_late_x : upper_late_x) : Lower ? lower_x : upper_x;
      assign weight = Breaking ? (Lower ? lower_late_weight[Lane] : upper_late_weight[Lane])
                               : Lower ? lower_weight[Lane] : upper_weight[Lane];

      core_pe #(
        .TP(TP), .TR(TR), .AccBits(AccBits), .Cells(Cells), .UltraBanks(Ultra), .Piece(Breaking ? Piece : TP)
      ) u_pe (
        .clk_i, .x_i(x), .weight_i(weight), .load_i(load[j]), .swap_i(Breaking ? late_swap : swap), .read_row_i(row_q[1]), .zero_i(zero),
        .sum_o(sum[j]), .result_i(result), .store_i({partial_q[Write], final_q[Write]}),
        .write_row_i(row_q[Write]), .fetch_i, .fetch_row_i, .row_o(rows_o[j])
      );
    end
  end
endmodule
