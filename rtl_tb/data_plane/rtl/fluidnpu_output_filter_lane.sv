/// A lane of the filter on the way out: one word of a beat, its rows, columns, weights and nine multipliers (ADR 70).
///
/// Each input belongs to the position that was given as many cycles ago as its comment says. A window that leaves
/// stays at hand for its steps; nothing else stops. `word_o` follows the last step by 18 cycles. Multipliers of 16-bit
/// words are a cascade: first that of tap 8 with the bias at its head, which is 0 in all steps but a window's first, then
/// taps 0 to 7. The weights of each are read as late as its word comes. Bytes go to `fluidnpu_output_filter_bytes`.
module fluidnpu_output_filter_lane #(
  parameter int unsigned WordBits = 16,
  parameter int unsigned Kernel = 3,
  parameter int unsigned Windows = 8,
  parameter int unsigned Rows = 64,
  parameter int unsigned DeepRows = 1,
  parameter int unsigned Weights = 8,
  parameter int unsigned Cells = core_pkg::CellsInferred,
  localparam int unsigned WindowWidth = Windows > 1 ? $clog2(Windows) : 1,
  localparam int unsigned RowWidth = Rows > 1 ? $clog2(Rows) : 1,
  localparam int unsigned WeightWidth = Weights > 1 ? $clog2(Weights) : 1,
  localparam int unsigned ChoiceWidth = Kernel > 5 ? 5 : Kernel > 3 ? 3 : 1,
  localparam int unsigned Pairs = 6
) (
  input  logic                            clk_i,         // clock
  input  logic [WordBits-1:0]             word_i,        // 1: the new word; 0 outside the map
  input  logic [RowWidth-1:0]             row_i,         // 1: its entry of the rows
  input  logic                            no_rows_i,     // 3: no word above it counts
  input  logic                            store_i,       // 4: the column is kept
  input  logic                            store_deep_i,  // 4: so are its third row and those above that
  input  logic [RowWidth-1:0]             row_store_i,   // 4: there
  input  logic                            valid_i,       // 4: a position is there
  input  logic [WindowWidth-1:0]          window_i,      // 4: its entry of the columns
  input  logic                            no_columns_i,  // 4: no column left of it counts
  input  logic [ChoiceWidth-1:0]          choice_i,      // 5 and the steps after: which taps
  input  logic [Pairs-1:0][WeightWidth:0] weight_i,      // a pair's bank and row, as early as it is wanted
  input  logic                            first_i,       // Kernel > 3: the first sum of a window; 16, of bytes 12
  input  logic [5:0]                      shift_i,       // of the layer; bytes have one of each channel
  input  logic [WordBits-1:0]             lo_i,          // of the layer: the lower bound of the word
  input  logic [WordBits-1:0]             hi_i,          // and the upper one
  output logic [WordBits-1:0]             word_o,        // what leaves
  output logic                            saturated_o,   // a word could not hold it
  input  logic                            write_i,       // a pair of weights
  input  logic [2:0]                      write_pair_i,  // which of a row
  input  logic [WeightWidth:0]            write_row_i,   // bank and row
  input  logic [31:0]                     write_words_i  // the lower tap first
);
  localparam int unsigned Taps = 9;  // a step
  localparam int unsigned Near = Kernel > 2 ? 2 : 1;  // rows in the first RAM
  localparam int unsigned Sums = 48;
  localparam bit Bytes = WordBits == 8;
  localparam int unsigned Kept = Bytes ? Pairs - 1 : Pairs;  // pairs that say something

  localparam int unsigned Column = WordBits * Kernel;  // bits of a column, the newest row lowest

  // -- 2: rows above, as the RAM gives them; 3: registered, and joined; 4: the column
  (* ram_style = "block" *) logic [Near*WordBits-1:0] near_q [Rows];
  logic [Near*WordBits-1:0]   near_2_q, near_3_q;
  logic [Column-WordBits-1:0] above;
  logic [WordBits-1:0]        word_2_q, word_3_q;
  logic [Column-1:0]          column_4_q;

  always_ff @(posedge clk_i) begin
    if (store_i) near_q[row_store_i] <= column_4_q[Near*WordBits-1:0];
    near_2_q <= near_q[row_i];
    near_3_q <= near_2_q;
    word_2_q <= word_i;
    word_3_q <= word_2_q;
  end
  if (Kernel > 3) begin : gen_deep
    localparam int unsigned DeepWidth = DeepRows > 1 ? $clog2(DeepRows) : 1;
    (* ram_style = "block" *) logic [(Kernel-3)*WordBits-1:0] deep_q [DeepRows];
    logic [(Kernel-3)*WordBits-1:0] deep_2_q, deep_3_q;
    always_ff @(posedge clk_i) begin
      if (store_deep_i) deep_q[row_store_i[DeepWidth-1:0]] <= column_4_q[Column-WordBits-1:2*WordBits];
      deep_2_q <= deep_q[row_i[DeepWidth-1:0]];
      deep_3_q <= deep_2_q;
    end
    assign above = {deep_3_q, near_3_q};
  end else begin : gen_near
    assign above = near_3_q;
  end
  always_ff @(posedge clk_i) column_4_q <= {no_rows_i ? '0 : above, word_3_q};

  // -- 5: the window, the newest column lowest; it stays while no position comes
  (* ram_style = "distributed" *) logic [(Kernel-1)*Column-1:0] columns_q [Windows];
  logic [(Kernel-1)*Column-1:0] left;
  logic [Kernel*Column-1:0]     window, window_5_q;

  assign left   = no_columns_i ? '0 : columns_q[window_i];
  assign window = {left, column_4_q};
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      columns_q[window_i] <= window[(Kernel-1)*Column-1:0];
      window_5_q          <= window;
    end
  end

  // -- the taps of a step. A tap that a step has not is any word, and its weight is 0.
  logic [Taps-1:0][WordBits-1:0] taps;  // in the order of the cascade; bytes all at once
  for (genvar m = 0; m < Taps; m++) begin : gen_tap
    localparam int unsigned Place = m == Taps - 1 ? 0 : m + 1;
    logic [2**ChoiceWidth*WordBits-1:0] choices;
    for (genvar k = 2; k < 8; k++) begin : gen_kernel
      localparam int unsigned Steps = (k * k + Taps - 1) / Taps;
      localparam int unsigned First = k == 2 ? 0 : k == 3 ? 1 : k == 4 ? 2 : k == 5 ? 4 : k == 6 ? 7 : 11;
      for (genvar s = 0; s < Steps; s++) begin : gen_step
        localparam int unsigned Tap = Taps * s + m;
        if (First + s < 2 ** ChoiceWidth) begin : gen_there
          if (k <= Kernel && Tap < k * k) begin : gen_chosen
            assign choices[WordBits*(First+s)+:WordBits] = window_5_q[Column*(k-1-Tap%k)+WordBits*(k-1-Tap/k)+:WordBits];
          end else begin : gen_any
            assign choices[WordBits*(First+s)+:WordBits] = window_5_q[WordBits-1:0];
          end
        end
      end
    end
    for (genvar c = 17; c < 2 ** ChoiceWidth; c++) begin : gen_rest
      assign choices[WordBits*c+:WordBits] = window_5_q[WordBits-1:0];
    end
    logic [WordBits-1:0] tap;
    assign tap = choices[WordBits*32'(choice_i)+:WordBits];
    if (Place == 0 || Bytes) begin : gen_now
      assign taps[Place] = tap;
    end else begin : gen_late
      logic [WordBits*Place-1:0]     late_q;
      logic [WordBits*(Place+1)-1:0] line;
      assign line = {late_q, tap};
      always_ff @(posedge clk_i) late_q <= line[WordBits*Place-1:0];
      assign taps[Place] = line[WordBits*Place+:WordBits];
    end
  end

  // -- weights
  logic [Kept-1:0][31:0] pairs_q;

  for (genvar p = 0; p < Kept; p++) begin : gen_pair
    (* ram_style = "block" *) logic [31:0] weights_q [2**(WeightWidth+1)];
    always_ff @(posedge clk_i) begin
      if (write_i && write_pair_i == 3'(p)) weights_q[write_row_i] <= write_words_i;
      pairs_q[p] <= weights_q[weight_i[p]];
    end
  end
  // -- the sum, and the word
  if (Bytes) begin : gen_bytes
    fluidnpu_output_filter_bytes #(.Taps(Taps), .Several(Kernel > 3)) arithmetic (
      .clk_i, .taps_i(taps), .constants_i(pairs_q), .first_i, .lo_i, .hi_i, .word_o, .saturated_o
    );
  end else begin : gen_words
    logic [15:0]        bias_low_q, bias_low_2_q;
    logic [4*16-1:0]    upper_q;  // taps 1, 3, 5 and 7 come a cycle behind the ones below them
    logic [Taps*16-1:0] weights;  // in the order of the cascade
    logic [Sums-1:0]    chained, sum;
    logic [15:0]        word;
    logic               saturated;

    always_ff @(posedge clk_i) begin
      bias_low_q   <= pairs_q[4][31:16];
      bias_low_2_q <= bias_low_q;
      upper_q      <= {pairs_q[3][31:16], pairs_q[2][31:16], pairs_q[1][31:16], pairs_q[0][31:16]};
    end
    assign weights = {upper_q[63:48], pairs_q[3][15:0], upper_q[47:32], pairs_q[2][15:0], upper_q[31:16], pairs_q[1][15:0],
                      upper_q[15:0], pairs_q[0][15:0], pairs_q[4][15:0]};

    core_chain #(.Words(Taps), .Cells(Cells), .Head(core_pkg::HeadRegister)) multipliers (
      .clk_i, .x_i(taps), .weight_i(weights), .load_i(1'b1), .swap_i('1), .clear_i(1'b0), .sum_i({pairs_q[5], bias_low_2_q}),
      .sum_o(chained)
    );
    if (Kernel > 3) begin : gen_steps
      logic [Sums-1:0] sum_q;
      always_ff @(posedge clk_i) sum_q <= chained + (first_i ? '0 : sum_q);
      assign sum         = sum_q;
      assign word_o      = word;
      assign saturated_o = saturated;
    end else begin : gen_step
      logic [15:0] word_q;
      logic        saturated_q;
      always_ff @(posedge clk_i) begin
        word_q      <= word;
        saturated_q <= saturated;
      end
      assign sum         = chained;
      assign word_o      = word_q;
      assign saturated_o = saturated_q;
    end

    core_requantise #(.AccBits(Sums)) requantise (
      .clk_i, .enable_i(1'b1), .residual_i('0), .residual_shift_i('0), .bias_i('0), .sum_i(sum), .coarse_shift_i(shift_i[5:4]),
      .fine_shift_i(shift_i[3:0]), .lo_i, .hi_i, .word_o(word), .saturated_o(saturated)
    );
  end
endmodule
