/// Counts what happens in each layer of a job and keeps the counts of every layer until it runs again.
///
/// Events are gathered in short counters, one of which is emptied into its sum in each cycle; a sum lies in a
/// RAM, so that one adder serves all. `layer_ends_i` is the layer's last cycle: what the short counters hold
/// then is set aside, added, and the sums are put into the RAM of layers. Three layers never end within
/// `3 * Turn` cycles: the plan of a layer takes longer. `start_i` begins a job; a layer that is dropped
/// leaves no counts.
module fluidnpu_counters #(
  parameter int unsigned Layers = 2,
  localparam int unsigned Turn = fluidnpu_registers_pkg::Counters,  // cycles in which each counter has its turn
  localparam int unsigned TurnBits = $clog2(Turn)
) (
  input  logic                clk_i,            // clock
  input  logic                rst_ni,           // reset, synchronous
  input  logic                start_i,          // a job begins
  input  logic                layer_ends_i,     // the layer's last cycle
  input  logic [15:0]         layer_i,          // the layer at hand
  input  logic [Turn-1:0][1:0] events_i,        // how often each happened in this cycle
  // a number is there three cycles behind its place
  input  logic [15:0]         shown_layer_i,    // place of a number: its layer
  input  logic [TurnBits-1:0] shown_counter_i,  // and its counter
  output logic [31:0]         shown_o,          // the number, three cycles behind its place
  output logic                settled_o         // the counts of every layer that has ended are there
);
  // Between two turns lie three passes at most: two that close layers, and one that forgets a job.
  localparam int unsigned ShortBits = 8;
  localparam int unsigned SetAside = 2;
  localparam int unsigned IndexBits = $clog2(Layers * Turn);

  if (Layers < 1 || Layers > 65535 || Turn != 1 << TurnBits) begin : gen_illegal
    $fatal(1, "Layers must lie in 1..65535, and the counters must be a power of two in %m");
  end

  typedef enum logic [1:0] {Gather, Close, Forget} pass_e;
  pass_e               pass, pass_q;
  logic [TurnBits-1:0] turn_q;
  logic                forget_q;  // a job has begun, and its sums are not zero yet

  // Short counters.
  logic [Turn-1:0][ShortBits-1:0] short_q, counted, aside;
  logic                           gathers, aside_valid, aside_ready, aside_free;
  logic [15:0]                    aside_layer;

  assign gathers = pass == Gather && !aside_valid && !forget_q;  // nothing of the layer behind joins a sum that is to be closed
  always_comb begin
    for (int unsigned i = 0; i < Turn; i++) begin
      counted[i] = (gathers && 32'(turn_q) == i ? '0 : short_q[i]) + ShortBits'(events_i[i]);
    end
  end
  always_ff @(posedge clk_i) short_q <= !rst_ni || start_i || layer_ends_i ? '0 : counted;

  common_fifo #(.Width(Turn * ShortBits + 16), .Depth(SetAside)) ends (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(layer_ends_i), .ready_o(aside_free), .data_i({layer_i, counted}),
    .valid_o(aside_valid), .ready_i(aside_ready), .data_o({aside_layer, aside}), .level_o()
  );

  // Every pass gives each counter its turn.
  assign pass        = turn_q != '0 ? pass_q : aside_valid ? Close : forget_q ? Forget : Gather;
  assign aside_ready = pass == Close && turn_q == '1;
  always_ff @(posedge clk_i) begin
    pass_q   <= pass;
    turn_q   <= rst_ni ? turn_q + 1'b1 : '0;
    forget_q <= rst_ni && (start_i || (forget_q && !(pass == Forget && turn_q == '1)));
  end

  // Sums, a step behind: an addend is chosen, then added, then kept.
  logic [31:0]         sums_q [Turn];
  logic [31:0]         sum, closed_q;
  logic [ShortBits-1:0] addend_q;
  logic [TurnBits-1:0] place_q, closed_place_q;
  logic                adds_q, closes_q, closed_valid_q, fits_q;
  logic [15:0]         layer_q, closed_layer_q;

  assign sum = sums_q[place_q] + 32'(addend_q);
  always_ff @(posedge clk_i) begin
    addend_q       <= pass == Close ? aside[turn_q] : gathers ? short_q[turn_q] : '0;
    place_q        <= turn_q;
    adds_q         <= pass == Gather;
    closes_q       <= rst_ni && pass == Close;
    layer_q        <= aside_layer;
    sums_q[place_q] <= adds_q ? sum : '0;  // a layer begins at zero
    closed_q       <= sum;
    closed_place_q <= place_q;
    closed_layer_q <= layer_q;
    closed_valid_q <= rst_ni && closes_q && 32'(layer_q) < Layers;
  end

  // Layers.
  logic [31:0]           layers_q [Layers * Turn];
  logic [31:0]           read_q;
  logic [IndexBits-1:0]  at_q;
  logic [1:0]            known_q;
  function automatic logic [IndexBits-1:0] index(logic [15:0] layer, logic [TurnBits-1:0] place);
    index = IndexBits'({layer, place});
  endfunction

  always_ff @(posedge clk_i) begin
    if (closed_valid_q) layers_q[index(closed_layer_q, closed_place_q)] <= closed_q;
    at_q    <= 32'(shown_layer_i) < Layers ? index(shown_layer_i, shown_counter_i) : '0;
    known_q <= {known_q[0], 32'(shown_layer_i) < Layers};
    read_q  <= layers_q[at_q];
    shown_o <= known_q[1] ? read_q : '0;
    settled_o <= rst_ni && !(layer_ends_i || aside_valid || closes_q || closed_valid_q);
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (layer_ends_i) assert (aside_free);
      for (int unsigned i = 0; i < Turn; i++) assert (short_q[i][ShortBits-1:ShortBits-2] != '1);
    end
  end
endmodule
