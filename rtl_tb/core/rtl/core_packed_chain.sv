/// A cascade of packed multiply-accumulates and the two sums at its end, of its upper and of its lower weights.
///
/// Word k is taken k cycles late; the sums follow Words + 4 cycles after x_i[0]. The lower sum leaves its field
/// behind few products. So two bits a word in LUTs sum the upper products modulo 4, a cycle later than the slice
/// registers do: what the cascade's upper field has more than they say, modulo 4, is how often it did. That holds
/// for 2**(FieldBits - 13) words, 32 or 16, of weights within -127..127.
module core_packed_chain #(
  parameter int unsigned Words = 8,
  parameter int unsigned FieldBits = 18,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  localparam int unsigned SumBits = FieldBits + 2
) (
  input  logic                   clk_i,          // clock
  input  logic [Words-1:0][7:0]  x_i,            // word k, k cycles late
  input  logic [Words-1:0][1:0]  side_x_i,       // its lowest bits, two cycles later
  input  logic [Words-1:0][15:0] weight_i,       // its weights as `core_packed_mac` takes them, as late as the word
  input  logic [Words-1:0][1:0]  side_weight_i,  // the upper weight modulo 4, a cycle later
  input  logic                   load_i,         // weight 0 comes; passed on from word to word
  input  logic [Words:0]         swap_i,         // the waiting weight becomes the active one, as late as the word
  output logic [SumBits-1:0]     upper_o,        // the sum of x * upper weight
  output logic [SumBits-1:0]     lower_o         // the sum of x * lower weight
);
  if (FieldBits < 17 || FieldBits > 18 || Words > 1 << (FieldBits - 13)) begin : gen_illegal
    $fatal(1, "FieldBits must be 17 or 18 and a chain have at most 2**(FieldBits - 13) words in %m");
  end

  logic [Words:0] load;
  assign load[0] = load_i;
  always_ff @(posedge clk_i) load[Words:1] <= load[Words-1:0];

  for (genvar i = 0; i < Words; i++) begin : gen_mac
    logic [47:0] sum, prior, cascade;
    logic [1:0]  waiting_q, active_q, side_before, side_q;

    if (i == 0) begin : gen_first
      assign prior       = '0;
      assign side_before = '0;
    end else begin : gen_next
      assign prior       = gen_mac[i-1].cascade;
      assign side_before = gen_mac[i-1].side_q;
    end

    core_packed_mac #(.Cells(Cells), .FieldBits(FieldBits), .First(i == 0)) u_mac (
      .clk_i, .x_i(x_i[i]), .weight_i(weight_i[i]), .load_i(load[i]), .swap_i(swap_i[i]), .cascade_i(prior),
      .cascade_o(cascade), .sum_o(sum)
    );

    // Weights of the side channel move a cycle later than those of the slice.
    always_ff @(posedge clk_i) begin
      if (load[i+1]) waiting_q <= side_weight_i[i];
      if (swap_i[i+1]) active_q <= waiting_q;
      side_q <= side_before + 2'(side_x_i[i] * active_q);
    end
  end

  logic [47:0]          sum;
  logic [1:0]           left_q;
  logic [FieldBits-1:0] low_q;
  logic [SumBits-1:0]   high_q, upper_q, lower_q;
  assign sum = gen_mac[Words-1].sum;

  always_ff @(posedge clk_i) begin
    left_q  <= sum[FieldBits+:2] - gen_mac[Words-1].side_q;
    low_q   <= sum[FieldBits-1:0];
    high_q  <= sum[FieldBits+:SumBits];
    upper_q <= high_q - SumBits'($signed(left_q));
    lower_q <= {left_q, low_q};
  end
  assign upper_o = upper_q;
  assign lower_o = lower_q;
endmodule
