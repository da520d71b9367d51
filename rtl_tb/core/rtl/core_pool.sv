/// Maximum or sum over the taps of a window, a channel for every word of a beat.
///
/// A finished row waits in the sums until it is taken.
module core_pool #(
  parameter int unsigned Channels = 8,
  parameter int unsigned WordBits = 16,
  localparam int unsigned PoolBits = WordBits + core_pkg::TapBits
) (
  input  logic                                        clk_i,      // clock
  input  logic                                        rst_ni,     // reset, synchronous
  input  core_pkg::taps_t                             beat_i,     // a beat of taps comes
  input  logic                                        maximum_i,  // the pool takes the maximum, or else the sum
  input  logic [Channels-1:0][WordBits-1:0] taps_i,     // a tap of each channel
  output logic                                        ready_o,    // and is taken
  output logic                                        valid_o,    // a finished row waits
  input  logic                                        take_i,     // and is taken
  output logic [Channels-1:0][PoolBits-1:0] row_o       // the row taken last
);
  logic valid_q;

  assign ready_o = !valid_q || take_i;
  assign valid_o = valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else if (ready_o) valid_q <= beat_i.valid && beat_i.last;
  end

  for (genvar i = 0; i < Channels; i++) begin : gen_channel
    logic signed [PoolBits-1:0] tap, value_q, row_q;

    assign tap = PoolBits'($signed(taps_i[i]));
    always_ff @(posedge clk_i) begin
      if (beat_i.valid && ready_o) begin
        if (beat_i.first) value_q <= tap;
        else if (!maximum_i) value_q <= value_q + tap;
        else if (tap > value_q) value_q <= tap;
      end
      if (take_i) row_q <= value_q;
    end
    assign row_o[i] = row_q;
  end
endmodule
