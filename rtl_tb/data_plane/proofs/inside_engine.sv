// Inside fluidnpu_batching_engine: the FBCB is written and read inside its words only; a plan says of the
// word that was loaded for its layer and batch what `hls.program.decode_fbcb` says of it.
`ifdef FORMAL
  // Some word, from when it is loaded; and what a lookup of it then finds.
  (* anyconst *) logic [1:0]  layer;
  (* anyconst *) logic [4:0]  batch;
  logic                known_q = 1'b0, found_q = 1'b0, outside_q = 1'b0, reads_q = 1'b0, dark_q = 1'b0, pools_q;
  logic [WordBits-1:0] value_q;
  fluidnpu_formats_pkg::fbcb_t said_q;
  logic [31:0]         at;
  assign at = 32'(layer) * BMax + 32'(batch) - 32'd1;
  always_ff @(posedge clk_i) begin
    if (load_i.valid && !load_refused_o && load_i.index == at) begin
      known_q <= 1'b1;
      value_q <= load_i.word[WordBits-1:0];
    end
    found_q   <= rst_ni && lookup_i && known_q && lookup_layer_i == 16'(layer) && batch_o.b_act == batch;
    outside_q <= rst_ni && lookup_i && (32'(lookup_layer_i) >= Layers || batch_o.b_act == '0);
    if (lookup_i || !busy_i) said_q <= value_q;
    reads_q <= !lookup_i && !busy_i && known_q && load_i.index == at;
    dark_q  <= lookup_i || busy_i || load_i.index >= 32'(Words);
    if (lookup_i) pools_q <= lookup_pool_i;
  end

  // ADR 5
  logic [5:0]  samples;
  logic [15:0] deepest;
  logic        bad, split, shares;
  assign samples = 6'(said_q.b_r) + 6'd1;
  assign split   = said_q.k == fluidnpu_formats_pkg::StackHalf;
  assign shares  = said_q.k == fluidnpu_formats_pkg::StackOne && samples < 6'(batch) && !pools_q;  // two samples a beat
  assign deepest = split && !pools_q ? 16'(TR / 2) : 16'(TR);
  assign bad     = samples > 6'(batch) || (said_q.k == fluidnpu_formats_pkg::StackOne && 7'(samples) << 1 < 7'(batch)) || (split && !Split)
      || (!Stackable && (said_q.k == fluidnpu_formats_pkg::StackTwo || said_q.k == fluidnpu_formats_pkg::StackRowLanes || shares))
      || said_q.block > deepest;

  always_comb begin
    assume (32'(layer) < Layers && batch != '0 && 32'(batch) <= BMax);
    if (rst_ni && load_i.valid && !load_refused_o) assert (load_i.index < 32'(Words) && 32'(load_i.index[IndexWidth-1:0]) == load_i.index);
    if (rst_ni && lookup_i) assert (32'(index) < 32'(Words));
    if (rst_ni && lookup_i && in_range) assert (32'(index) == 32'(lookup_layer_i) * BMax + 32'(b_act_q) - 32'd1);
    if (known_q) assert (fbcb_q[at[IndexWidth-1:0]] == value_q);
    if (found_q) assert (word_q == said_q && in_range_q && pool_q == pools_q && (valid_q || !rst_ni));
    if (outside_q) assert (!in_range_q);
    if (reads_q) assert (loaded_o == 32'(said_q));  // the host reads back what it wrote, and nothing of a plan
    if (dark_q) assert (loaded_o == '0);
    if (rst_ni && plan_valid_o && outside_q) assert (plan_o.bad);
    // No exit or merge comes while a job runs, nor does a plan matter after a reset.
    if (rst_ni && plan_valid_o && found_q && batch_o.b_act == batch) begin
      assert (plan_o.bad == bad);
      if (!bad) begin
        assert (plan_o.b_r == (shares ? samples[4:0] : batch) && plan_o.block == (said_q.block == '0 ? deepest : said_q.block));
        assert (plan_o.row_lanes == (said_q.k == fluidnpu_formats_pkg::StackRowLanes && !pools_q));
        if (!pools_q) begin
          case (said_q.k)
            fluidnpu_formats_pkg::StackOne: begin
              assert (plan_o.mode == (shares ? fluidnpu_formats_pkg::ModeLanes : fluidnpu_formats_pkg::ModeNormal));
            end
            fluidnpu_formats_pkg::StackTwo: begin
              assert (plan_o.mode == fluidnpu_formats_pkg::ModeWide);
            end
            fluidnpu_formats_pkg::StackHalf: begin
              assert (plan_o.mode == fluidnpu_formats_pkg::ModeSplit);
            end
            default: begin
              assert (plan_o.mode == fluidnpu_formats_pkg::ModeLanes);
            end
          endcase
        end
      end
    end
  end
`ifdef COVER
  logic plan_now;
  assign plan_now = rst_ni && plan_valid_o && found_q && batch_o.b_act == batch;
  always_comb begin
    cover (plan_now && batch == 5'd3 && !bad && said_q.block == 16'd5 && (shares || !Stackable));
    cover (plan_now && !bad && (split || !Split) && said_q.block == '0 && !pools_q);
    cover (plan_now && !bad && pools_q && layer != '0);
    cover (plan_now && bad && samples <= 6'(batch) && said_q.block == '0);
    cover (rst_ni && refused_o.valid && control_i.merge && !busy_i && !control_i.exit && batch_o.b_act == 5'd2);
  end
`endif
`endif
