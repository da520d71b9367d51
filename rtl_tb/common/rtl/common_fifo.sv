/// First-in first-out queue with registers or distributed RAM behind it; the head is visible (first-word
/// fall-through).
///
/// `level_o` counts the stored words, so that a producer may reserve room before it asks for data. `clear_i`
/// empties the queue. With `Shown` the head and `valid_o` lie in flip-flops of their own, at the price of no
/// cycle, so that no path begins in the RAM. For two beats in registers only use `common_skid`.
module common_fifo #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 16,
  parameter bit Shown = 1'b0,
  localparam int unsigned LevelWidth = $clog2(Depth + 1)
) (
  input  logic                  clk_i,    // clock
  input  logic                  rst_ni,   // reset, synchronous
  input  logic                  clear_i,  // empties the queue
  input  logic                  valid_i,  // a word comes
  output logic                  ready_o,  // and is taken
  input  logic [Width-1:0]      data_i,   // that word
  output logic                  valid_o,  // the head is there
  input  logic                  ready_i,  // and is taken
  output logic [Width-1:0]      data_o,   // the head
  output logic [LevelWidth-1:0] level_o   // stored words
);
  localparam int unsigned IndexWidth = Depth > 1 ? $clog2(Depth) : 1;

  if (Width < 1 || Depth < 1) begin : gen_illegal
    $fatal(1, "a queue needs Width >= 1 and Depth >= 1 in %m");
  end

  logic [Width-1:0]      store_q [Depth];
  logic [IndexWidth-1:0] head_q, tail_q;
  logic [LevelWidth-1:0] level_q;
  logic                  push, pop;

  assign ready_o = level_q != LevelWidth'(Depth);
  assign level_o = level_q;
  assign push    = valid_i && ready_o;
  assign pop     = valid_o && ready_i;

  function automatic logic [IndexWidth-1:0] next_index(logic [IndexWidth-1:0] index);
    next_index = index == IndexWidth'(Depth - 1) ? '0 : index + 1'b1;
  endfunction

  if (Shown) begin : gen_shown
    logic [Width-1:0] shown_q;
    logic             valid_q;
    assign valid_o = valid_q;
    assign data_o  = shown_q;
    always_ff @(posedge clk_i) begin  // what the next cycle shows
      valid_q <= rst_ni && !clear_i && (push || (valid_q && !(pop && level_q == LevelWidth'(1))));
      if (pop && level_q != LevelWidth'(1)) shown_q <= store_q[next_index(head_q)];
      else if (pop || !valid_o) shown_q <= data_i;
    end
    always_ff @(posedge clk_i) begin
      if (rst_ni) assert (valid_q == (level_q != '0) && (!valid_q || shown_q == store_q[head_q]));
    end
  end else begin : gen_stored
    assign valid_o = level_q != '0;
    assign data_o  = store_q[head_q];
  end

  always_ff @(posedge clk_i) begin
    if (push) store_q[tail_q] <= data_i;
    if (!rst_ni || clear_i) begin
      head_q  <= '0;
      tail_q  <= '0;
      level_q <= '0;
    end else begin
      if (push) tail_q <= next_index(tail_q);
      if (pop) head_q <= next_index(head_q);
      if (push != pop) level_q <= push ? level_q + 1'b1 : level_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (level_q <= LevelWidth'(Depth));
  end
endmodule
