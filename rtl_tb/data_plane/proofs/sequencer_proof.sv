/// The sequencer under any job and any answers of its neighbours.
///
/// A soft reset, an error or the watchdog brings it to idle within a bound once the masters are idle, and
/// such a job is not done; commands are legal and hold still until they are taken; a refused START changes
/// nothing.
module sequencer_proof (
  input logic        clk_i,
  input logic        start_i,
  input logic        soft_reset_i,
  input logic        watchdog_i,
  input logic        read_error_i,
  input logic        write_error_i,
  input logic [15:0] first_layer_i,
  input logic [15:0] last_layer_i,
  input logic [15:0] layers_i,
  input logic        misaligned_i,
  input logic [31:0] active_i,
  input logic [4:0]  b_act_i,
  input logic        fetched_i,
  input logic        plan_valid_i,
  input logic        plan_done_i,
  input logic        plan_bad_i,
  input logic        command_ready_i,
  input logic        written_i,
  input logic        stuck_i,
  input logic        masters_idle_i
);
  localparam int unsigned FlushCycles = 3;
  localparam int unsigned Bound = FlushCycles + 2;

  logic rst_n = 1'b0;
  logic busy, done, refused, error, flush, command_valid, fetch, fetch_next, lookup, plan, layer_start, layer_ends;
  logic [7:0]  cause;
  logic [15:0] layer, fetch_layer;
  fluidnpu_formats_pkg::tile_t command;
  fluidnpu_formats_pkg::layer_t   running;
  logic [3:0][39:0] slot;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  // Some legal layer: several row blocks, two groups, two column tiles.
  fluidnpu_formats_pkg::layer_t plan_layer;
  always_comb begin
    plan_layer         = '0;
    plan_layer.mode    = fluidnpu_formats_pkg::ModeLanes;
    plan_layer.beats0  = 32'd6;
    plan_layer.block   = 16'd4;
    plan_layer.beats1  = 32'd5;
    plan_layer.groups  = 16'd2;
    plan_layer.group_words = 16'd5;
    plan_layer.columns = 16'd7;
  end

  fluidnpu_sequencer #(.TC(8), .InWords(8), .BMax(4), .FlushCycles(FlushCycles)) dut (
    .clk_i, .rst_ni(rst_n), .start_i, .soft_reset_i, .watchdog_i, .read_error_i, .write_error_i, .first_layer_i, .last_layer_i, .layers_i,
    .misaligned_i, .slot_base_i(64'd0), .slot_bytes_i(32'd64), .active_i, .b_act_i,
    .busy_o(busy), .done_o(done), .start_refused_o(refused), .error_o(error), .cause_o(cause), .layer_o(layer), .layer_ends_o(layer_ends),
    .fetch_layer_o(fetch_layer), .fetch_next_o(fetch_next), .fetch_o(fetch), .fetched_i, .lookup_o(lookup), .plan_valid_i, .plan_o(plan), .plan_done_i, .plan_bad_i,
    .plan_cause_i(8'd7), .plan_layer_i(plan_layer), .slot_o(slot), .layer_start_o(layer_start), .running_o(running),
    .command_valid_o(command_valid), .command_ready_i, .command_o(command), .written_i, .stuck_i,
    .flush_o(flush), .masters_idle_i
  );

  // Cycles of a flush since it began or was asked for again, with the masters idle all the time.
  logic [5:0] waited = '0;
  logic       past_valid = 1'b0, past_flush_cause = 1'b0, past_refused = 1'b0, past_busy = 1'b0;
  logic       past_offered = 1'b0;
  fluidnpu_formats_pkg::tile_t past_command;
  always_ff @(posedge clk_i) begin
    past_offered     <= rst_n && command_valid && !command_ready_i;
    past_command     <= command;
    past_valid       <= rst_n;
    past_flush_cause <= rst_n && (soft_reset_i || (busy && !flush && (watchdog_i || read_error_i || write_error_i || stuck_i)));
    past_refused     <= rst_n && start_i && refused && !soft_reset_i;
    past_busy        <= busy;
    waited           <= rst_n && flush && masters_idle_i && !soft_reset_i ? waited + 6'd1 : '0;
  end

  always_comb begin
    if (rst_n) begin
      if (past_valid && past_flush_cause) assert (flush);
      assert (waited <= 6'(Bound));
      if (past_valid && past_refused && !past_busy) assert (!busy);
      if (past_offered && !flush) assert (command_valid && command == past_command);
      if (flush) assert (!command_valid && !fetch && !done);
      // A job ends in one way only: done, or by an error or a reset. A refused START ends nothing.
      if (done) assert (!soft_reset_i && (!error || refused) && !(watchdog_i || read_error_i || write_error_i || stuck_i));
      if (command_valid) assert (command.beats != '0 && command.beats <= plan_layer.block && command.lane1_beats <= command.beats);
      // Of errors in one cycle the read is told, then the write, then the watchdog.
      if (busy && !flush && read_error_i) assert (error && cause == fluidnpu_registers_pkg::CauseBusRead);
      else if (busy && !flush && write_error_i) assert (error && cause == fluidnpu_registers_pkg::CauseBusWrite);
      else if (busy && !flush && watchdog_i) assert (error && cause == fluidnpu_registers_pkg::CauseWatchdog);
      // A layer that ends is whole, and all but the last are followed by another.
      if (done) assert (layer_ends);
      if (layer_ends) assert (busy && written_i && !soft_reset_i && (!error || refused));
      if (command_valid || layer_start) assert (running == plan_layer);
      if (start_i && busy) assert (refused);
      if (start_i && b_act_i == '0) assert (refused);
      if (!busy) assert (!flush && !fetch && !command_valid && !layer_start);
    end
  end
endmodule
