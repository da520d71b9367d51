/// Skid buffer: valid, ready and data all come from registers, one beat a cycle, one cycle of latency.
///
/// It holds two beats; for more storage use `common_fifo`. A user may hang the enable of a whole pipeline on
/// `ready_o`: its register may be replicated.
module common_skid #(
  parameter int unsigned Width = 32
) (
  input  logic             clk_i,    // clock
  input  logic             rst_ni,   // reset, synchronous
  input  logic             valid_i,  // a beat comes
  output logic             ready_o,  // and is taken; a register
  input  logic [Width-1:0] data_i,   // that beat
  output logic             valid_o,  // a beat is there
  input  logic             ready_i,  // and is taken
  output logic [Width-1:0] data_o    // that beat
);
  logic             valid_q;
  (* max_fanout = 64 *) logic ready_q;  // the spare place is free
  logic [Width-1:0] data_q, spare_q;

  assign ready_o = ready_q;
  assign valid_o = valid_q;
  assign data_o  = data_q;

  always_ff @(posedge clk_i) begin
    if (!valid_q || ready_i) data_q <= ready_q ? data_i : spare_q;
    if (ready_q) spare_q <= data_i;
    if (!rst_ni) begin
      valid_q <= 1'b0;
      ready_q <= 1'b1;
    end else begin
      if (!valid_q || ready_i) valid_q <= !ready_q || valid_i;
      ready_q <= !valid_q || ready_i || (ready_q && !valid_i);
    end
  end

  logic             held_q;
  logic [Width-1:0] shown_q;
  always_ff @(posedge clk_i) begin
    held_q  <= rst_ni && valid_o && !ready_i;
    shown_q <= data_o;
    if (rst_ni && held_q) assert (valid_o && data_o == shown_q);
  end
endmodule
