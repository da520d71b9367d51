/// Keeps the biases of the last commands, spread over the output lanes: column c in lane c % OutWords, word c
/// / OutWords.
///
/// Header beats queue up and are unpacked one bias a cycle beside the loading of weights. `ready_o`: all
/// biases of the next command to be fetched are loaded; `release_i` ends that command. One generation stays
/// free for a row that is still in post-processing.
module core_bias #(
  parameter int unsigned BiasesPerBeat = 1,
  parameter int unsigned Columns = 8,
  parameter int unsigned Width = 48,
  parameter int unsigned OutWords = 4,
  localparam int unsigned Generations = 4,
  localparam int unsigned Groups = (Columns + OutWords - 1) / OutWords,
  localparam int unsigned GroupBits = Groups > 1 ? $clog2(Groups) : 1
) (
  input  logic                                   clk_i,              // clock
  input  logic                                   rst_ni,             // reset, synchronous
  input  logic                                   header_valid_i,     // a header beat comes
  output logic                                   header_ready_o,     // and is taken
  input  logic [11:0]                            header_cols_i,      // columns of its command
  input  logic [BiasesPerBeat-1:0][Width-1:0]    header_i,           // its biases, each with what comes with it
  output logic                                   ready_o,            // all biases of the next command to be fetched are loaded
  input  logic                                   release_i,          // that command has been fetched
  output logic [1:0]                             generation_o,       // which biases are those of that command
  input  logic [1:0]                             read_generation_i,  // whose biases are read
  input  logic [GroupBits-1:0]                   read_group_i,       // columns group * OutWords and up
  output logic [OutWords-1:0][Width-1:0]         bias_o              // their biases, a cycle later
);
  localparam int unsigned HeaderBeats = (Columns + BiasesPerBeat - 1) / BiasesPerBeat;
  localparam int unsigned IndexBits = BiasesPerBeat > 1 ? $clog2(BiasesPerBeat) : 1;
  localparam int unsigned LaneBits = OutWords > 1 ? $clog2(OutWords) : 1;

  logic [BiasesPerBeat-1:0][Width-1:0] beat;
  logic [11:0]                           cols, column_q;
  logic                                  beat_valid, write, last_column, last_index;
  logic [IndexBits-1:0]                  index_q;
  logic [LaneBits-1:0]                   lane_q;
  logic [GroupBits-1:0]                  group_q;
  logic [1:0]                            write_generation_q, read_generation_q, held_q;

  common_fifo #(.Width(12 + BiasesPerBeat * Width), .Depth(2 * HeaderBeats)) u_beats (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(header_valid_i), .ready_o(header_ready_o), .data_i({header_cols_i, header_i}),
    .valid_o(beat_valid), .ready_i(write && (last_column || last_index)), .data_o({cols, beat}), .level_o()
  );

  assign write        = beat_valid && held_q != 2'(Generations - 1);
  assign last_column  = column_q + 12'd1 == cols;
  assign last_index   = index_q == IndexBits'(BiasesPerBeat - 1);
  assign ready_o      = held_q != '0;
  assign generation_o = read_generation_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      column_q           <= '0;
      index_q            <= '0;
      lane_q             <= '0;
      group_q            <= '0;
      held_q             <= '0;
      write_generation_q <= '0;
      read_generation_q  <= '0;
    end else begin
      if (write) begin
        column_q <= last_column ? '0 : column_q + 12'd1;
        index_q  <= last_column || last_index ? '0 : index_q + 1'b1;
        lane_q   <= last_column || lane_q == LaneBits'(OutWords - 1) ? '0 : lane_q + 1'b1;
        if (last_column) group_q <= '0;
        else if (lane_q == LaneBits'(OutWords - 1)) group_q <= group_q + 1'b1;
      end
      if (write && last_column) write_generation_q <= write_generation_q + 2'd1;
      if (release_i) read_generation_q <= read_generation_q + 2'd1;
      held_q <= held_q + 2'(write && last_column) - 2'(release_i);
    end
  end

  for (genvar o = 0; o < OutWords; o++) begin : gen_lane
    logic [Width-1:0] store_q[Generations << GroupBits];

    always_ff @(posedge clk_i) begin
      if (write && lane_q == LaneBits'(o)) store_q[{write_generation_q, group_q}] <= beat[index_q];
    end
    assign bias_o[o] = store_q[{read_generation_i, read_group_i}];
  end
endmodule
