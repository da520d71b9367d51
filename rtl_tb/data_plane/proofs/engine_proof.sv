/// Under any commands and any FBCB content the batch stays consistent, a refusal changes nothing, a plan can
/// be obeyed.
module engine_proof #(
  parameter int unsigned BMax = 3,
  parameter int unsigned Layers = 3,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b1
) (
  input logic                              clk_i,
  input fluidnpu_formats_pkg::control_t    control_i,
  input logic                              busy_i,
  input logic [31:0]                       mask_i,
  input fluidnpu_formats_pkg::fbcb_write_t load_i,
  input logic                              lookup_i,
  input logic [15:0]                       lookup_layer_i,
  input logic                              lookup_pool_i
);
  logic        plan_valid, load_refused;
  logic [31:0] loaded;
  fluidnpu_formats_pkg::fault_t refused;
  fluidnpu_formats_pkg::batch_t batch;
  fluidnpu_formats_pkg::plan_t  plan;
  logic        rst_n = 1'b0;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  fluidnpu_batching_engine #(.BMax(BMax), .Layers(Layers), .TR(64), .Stackable(Stackable), .Split(Split)) dut (
    .clk_i, .rst_ni(rst_n), .control_i, .busy_i, .mask_i, .refused_o(refused), .batch_o(batch),
    .load_i, .load_refused_o(load_refused), .loaded_o(loaded),
    .lookup_i, .lookup_layer_i, .lookup_pool_i, .plan_valid_o(plan_valid), .plan_o(plan)
  );

  logic        past_valid = 1'b0, past_pool = 1'b0;
  logic        past_refused, past_clear, past_rst, past_exit, past_merge, past_command;
  logic [31:0] past_active, past_mask;
  logic [4:0]  past_b_act;

  always_ff @(posedge clk_i) begin
    past_valid   <= 1'b1;
    if (lookup_i) past_pool <= lookup_pool_i;
    past_refused <= refused.valid;
    past_clear   <= control_i.soft_reset;
    past_rst     <= rst_n;
    past_exit    <= control_i.exit;
    past_merge   <= control_i.merge;
    past_active  <= batch.active;
    past_mask    <= mask_i;
    past_b_act   <= batch.b_act;
  end

  // Counted in another way than the engine does: the ones of halves, of quarters, of bytes.
  function automatic logic [5:0] population(logic [31:0] mask);
    logic [31:0] pairs, nibbles, bytes;
    pairs   = mask - ((mask >> 1) & 32'h5555_5555);
    nibbles = (pairs & 32'h3333_3333) + ((pairs >> 2) & 32'h3333_3333);
    bytes   = (nibbles + (nibbles >> 4)) & 32'h0F0F_0F0F;
    population = bytes[5:0] + bytes[13:8] + bytes[21:16] + bytes[29:24];
  endfunction

  always_comb begin
    // A command comes when its mask has stood still (the proof `registers`), and the active set, too: only a reset
    // clears it, and the NPU is busy from then on.
    if (control_i.exit || control_i.merge) assume (past_valid && mask_i == past_mask && (busy_i || batch.active == past_active));
    if (rst_n) begin
      assert (6'(batch.b_act) == population(batch.active));
      assert (batch.b_act <= 5'(BMax));
      assert (refused.valid == (refused.cause != 8'd0));
      if (busy_i && (control_i.exit || control_i.merge)) assert (refused.valid);
      // A row plan.block fits the accumulator banks, which hold half as many rows where trees split.
      if (plan_valid && !plan.bad) assert (plan.block != '0 && plan.block <= (plan.mode == fluidnpu_formats_pkg::ModeSplit && !past_pool ? 16'd32 : 16'd64));
      if (past_valid && past_rst && !past_clear) begin
        if (past_refused || (!past_exit && !past_merge)) begin
          assert (batch.active == past_active);
          assert (batch.b_act == past_b_act);
        end else if (past_exit) begin
          assert (batch.active == (past_active ^ past_mask));
        end else begin
          assert (batch.active == (past_active ^ past_mask));
          assert ((past_active & past_mask) == '0);
        end
      end
      if (past_valid && past_rst && past_clear) assert (batch.active == '0);
    end
  end
endmodule
