/// Picks OutWords sums of a fetched row in two registered steps, by the view that `core_drain` names.
///
/// A view is one choice of a source for every lane: column group g of the whole banks, of their second lane
/// where that is not a view already, the same of the upper half banks, of split columns, and group g of a
/// pooled row.
module core_gather #(
  parameter int unsigned Channels = 8,  // of a pooled row
  parameter int unsigned TC = 8,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WordBits = 16,
  parameter int unsigned OutWords = 4,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  localparam int unsigned PoolBits = WordBits + core_pkg::TapBits,
  localparam int unsigned Banks = Split ? 2 * TC : TC,
  localparam int unsigned Pairs = TC / 2,
  localparam bit Aligned = !Stackable || Pairs % OutWords == 0,
  localparam int unsigned Groups = (TC + OutWords - 1) / OutWords,
  localparam int unsigned SplitGroups = (2 * TC + OutWords - 1) / OutWords,
  localparam int unsigned LaneBase = Aligned ? Pairs / OutWords : Groups,
  localparam int unsigned HalfViews = Aligned ? Groups : Groups + (Pairs + OutWords - 1) / OutWords,
  localparam int unsigned SplitBase = 2 * HalfViews,
  localparam int unsigned PoolBase = Split ? SplitBase + SplitGroups : HalfViews,
  localparam int unsigned Views = PoolBase + (Channels + OutWords - 1) / OutWords,
  localparam int unsigned ViewBits = $clog2(Views + 1)
) (
  input  logic                                  clk_i,             // clock
  input  logic                                  enable_i,          // both steps move
  input  logic [Banks-1:0][AccBits-1:0]         rows_i,            // the row fetched of every output bank
  input  logic [Channels-1:0][PoolBits-1:0]          pool_row_i,  // the row fetched of the pool
  input  logic [ViewBits-1:0]                   view_i,            // which of them go to the lanes
  output logic [OutWords-1:0][AccBits-1:0]      sums_o             // a sum for each lane, two steps later
);
  localparam int unsigned Clusters = (Views + 3) / 4;

  /// Index of lane o in view v: banks first, then pooled channels; Banks + Channels for nothing.
  function automatic int unsigned source(int unsigned v, int unsigned o);
    int unsigned local_view, column, bank;
    source = Banks + Channels;
    if (v >= PoolBase) begin
      if (v < Views && (v - PoolBase) * OutWords + o < Channels) source = Banks + (v - PoolBase) * OutWords + o;
    end else if (Split && v >= SplitBase) begin
      column = (v - SplitBase) * OutWords + o;
      if (column < 2 * TC) source = column / 2 + (column % 2) * TC;
    end else begin
      local_view = v % HalfViews;
      column = local_view < Groups ? local_view * OutWords + o : (local_view - Groups) * OutWords + o + Pairs;
      bank = (v / HalfViews) * TC;
      if (column < TC) source = bank + column;
    end
  endfunction

  logic [ViewBits+1:0] view;
  (* max_fanout = 64 *) logic [ViewBits-1:0] cluster_q;
  assign view = {2'b00, view_i};

  always_ff @(posedge clk_i) begin
    if (enable_i) cluster_q <= ViewBits'(view >> 2);
  end

  for (genvar o = 0; o < OutWords; o++) begin : gen_lane
    logic [Clusters*AccBits-1:0] near_q;
    logic [AccBits-1:0]          sum_q;

    for (genvar c = 0; c < Clusters; c++) begin : gen_cluster
      logic [4*AccBits-1:0] choice;

      for (genvar k = 0; k < 4; k++) begin : gen_choice
        localparam int unsigned From = source(4 * c + k, o);
        if (From < Banks) begin : gen_bank
          assign choice[AccBits*k+:AccBits] = rows_i[From];
        end else if (From < Banks + Channels) begin : gen_channel
          assign choice[AccBits*k+:AccBits] = AccBits'($signed(pool_row_i[From-Banks]));
        end else begin : gen_nothing
          assign choice[AccBits*k+:AccBits] = '0;
        end
      end
      always_ff @(posedge clk_i) begin
        if (enable_i) near_q[AccBits*c+:AccBits] <= choice[AccBits*view[1:0]+:AccBits];
      end
    end
    always_ff @(posedge clk_i) begin
      if (enable_i) sum_q <= near_q[AccBits*cluster_q+:AccBits];
    end
    assign sums_o[o] = sum_q;
  end
endmodule
