/// Replaces fluidnpu_output_filter_lane in the proof of the filter: any words and saturations at all.
module fluidnpu_output_filter_lane #(
  parameter int unsigned WordBits = 16,
  parameter int unsigned Kernel = 3,
  parameter int unsigned Windows = 8,
  parameter int unsigned Rows = 64,
  parameter int unsigned DeepRows = 1,
  parameter int unsigned Weights = 8,
  parameter int unsigned Cells = 0,
  localparam int unsigned WindowWidth = Windows > 1 ? $clog2(Windows) : 1,
  localparam int unsigned RowWidth = Rows > 1 ? $clog2(Rows) : 1,
  localparam int unsigned WeightWidth = Weights > 1 ? $clog2(Weights) : 1,
  localparam int unsigned ChoiceWidth = Kernel > 5 ? 5 : Kernel > 3 ? 3 : 1,
  localparam int unsigned Pairs = 6
) (
  input  logic                              clk_i,
  input  logic [WordBits-1:0]                       word_i,
  input  logic [RowWidth-1:0]               row_i,
  input  logic                              no_rows_i,
  input  logic                              store_i,
  input  logic                              store_deep_i,
  input  logic [RowWidth-1:0]               row_store_i,
  input  logic                              valid_i,
  input  logic [WindowWidth-1:0]            window_i,
  input  logic                              no_columns_i,
  input  logic [ChoiceWidth-1:0]            choice_i,
  input  logic [Pairs-1:0][WeightWidth:0]   weight_i,
  input  logic                              first_i,
  input  logic [5:0]                        shift_i,
  input  logic [WordBits-1:0]                       lo_i,
  input  logic [WordBits-1:0]                       hi_i,
  output logic [WordBits-1:0]                       word_o,
  output logic                              saturated_o,
  input  logic                              write_i,
  input  logic [2:0]                        write_pair_i,
  input  logic [WeightWidth:0]              write_row_i,
  input  logic [31:0]                       write_words_i
);
  (* anyseq *) logic [WordBits:0] any;
  assign {saturated_o, word_o} = any;
endmodule
