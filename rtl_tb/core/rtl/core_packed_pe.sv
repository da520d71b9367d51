/// A processing element of two columns of int8: a chain of TP slices, or several, and their accumulator and output
/// banks (ADR 75).
///
/// Segments are chains of their own, whose last words are taken together, so that their sums meet. What the chains
/// say comes back as `result_i`, by way of the pair adder where there is one, and is added to the accumulators in
/// LUTs. A row's two sums lie side by side in a bank. Index 0 of a sum is the even column, of the upper weights.
module core_packed_pe #(
  parameter int unsigned TP = 8,
  parameter int unsigned TR = 512,
  parameter int unsigned AccBits = 32,
  parameter int unsigned FieldBits = 18,
  parameter int unsigned Segment = TP,    // words of a segment
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned UltraBanks = 0,  // of its two
  localparam int unsigned Segments = (TP + Segment - 1) / Segment,
  localparam int unsigned Levels = $clog2(Segments),
  localparam int unsigned SumBits = FieldBits + 2 + Levels,
  localparam int unsigned ResultBits = SumBits + 1,
  localparam int unsigned AddressBits = TR > 1 ? $clog2(TR) : 1
) (
  input  logic                        clk_i,          // clock
  input  logic [TP-1:0][7:0]          x_i,            // word i comes late as `core_skew` says, as do weight i and swap i
  input  logic [TP-1:0][1:0]          side_x_i,       // its lowest bits, two cycles later
  input  logic [TP-1:0][15:0]         weight_i,       // weights of the next P-tile, as `core_packed_mac` takes them
  input  logic [TP-1:0][1:0]          side_weight_i,  // of the upper weights modulo 4, a cycle later
  input  logic                        load_i,         // weight 0 of every segment comes, but for the first segment's lateness
  input  logic [TP-1:0]               swap_i,         // the waiting weights become the active ones
  input  logic [TP-1:0]               late_swap_i,    // the same a cycle later
  output logic [1:0][SumBits-1:0]     sum_o,          // the chains' sums
  input  logic [1:0][ResultBits-1:0]  result_i,       // those sums, or those of the pair
  input  logic [AddressBits-1:0]      read_row_i,     // two cycles before `result_i`: where the sums so far lie
  input  logic                        zero_i,         // a cycle after `read_row_i`: there are none
  input  core_pkg::store_t            store_i,        // a cycle after `result_i`: where the sums go
  input  logic [AddressBits-1:0]      write_row_i,    // where
  input  logic                        fetch_i,        // reads the output bank
  input  logic [AddressBits-1:0]      fetch_row_i,    // where
  output logic [1:0][AccBits-1:0]     row_o           // the row read last
);  /*verilator no_inline_module*/
  localparam int unsigned Late = Segments * Segment - TP;  // cycles that the first segment, the shortest, is late

  // Segments end together; level l of the tree has the sums of 2**l of them.
  logic [Levels:0][(1<<Levels)-1:0][1:0][SumBits-1:0] level;

  for (genvar s = 0; s < 1 << Levels; s++) begin : gen_segment
    if (s < Segments) begin : gen_chain
      localparam int unsigned From = s == 0 ? 0 : s * Segment - Late;
      localparam int unsigned Words = s == 0 ? Segment - Late : Segment;
      logic load;
      logic [FieldBits+1:0] upper, lower;

      if (s == 0 && Late > 0) begin : gen_late
        logic [Late-1:0] load_q;
        always_ff @(posedge clk_i) load_q <= Late'({load_q, load_i});
        assign load = load_q[Late-1];
      end else begin : gen_now
        assign load = load_i;
      end

      core_packed_chain #(.Words(Words), .FieldBits(FieldBits), .Cells(Cells)) u_chain (
        .clk_i, .x_i(x_i[From+:Words]), .side_x_i(side_x_i[From+:Words]), .weight_i(weight_i[From+:Words]),
        .side_weight_i(side_weight_i[From+:Words]), .load_i(load), .swap_i({late_swap_i[From+Words-1], swap_i[From+:Words]}),
        .upper_o(upper), .lower_o(lower)
      );
      assign level[0][s] = {SumBits'($signed(lower)), SumBits'($signed(upper))};
    end else begin : gen_none
      assign level[0][s] = '0;
    end
  end
  for (genvar l = 0; l < Levels; l++) begin : gen_level
    for (genvar s = 0; s < 1 << Levels; s++) begin : gen_sum
      if (s < 1 << (Levels - 1 - l)) begin : gen_add
        logic [SumBits-1:0] upper_q, lower_q;
        always_ff @(posedge clk_i) begin
          upper_q <= level[l][2*s][0] + level[l][2*s+1][0];
          lower_q <= level[l][2*s][1] + level[l][2*s+1][1];
        end
        assign level[l+1][s] = {lower_q, upper_q};
      end else begin : gen_none
        assign level[l+1][s] = '0;
      end
    end
  end
  assign sum_o = level[Levels][0];

  logic [1:0][AccBits-1:0] accumulated, start_q, total_q;

  always_ff @(posedge clk_i) begin
    start_q <= zero_i ? '0 : accumulated;
    for (int c = 0; c < 2; c++) total_q[c] <= start_q[c] + AccBits'($signed(result_i[c]));
  end

  core_bank #(.Depth(TR), .Width(2 * AccBits), .Ultra(UltraBanks > 0)) u_accumulator (
    .clk_i, .write_i(store_i.partial), .write_row_i, .data_i(total_q), .read_i(1'b1), .read_row_i, .data_o(accumulated)
  );
  core_bank #(.Depth(TR), .Width(2 * AccBits), .Ultra(UltraBanks > 1)) u_output (
    .clk_i, .write_i(store_i.final_sum), .write_row_i, .data_i(total_q), .read_i(fetch_i), .read_row_i(fetch_row_i), .data_o(row_o)
  );
endmodule
