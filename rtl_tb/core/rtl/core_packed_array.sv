/// The array of a core with words of 8 bits (ADR 75): processing elements of two columns, fed as by `core_array`.
///
/// PE j has columns 2 * j and 2 * j + 1. A beat given in cycle s writes its sums in s + Segment + Levels + 6, one
/// later behind a pair adder, and has read them three cycles before: so tiles may follow one another in Turnaround
/// = 4 cycles. Chains longer than a field holds are cut into segments, each with a skew of its own; where chains
/// have to fit columns of slices (`Broken`), segments are no longer than a piece. `written_o` pulses with the last
/// write of a finished row.
module core_packed_array #(
  parameter int unsigned TP = 8,
  parameter int unsigned TC = 8,
  parameter int unsigned TR = 512,
  parameter int unsigned AccBits = 32,
  parameter int unsigned FieldBits = 18,
  parameter int unsigned WeightSlots = 2,
  parameter bit Stackable = 1'b1,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned UltraBanks = 0,
  parameter int unsigned Piece = TP,   // words of a piece
  parameter int unsigned Broken = 0,   // not zero: segments are no longer than a piece
  parameter int unsigned InWords = Stackable ? 2 * TP : TP,  // of a beat: at least so many
  localparam int unsigned RowBits = TR > 1 ? $clog2(TR) : 1
) (
  input  logic                                clk_i,        // clock
  input  logic                                rst_ni,       // reset, synchronous
  input  core_pkg::beat_t                     beat_i,       // a beat of a P-tile, or zero
  input  fluidnpu_formats_pkg::mode_e         mode_i,       // of the beat's command
  input  logic [InWords-1:0][7:0]             x_i,          // its words, InWords of which mode and design use some
  input  core_pkg::load_t                     load_i,       // weights of the next P-tile come
  input  fluidnpu_formats_pkg::mode_e         load_mode_i,  // of their command
  input  logic [WeightSlots-1:0][TP-1:0][7:0] slots_i,      // weights, a column a slot
  output logic                                written_o,    // a row is finished in the output banks
  input  logic                                fetch_i,      // reads a row of the output banks
  input  logic [RowBits-1:0]                  fetch_row_i,  // which
  output logic [TC-1:0][AccBits-1:0]          rows_o        // a column a word
);
  localparam int unsigned Chains = TC / 2;
  localparam int unsigned Pairs = Stackable ? Chains / 2 : Chains;
  localparam int unsigned Lanes = WeightSlots / 2;
  localparam int unsigned Second = Stackable ? TP : 0;  // where a beat's second P-tile begins
  localparam int unsigned Longest = 1 << (FieldBits - 13);
  localparam int unsigned Span = Broken > 0 ? Piece : TP;
  localparam int unsigned Cuts = (Span + Longest - 1) / Longest;
  localparam int unsigned Segment = (Span + Cuts - 1) / Cuts;
  localparam int unsigned Levels = $clog2((TP + Segment - 1) / Segment);
  localparam int unsigned SumBits = FieldBits + 2 + Levels;
  localparam int unsigned Own = Segment + Levels + 5;  // when the sums of a chain are there
  localparam int unsigned Late = Stackable ? Own + 2 : Own + 1;

  // Front: which half of the beat a processing element sees.
  logic [TP-1:0][7:0] lower_half_q, upper_half_q, lower_x, upper_x;
  logic [TP-1:0][1:0] lower_side, upper_side;

  always_ff @(posedge clk_i) begin
    lower_half_q <= x_i[TP-1:0];
    upper_half_q <= Stackable && (mode_i == fluidnpu_formats_pkg::ModeWide || mode_i == fluidnpu_formats_pkg::ModeLanes) ? x_i[Second+:TP] : x_i[TP-1:0];
  end
  core_skew #(.Words(TP), .Width(8), .Segment(Segment)) u_lower (.clk_i, .data_i(lower_half_q), .data_o(lower_x));
  core_skew #(.Words(TP), .Width(8), .Segment(Segment)) u_upper (.clk_i, .data_i(upper_half_q), .data_o(upper_x));

  for (genvar i = 0; i < TP; i++) begin : gen_side
    logic [3:0] first_q, second_q;
    always_ff @(posedge clk_i) begin
      first_q  <= {upper_x[i][1:0], lower_x[i][1:0]};
      second_q <= first_q;
    end
    assign {upper_side[i], lower_side[i]} = second_q;
  end

  // The two weights of a slice come in neighbouring slots. What the lower one borrows is taken from the upper one.
  logic [Lanes-1:0][TP-1:0][15:0] packed_slots, lower_weight, upper_weight;
  logic [Lanes-1:0][TP-1:0][1:0]  lower_side_weight, upper_side_weight;
  logic [Chains-1:0]              load;

  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
    for (genvar i = 0; i < TP; i++) begin : gen_word
      logic [3:0] side_q;
      assign packed_slots[lane][i] = {slots_i[2*lane][i] - 8'(slots_i[2*lane+1][i][7]), slots_i[2*lane+1][i]};
      always_ff @(posedge clk_i) begin
        side_q <= {upper_weight[lane][i][9:8] + 2'(upper_weight[lane][i][7]), lower_weight[lane][i][9:8] + 2'(lower_weight[lane][i][7])};
      end
      assign {upper_side_weight[lane][i], lower_side_weight[lane][i]} = side_q;
    end
  end
  core_weight_bus #(.TP(TP), .TC(Chains), .WeightSlots(Lanes), .Stackable(Stackable), .Segment(Segment)) u_weights (
    .clk_i, .load_i, .mode_i(load_mode_i), .slots_i(packed_slots), .lower_o(lower_weight), .upper_o(upper_weight), .load_o(load)
  );

  // Index k of the control line belongs to the beat that was given k cycles ago.
  (* max_fanout = 64 *) logic [Late:1] swap_q, zero_q, partial_q, final_q, wide_q;
  logic [Late:1][RowBits-1:0] row_q;

  always_ff @(posedge clk_i) begin
    swap_q    <= {swap_q[Late-1:1], beat_i.swap};
    zero_q    <= {zero_q[Late-1:1], beat_i.zero};
    wide_q    <= {wide_q[Late-1:1], beat_i.wide};
    row_q     <= {row_q[Late-1:1], beat_i.row[RowBits-1:0]};
    partial_q <= {partial_q[Late-1:1], beat_i.partial};
    final_q   <= rst_ni ? {final_q[Late-1:1], beat_i.final_sum} : '0;  // alone is looked at before a beat sets it
  end
  assign written_o = final_q[Late];

  logic [TP-1:0] swap, late_swap;
  for (genvar i = 0; i < TP; i++) begin : gen_swap
    localparam int unsigned At = (i + Segment - 1 - (TP - 1) % Segment) % Segment;  // cycles that `core_skew` delays word i
    assign swap[i]      = swap_q[1+At];
    assign late_swap[i] = swap_q[2+At];
  end

  logic [Chains-1:0][SumBits-1:0] upper, lower;

  for (genvar j = 0; j < Chains; j++) begin : gen_pe
    localparam bit Lower = j < Pairs;
    localparam int unsigned Lane = (Lower ? j : j - Pairs) % Lanes;
    localparam int unsigned Write = Stackable && Lower ? Own + 2 : Own + 1;
    localparam int unsigned Ultra = UltraBanks <= 2 * j ? 0 : UltraBanks - 2 * j < 2 ? UltraBanks - 2 * j : 2;
    logic [SumBits:0]     own_upper, own_lower;
    logic [2*SumBits+1:0] result;

    assign own_upper = (SumBits + 1)'($signed(upper[j]));
    assign own_lower = (SumBits + 1)'($signed(lower[j]));

    if (Stackable && Lower) begin : gen_adder
      // wide_q[Own], which every bit of every pair's sums asks; a flip-flop, as in `core_array`.
      (* max_fanout = 64 *) logic wide_sum_q;
      logic [SumBits:0] upper_q, lower_q;
      always_ff @(posedge clk_i) begin
        wide_sum_q <= rst_ni && wide_q[Own-1];
        upper_q    <= own_upper + (wide_sum_q ? (SumBits + 1)'($signed(upper[j+Pairs])) : '0);
        lower_q    <= own_lower + (wide_sum_q ? (SumBits + 1)'($signed(lower[j+Pairs])) : '0);
      end
      assign result = {lower_q, upper_q};
    end else begin : gen_direct
      assign result = {own_lower, own_upper};
    end

    core_packed_pe #(
      .TP(TP), .TR(TR), .AccBits(AccBits), .FieldBits(FieldBits), .Segment(Segment), .Cells(Cells), .UltraBanks(Ultra)
    ) u_pe (
      .clk_i, .x_i(Lower ? lower_x : upper_x), .side_x_i(Lower ? lower_side : upper_side),
      .weight_i(Lower ? lower_weight[Lane] : upper_weight[Lane]),
      .side_weight_i(Lower ? lower_side_weight[Lane] : upper_side_weight[Lane]), .load_i(load[j]), .swap_i(swap), .late_swap_i(late_swap),
      .sum_o({lower[j], upper[j]}), .result_i(result), .read_row_i(row_q[Write-3]), .zero_i(zero_q[Write-2]),
      .store_i({partial_q[Write], final_q[Write]}), .write_row_i(row_q[Write]), .fetch_i, .fetch_row_i, .row_o(rows_o[2*j+:2])
    );
  end
endmodule
