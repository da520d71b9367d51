/// TC processing elements with the front that feeds them, the pair adders, and the control line that follows every beat.
///
/// A beat given in cycle s reads its accumulators in s + 1 and writes them in s + TP + 3, one later behind a pair adder. `written_o`
/// pulses with the write of a finished row. Split designs: see `core_pe_split`.
module core_array
  import core_pkg::*;
#(
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned TR = 512,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WeightSlots = 1,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  localparam int unsigned InWords = Stackable ? 2 * TP : TP,
  localparam int unsigned Rows = Split ? (TR + 1) / 2 : TR,
  localparam int unsigned RowBits = Rows > 1 ? $clog2(Rows) : 1,
  localparam int unsigned Banks = Split ? 2 * TC : TC
) (
  input  logic                                 clk_i,
  input  logic                                 rst_ni,
  input  beat_t                                beat_i,
  input  logic [3:0]                           mode_i,
  input  logic [InWords-1:0][15:0]             x_i,
  input  logic                                 load_i,
  input  logic [12:0]                          load_beat_i,
  input  logic [3:0]                           load_mode_i,
  input  logic [WeightSlots-1:0][TP-1:0][15:0] slots_i,
  output logic                                 written_o,
  input  logic                                 fetch_i,
  input  logic [RowBits-1:0]                   fetch_row_i,
  output logic [Banks-1:0][AccBits-1:0]        rows_o   // upper half banks from TC on
);
  localparam int unsigned SumBits = 48;
  localparam int unsigned Pairs = Stackable ? TC / 2 : TC;
  localparam int unsigned Half = TP / 2;
  localparam int unsigned Early = TP + 3;
  localparam int unsigned Late = Stackable ? Early + 1 : Early;

  // Front: which half of the beat, or which half twice, a processing element sees.
  logic [TP-1:0][15:0] low, lower_q, upper_q, lower_x, upper_x;

  always_comb begin
    low = x_i[TP-1:0];
    if (Split && mode_i == ModeSplit) for (int i = Half; i < TP; i++) low[i] = x_i[i-Half];
  end
  always_ff @(posedge clk_i) begin
    lower_q <= low;
    upper_q <= Stackable && (mode_i == ModeWide || mode_i == ModeLanes) ? x_i[InWords-1-:TP] : low;
  end
  core_skew #(.Words(TP)) u_lower (.clk_i, .data_i(lower_q), .data_o(lower_x));
  core_skew #(.Words(TP)) u_upper (.clk_i, .data_i(upper_q), .data_o(upper_x));

  logic [WeightSlots-1:0][TP-1:0][15:0] lower_weight, upper_weight;
  logic [TC-1:0]                        load;

  core_weight_bus #(.TP(TP), .TC(TC), .WeightSlots(WeightSlots), .Stackable(Stackable)) u_weights (
    .clk_i, .load_i, .beat_i(load_beat_i), .mode_i(load_mode_i), .slots_i, .lower_o(lower_weight), .upper_o(upper_weight),
    .load_o(load)
  );

  // line_q[k] holds the beat that was given k cycles ago.
  beat_t line_q[Late+1];
  logic [TP-1:0] swap;

  always_ff @(posedge clk_i) begin
    line_q[1] <= rst_ni ? beat_i : '0;
    for (int k = 2; k <= Late; k++) line_q[k] <= rst_ni ? line_q[k-1] : '0;
  end
  assign line_q[0] = '0;
  assign written_o = line_q[Late].final_sum;
  for (genvar i = 0; i < TP; i++) begin : gen_swap
    assign swap[i] = line_q[1+i].swap;
  end

  logic [SumBits-1:0] sum[TC];

  for (genvar j = 0; j < TC; j++) begin : gen_pe
    localparam bit Lower = j < Pairs;
    localparam int unsigned Lane = (Lower ? j : j - Pairs) % WeightSlots;
    localparam int unsigned Write = Stackable && Lower ? Late : Early;
    logic [SumBits-1:0] result;
    logic               zero;

    // In wide mode the pair's sum lives in the lower bank alone.
    assign zero = line_q[2].zero || (!Lower && line_q[2].wide);

    if (Stackable && Lower) begin : gen_adder
      logic [SumBits-1:0] pair_q;
      always_ff @(posedge clk_i) pair_q <= sum[j] + (line_q[Early].wide ? sum[j+Pairs] : '0);
      assign result = pair_q;
    end else begin : gen_direct
      assign result = sum[j];
    end

    if (Split) begin : gen_split
      logic middle, whole;
      beat_t lower_write;
      assign middle      = line_q[Half+3].split;
      assign whole       = !line_q[Write].split && !line_q[Write].upper;
      assign lower_write = middle ? line_q[Half+3] : line_q[Write];

      core_pe_split #(.TP(TP), .HalfRows(Rows), .AccBits(AccBits)) u_pe (
        .clk_i, .x_i(Lower ? lower_x : upper_x), .weight_i(Lower ? lower_weight[Lane] : upper_weight[Lane]),
        .load_i(load[j]), .swap_i(swap), .read_row_i(line_q[1].row[RowBits-1:0]),
        .read_upper_row_i(line_q[1+Half].split ? line_q[1+Half].row[RowBits-1:0] : line_q[1].row[RowBits-1:0]),
        .zero_i(zero), .from_upper_i(line_q[2].upper), .zero_upper_i(line_q[2+Half].zero),
        .split_i(line_q[3+Half].split), .sum_o(sum[j]), .result_i(result), .middle_i(middle),
        .partial_i(lower_write.partial && (middle || whole)), .final_i(lower_write.final_sum && (middle || whole)),
        .write_row_i(lower_write.row[RowBits-1:0]),
        .partial_upper_i(line_q[Write].partial && !whole), .final_upper_i(line_q[Write].final_sum && !whole),
        .write_upper_row_i(line_q[Write].row[RowBits-1:0]), .fetch_i, .fetch_row_i, .row_o(rows_o[j]),
        .upper_row_o(rows_o[TC+j])
      );
    end else begin : gen_whole
      core_pe #(.TP(TP), .TR(TR), .AccBits(AccBits)) u_pe (
        .clk_i, .x_i(Lower ? lower_x : upper_x), .weight_i(Lower ? lower_weight[Lane] : upper_weight[Lane]),
        .load_i(load[j]), .swap_i(swap), .read_row_i(line_q[1].row[RowBits-1:0]), .zero_i(zero),
        .sum_o(sum[j]), .result_i(result), .partial_i(line_q[Write].partial), .final_i(line_q[Write].final_sum),
        .write_row_i(line_q[Write].row[RowBits-1:0]), .fetch_i, .fetch_row_i, .row_o(rows_o[j])
      );
    end
  end
endmodule
