/// Post-processing: OutWords lanes of `core_requantise`, or with words of 8 bits of `core_rescale`, the masks of
/// a row's last beat, and the count of saturations.
///
/// Everything moves while `enable_o`; it stops when the output stream does.
module core_finish #(
  parameter int unsigned AccBits = 48,
  parameter int unsigned WordBits = 16,
  parameter int unsigned OutWords = 4,
  localparam bit Scaled = WordBits == 8,
  localparam int unsigned BiasWidth = Scaled ? core_pkg::ScaledBits : AccBits
) (
  input  logic                             clk_i,           // clock
  input  logic                             rst_ni,          // reset, synchronous
  output logic                             enable_o,        // everything moves
  input  core_pkg::issue_t                 issue_i,         // a beat begins
  input  logic [OutWords-1:0]              used_i,          // which of its lanes have a column
  input  logic [OutWords-1:0][WordBits-1:0] residual_i,      // its residual
  input  logic [OutWords-1:0][BiasWidth-1:0] bias_i,        // its biases, a step after the issue
  input  logic [OutWords-1:0][AccBits-1:0] sums_i,          // two steps after the issue
  output logic                             output_valid_o,  // a beat of outputs is there
  input  logic                             output_ready_i,  // and is taken
  output logic [OutWords-1:0][WordBits-1:0] output_o,        // that beat
  input  logic                             clear_i,         // the count begins again
  output logic [31:0]                      saturations_o    // words that could not be held; saturates
);
  localparam int unsigned Steps = Scaled ? 15 : 8;
  localparam int unsigned Last = Steps - 8;  // where `core_requantise` begins

  logic                                       enable;
  logic [Steps:0]                             valid;
  logic [Steps:1]                             valid_q;
  (* max_fanout = 64 *) logic [Steps-1:1][core_pkg::FinishBits-1:0] finish_q;  // for every bit of every lane
  (* max_fanout = 64 *) logic                 pool_q;  // as a reset of all biases it would be behind logic
  core_pkg::finish_t                          finish_1, finish_4, finish_5, finish_7;  // by steps of `core_requantise`
  logic [Steps-1:0][OutWords-1:0]             used;
  logic [Steps:1][OutWords-1:0]               used_q;
  logic [OutWords-1:0]                        saturated;
  logic [OutWords-1:0][WordBits-1:0]          words;
  logic [31:0]                                saturations_q;

  assign enable_o = enable;
  assign valid    = {valid_q, issue_i.valid};
  assign finish_1 = finish_q[1];
  assign finish_4 = finish_q[Last+4];
  assign finish_5 = finish_q[Last+5];
  assign finish_7 = finish_q[Last+7];
  assign used     = {used_q[Steps-1:1], used_i};

  always_ff @(posedge clk_i) begin
    if (enable) begin
      finish_q <= {finish_q[Steps-2:1], issue_i.finish};
      used_q   <= used;
      pool_q   <= issue_i.pool;
    end
    // What is used of them comes from flip-flops, faster than a shift register, which knows no reset.
    if (!rst_ni) begin
      finish_q[Last+4] <= '0;
      finish_q[Last+5] <= '0;
      finish_q[Last+7] <= '0;
      used_q[Steps]    <= '0;
    end
    if (!rst_ni) valid_q <= '0;
    else if (enable) valid_q <= valid[Steps-1:0];
  end

  // What each digit of a residual is multiplied by, at its step.
  logic [3:0][15:0] multipliers;
  for (genvar d = 0; d < 4; d++) begin : gen_multiplier
    core_pkg::finish_t finish;
    assign finish         = finish_q[4+d];
    assign multipliers[d] = Scaled ? finish.residual_multiplier : '0;
  end

  for (genvar o = 0; o < OutWords; o++) begin : gen_lane
    logic [BiasWidth-1:0] bias_q;
    logic [WordBits-1:0]  word, residual;

    always_ff @(posedge clk_i) begin
      if (enable) bias_q <= bias_i[o];
    end

    assign residual = issue_i.residual ? residual_i[o] : '0;
    if (Scaled) begin : gen_scaled
      core_rescale u_rescale (
        .clk_i, .enable_i(enable), .residual_i(residual), .bias_i(pool_q ? core_pkg::PoolBias : bias_q), .sum_i(sums_i[o]),
        .residual_multiplier_i(multipliers), .coarse_shift_i(finish_4.shift[5:4]), .fine_shift_i(finish_5.shift[3:0]),
        .lo_i(finish_7.lo[WordBits-1:0]), .hi_i(finish_7.hi[WordBits-1:0]), .word_o(word), .saturated_o(saturated[o])
      );
    end else begin : gen_shifted
      core_requantise #(.AccBits(AccBits)) u_requantise (
        .clk_i, .enable_i(enable), .residual_i(residual), .bias_i(pool_q ? '0 : bias_q), .sum_i(sums_i[o]),
        .residual_shift_i(finish_1.residual_shift), .coarse_shift_i(finish_4.shift[5:4]), .fine_shift_i(finish_5.shift[3:0]),
        .lo_i(finish_7.lo), .hi_i(finish_7.hi), .word_o(word), .saturated_o(saturated[o])
      );
    end
    assign words[o] = used_q[Steps][o] ? word : '0;
  end

  common_skid #(.Width(WordBits * OutWords)) u_output (
    .clk_i, .rst_ni, .valid_i(valid_q[Steps]), .ready_o(enable), .data_i(words), .valid_o(output_valid_o),
    .ready_i(output_ready_i), .data_o(output_o)
  );

  // Counted a cycle after the beat has left.
  localparam int unsigned CountBits = $clog2(OutWords + 1);
  logic [CountBits-1:0] found, found_q;
  logic [32:0]          total;

  always_comb begin
    found = '0;
    for (int o = 0; o < OutWords; o++) found = found + CountBits'(used_q[Steps][o] && saturated[o]);
  end
  assign total = {1'b0, saturations_q} + 33'(found_q);
  always_ff @(posedge clk_i) begin
    found_q       <= rst_ni && valid_q[Steps] && enable ? found : '0;
    saturations_q <= !rst_ni || clear_i ? '0 : total[32] ? '1 : total[31:0];
  end
  assign saturations_o = saturations_q;
endmodule
