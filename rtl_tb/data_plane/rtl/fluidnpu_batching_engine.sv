/// Keeps the active set of slots through exits and merges and looks up the plan of the batch for every layer
/// (FBCB).
///
/// EXIT removes `mask_i`, all of which must be active; MERGE adds it, none may be active and the sum may not
/// exceed BMax. Anything else raises `refused_o` with a cause in the same cycle and changes nothing. `mask_i`
/// stands still in the cycle before a command, and no other command comes then: how the mask compares with the
/// active set is found out a step ahead. A lookup takes one cycle: `plan_valid_o` follows `lookup_i`;
/// `bad`: this NPU cannot obey the word (as `hls.program.decode_fbcb` refuses it). A pool takes its row
/// blocks from the plan, not its mode. Formats: ADR 5 and 6.
module fluidnpu_batching_engine #(
  parameter int unsigned BMax = 4,
  parameter int unsigned Layers = 2,
  parameter int unsigned TR = 64,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0
) (
  input  logic                              clk_i,           // clock
  input  logic                              rst_ni,          // reset, synchronous
  input  fluidnpu_formats_pkg::control_t    control_i,       // EXIT, MERGE, and SOFT_RESET, which empties the set
  input  logic                              busy_i,          // a job runs
  input  logic [31:0]                       mask_i,          // those slots
  output fluidnpu_formats_pkg::fault_t      refused_o,       // the command or its mask is none that may be
  output fluidnpu_formats_pkg::batch_t      batch_o,         // the active set
  input  fluidnpu_formats_pkg::fbcb_write_t load_i,          // writes a word of the FBCB
  output logic                              load_refused_o,  // there is no such word, or a job runs
  output logic [31:0]                       loaded_o,        // the word at its index a cycle ago; 0 while busy, or where there is none
  input  logic                              lookup_i,        // asks for a plan
  input  logic [15:0]                       lookup_layer_i,  // of this layer
  input  logic                              lookup_pool_i,   // which is a pool
  output logic                              plan_valid_o,    // the plan is there
  output fluidnpu_formats_pkg::plan_t       plan_o           // that plan
);
  localparam int unsigned Words = Layers * BMax;
  localparam int unsigned IndexWidth = Words > 1 ? $clog2(Words) : 1;
  localparam int unsigned WordBits = fluidnpu_formats_pkg::FbcbBits;

  if (BMax < 1 || BMax > 16) begin : gen_illegal_batch
    $fatal(1, "BMax must lie in 1..16 in %m");
  end
  if (Layers < 1 || Layers > 65535) begin : gen_illegal_layers
    $fatal(1, "Layers must lie in 1..65535 in %m");
  end
  if (TR < 1 || TR > 65535) begin : gen_illegal_depth
    $fatal(1, "TR must lie in 1..65535 in %m");
  end

  function automatic logic [5:0] ones(logic [31:0] mask);
    ones = '0;
    for (int i = 0; i < 32; i++) ones = ones + 6'(mask[i]);
  endfunction

  // Control unit: the set and its size.
  logic [31:0] active_d, active_q;
  logic [4:0]  b_act_d, b_act_q;
  logic [6:0]  merged;
  logic [5:0]  ones_q;                 // of the mask
  logic        strangers_q, actives_q;  // slots of the mask that are not in the active set, that are

  always_ff @(posedge clk_i) begin
    ones_q      <= ones(mask_i);
    strangers_q <= (mask_i & ~active_q) != '0;
    actives_q   <= (mask_i & active_q) != '0;
  end
  assign merged = {2'b0, b_act_q} + {1'b0, ones_q};

  always_comb begin
    active_d  = active_q;
    b_act_d   = b_act_q;
    refused_o.valid = 1'b0;
    refused_o.cause = fluidnpu_registers_pkg::CauseNone;
    if (control_i.exit || control_i.merge) begin
      if (busy_i || (control_i.exit && control_i.merge)) begin
        refused_o.valid = 1'b1;
        refused_o.cause = fluidnpu_registers_pkg::CauseBusy;
      end else if (control_i.exit && strangers_q) begin
        refused_o.valid = 1'b1;
        refused_o.cause = fluidnpu_registers_pkg::CauseExitNotActive;
      end else if (control_i.merge && actives_q) begin
        refused_o.valid = 1'b1;
        refused_o.cause = fluidnpu_registers_pkg::CauseMergeActive;
      end else if (control_i.merge && merged > 7'(BMax)) begin
        refused_o.valid = 1'b1;
        refused_o.cause = fluidnpu_registers_pkg::CauseBatchTooLarge;
      end else if (control_i.exit) begin
        active_d = active_q & ~mask_i;
        b_act_d  = 5'(b_act_q - 5'(ones_q));
      end else begin
        active_d = active_q | mask_i;
        b_act_d  = merged[4:0];
      end
    end
    if (control_i.soft_reset) begin
      active_d = '0;
      b_act_d  = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q <= '0;
      b_act_q  <= '0;
    end else begin
      active_q <= active_d;
      b_act_q  <= b_act_d;
    end
  end

  always_comb begin
    batch_o.active = active_q;
    batch_o.b_act  = b_act_q;
  end

  // FBCB: one word for each layer and batch size.
  logic [WordBits-1:0]         fbcb_q [Words];
  fluidnpu_formats_pkg::fbcb_t word_q;
  logic                        in_range, in_range_q, pool_q, valid_q;
  logic                        there, shown_q;
  logic [IndexWidth-1:0]       index, address;

  assign there          = load_i.index < 32'(Words);
  assign load_refused_o = load_i.valid && (!there || load_i.word[31:WordBits] != '0);
  assign address        = IndexWidth'(lookup_layer_i) * IndexWidth'(BMax) + IndexWidth'(b_act_q) - IndexWidth'(1);
  assign in_range       = 32'(lookup_layer_i) < 32'(Layers) && b_act_q != '0;
  assign index          = lookup_i ? (in_range ? address : '0) : there ? load_i.index[IndexWidth-1:0] : '0;
  assign loaded_o       = shown_q ? 32'(word_q) : '0;

  always_ff @(posedge clk_i) begin
    if (load_i.valid && !load_refused_o) fbcb_q[load_i.index[IndexWidth-1:0]] <= load_i.word[WordBits-1:0];
    if (lookup_i || !busy_i) word_q <= fbcb_q[index];  // a plan stands until the next lookup
    shown_q <= !lookup_i && !busy_i && there;
    if (lookup_i) in_range_q <= in_range;
    if (lookup_i) pool_q <= lookup_pool_i;
    valid_q <= rst_ni && lookup_i;
  end

  logic [4:0]  b_r;
  logic        one, two, half, row_lanes, by_samples;
  logic [15:0] depth;

  assign one        = word_q.k == fluidnpu_formats_pkg::StackOne;
  assign two        = word_q.k == fluidnpu_formats_pkg::StackTwo;
  assign half       = word_q.k == fluidnpu_formats_pkg::StackHalf;
  assign row_lanes  = word_q.k == fluidnpu_formats_pkg::StackRowLanes;
  assign b_r        = word_q.b_r + 5'd1;
  assign depth      = half && !pool_q ? 16'(TR / 2 > 0 ? TR / 2 : 1) : 16'(TR);
  assign by_samples = one && !pool_q && b_r != b_act_q;

  always_comb begin
    unique case (word_q.k)
      fluidnpu_formats_pkg::StackOne:  plan_o.mode = by_samples ? fluidnpu_formats_pkg::ModeLanes : fluidnpu_formats_pkg::ModeNormal;
      fluidnpu_formats_pkg::StackTwo:  plan_o.mode = fluidnpu_formats_pkg::ModeWide;
      fluidnpu_formats_pkg::StackHalf: plan_o.mode = fluidnpu_formats_pkg::ModeSplit;
      default:                         plan_o.mode = fluidnpu_formats_pkg::ModeLanes;
    endcase
    // b_r = 31 + 1 would wrap to zero; two lanes hold at most 2 * b_r samples.
    plan_o.bad       = !in_range_q || word_q.b_r == '1 || b_r > b_act_q || (one && {b_r, 1'b0} < {1'b0, b_act_q})
        || ((two || row_lanes || by_samples) && !Stackable) || (half && !Split) || word_q.block > depth;
    plan_o.row_lanes = row_lanes && !pool_q;
    plan_o.b_r       = by_samples ? b_r : b_act_q;
    plan_o.block     = word_q.block == '0 ? depth : word_q.block;
  end

  assign plan_valid_o = valid_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (b_act_q <= 5'(BMax));
      assert (6'(b_act_q) == ones(active_q));
      if (control_i.exit || control_i.merge) assert (ones_q == ones(mask_i));
      // A reset that a command follows at once clears the set behind the comparisons; BUSY refuses the command.
      if ((control_i.exit || control_i.merge) && !busy_i) assert (strangers_q == ((mask_i & ~active_q) != '0));
      if ((control_i.exit || control_i.merge) && !busy_i) assert (actives_q == ((mask_i & active_q) != '0));
      assert (32'(index) < 32'(Words));
      if (valid_q && !plan_o.bad) assert (plan_o.b_r >= 5'd1 && plan_o.b_r <= b_act_q);
      if (valid_q && !plan_o.bad) assert (plan_o.block != '0 && 32'(plan_o.block) <= TR);
    end
  end
endmodule
