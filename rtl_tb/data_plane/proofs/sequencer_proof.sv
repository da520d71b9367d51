/// The sequencer under any job and any answers of its neighbours.
///
/// A soft reset, an error or the watchdog brings it to idle within a bound once the masters are idle, and
/// such a job is not done; commands are legal and hold still until they are taken; a refused START changes
/// nothing.
module sequencer_proof (
  input logic                            clk_i,
  input fluidnpu_formats_pkg::control_t  control_i,
  input logic                            watchdog_i,
  input logic                            read_error_i,
  input logic                            write_error_i,
  input logic [15:0]                     first_layer_i,
  input logic [15:0]                     last_layer_i,
  input logic [15:0]                     layers_i,
  input logic                            misaligned_i,
  input fluidnpu_formats_pkg::batch_t    batch_i,
  input logic                            fetched_i,
  input logic                            plan_valid_i,
  input logic                            plan_done_i,
  input logic                            plan_bad_i,
  input logic                            command_ready_i,
  input logic                            written_i,
  input logic                            stuck_i,
  input logic                            masters_idle_i
);
  localparam int unsigned FlushCycles = 3;
  localparam int unsigned Bound = FlushCycles + 2;

  logic rst_n = 1'b0;
  logic flush, command_valid, fetch, fetch_next, lookup, plan, layer_start, layer_ends;
  fluidnpu_formats_pkg::progress_t progress;
  fluidnpu_formats_pkg::fault_t    error, plan_bad;
  fluidnpu_formats_pkg::settings_t settings;
  logic [15:0] fetch_layer;
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

  always_comb begin
    settings             = '0;
    settings.first_layer = first_layer_i;
    settings.last_layer  = last_layer_i;
    settings.layers      = layers_i;
    settings.slot_bytes  = 32'd64;
    plan_bad.valid       = plan_bad_i;
    plan_bad.cause       = 8'd7;
  end

  fluidnpu_sequencer #(.TC(8), .InWords(8), .BMax(4), .FlushCycles(FlushCycles)) dut (
    .clk_i, .rst_ni(rst_n), .control_i, .watchdog_i, .read_error_i, .write_error_i, .settings_i(settings), .misaligned_i, .batch_i,
    .progress_o(progress), .error_o(error), .layer_ends_o(layer_ends), .fetch_layer_o(fetch_layer), .fetch_next_o(fetch_next),
    .fetch_o(fetch), .fetched_i, .lookup_o(lookup), .plan_valid_i, .plan_o(plan), .plan_done_i, .plan_bad_i(plan_bad),
    .plan_layer_i(plan_layer), .slot_o(slot), .layer_start_o(layer_start), .running_o(running),
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
    past_flush_cause <= rst_n && (control_i.soft_reset || (progress.busy && !flush && (watchdog_i || read_error_i || write_error_i || stuck_i)));
    past_refused     <= rst_n && control_i.start && progress.start_refused && !control_i.soft_reset;
    past_busy        <= progress.busy;
    waited           <= rst_n && flush && masters_idle_i && !control_i.soft_reset ? waited + 6'd1 : '0;
  end

  always_comb begin
    if (rst_n) begin
      if (past_valid && past_flush_cause) assert (flush);
      assert (waited <= 6'(Bound));
      if (past_valid && past_refused && !past_busy) assert (!progress.busy);
      if (past_offered && !flush) assert (command_valid && command == past_command);
      if (flush) assert (!command_valid && !fetch && !progress.done);
      // A job ends in one way only: done, or by an error or a reset. A refused START ends nothing.
      if (progress.done) assert (!control_i.soft_reset && (!error.valid || progress.start_refused) && !(watchdog_i || read_error_i || write_error_i || stuck_i));
      if (command_valid) assert (command.beats != '0 && command.beats <= plan_layer.block && command.lane1_beats <= command.beats);
      // Of errors in one cycle the read is told, then the write, then the watchdog.
      if (progress.busy && !flush && read_error_i) assert (error.valid && error.cause == fluidnpu_registers_pkg::CauseBusRead);
      else if (progress.busy && !flush && write_error_i) assert (error.valid && error.cause == fluidnpu_registers_pkg::CauseBusWrite);
      else if (progress.busy && !flush && watchdog_i) assert (error.valid && error.cause == fluidnpu_registers_pkg::CauseWatchdog);
      // A layer that ends is whole, and all but the last are followed by another.
      if (progress.done) assert (layer_ends);
      if (layer_ends) assert (progress.busy && written_i && !control_i.soft_reset && (!error.valid || progress.start_refused));
      if (command_valid || layer_start) assert (running == plan_layer);
      if (control_i.start && progress.busy) assert (progress.start_refused);
      if (control_i.start && batch_i.b_act == '0) assert (progress.start_refused);
      if (!progress.busy) assert (!flush && !fetch && !command_valid && !layer_start);
    end
  end
endmodule
