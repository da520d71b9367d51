/// Queue that takes narrow words and gives wide ones; for words of one width use `common_fifo`.
///
/// `Lanes` words in a row make a wide one, the first in its low bits. Each lane has a RAM of its own, so
/// nothing is copied. `level_o` counts narrow words. There is no ready: the producer must know that there is
/// room.
module axi_gather_fifo #(
  parameter int unsigned Width = 32,  // of a narrow word
  parameter int unsigned Lanes = 4,
  parameter int unsigned Depth = 16,  // wide words
  localparam int unsigned LevelWidth = $clog2(Depth + 1),
  localparam int unsigned LaneWidth = $clog2(Lanes)
) (
  input  logic                   clk_i,            // clock
  input  logic                   rst_ni,           // reset, synchronous
  input  logic                   valid_i,          // a narrow word comes; nothing may refuse it
  input  logic [Width-1:0]       data_i,           // that word
  output logic                   valid_o,          // a whole wide word is there
  input  logic                   ready_i,          // and is taken
  output logic [Lanes*Width-1:0] data_o,           // that word
  output logic [LevelWidth+LaneWidth-1:0] level_o  // narrow words stored
);
  localparam int unsigned IndexWidth = Depth > 1 ? $clog2(Depth) : 1;

  if (Width < 1 || Depth < 1 || Lanes < 2 || (Lanes & (Lanes - 1)) != 0) begin : gen_illegal
    $fatal(1, "a queue needs Width >= 1, Depth >= 1 and Lanes a power of two of at least 2 in %m");
  end

  logic [IndexWidth-1:0] head_q, tail_q;
  logic [LevelWidth-1:0] level_q;
  logic [LaneWidth-1:0]  lane_q;
  logic                  push, pop;

  assign push    = valid_i && &lane_q;
  assign pop     = valid_o && ready_i;
  assign valid_o = level_q != '0;
  assign level_o = {level_q, lane_q};

  function automatic logic [IndexWidth-1:0] next_index(logic [IndexWidth-1:0] index);
    next_index = index == IndexWidth'(Depth - 1) ? '0 : index + 1'b1;
  endfunction

  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
    logic [Width-1:0] store_q [Depth];
    assign data_o[lane*Width+:Width] = store_q[head_q];
    always_ff @(posedge clk_i) begin
      if (valid_i && lane_q == LaneWidth'(lane)) store_q[tail_q] <= data_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q  <= '0;
      tail_q  <= '0;
      level_q <= '0;
      lane_q  <= '0;
    end else begin
      if (valid_i) lane_q <= lane_q + 1'b1;
      if (push) tail_q <= next_index(tail_q);
      if (pop) head_q <= next_index(head_q);
      level_q <= level_q + LevelWidth'(push) - LevelWidth'(pop);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (level_q <= LevelWidth'(Depth));
    if (rst_ni && valid_i) assert (level_q != LevelWidth'(Depth));
  end
endmodule
