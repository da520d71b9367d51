/// Checks a descriptor and computes what follows from it and the FBCB's plan, with one multiplier-divider that takes a bit a cycle.
///
/// Wrong magic, checksum, field range or alignment give `bad_o` with the cause instead of a layer. Formulas: `hls.streams`
/// `hls.layout` and `hls.row_buffer`. About 250 cycles, more where numbers are long.
module fluidnpu_planner #(
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned PortBytes = 16,
  parameter bit Split = 1'b0
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 start_i,
  input  logic [31:0][31:0]    words_i,
  input  logic [4:0]           b_act_i,
  output logic                 pool_o,    // of the words, for the FBCB lookup
  input  logic                 plan_bad_i,
  input  logic [3:0]           plan_mode_i,
  input  logic                 plan_row_lanes_i,
  input  logic [4:0]           plan_b_r_i,
  input  logic [15:0]          plan_block_i,
  output logic                 done_o,
  output logic                 bad_o,
  output logic [7:0]           cause_o,
  output fluidnpu_pkg::layer_t layer_o
);
  localparam logic [31:0] Magic = 32'hF1D0_0001;
  localparam logic [31:0] NoWeights = 32'hFFFF_FFFF;
  localparam int unsigned BiasesPerSlot = TP / 3;

  if (TP < 3 || TC < 1 || WeightSlots < 1) begin : gen_illegal
    $fatal(1, "TP must be at least 3 to carry a 48-bit bias in one slot, TC and WeightSlots at least 1 in %m");
  end
  if (Split && TP % 2 != 0) begin : gen_illegal_split
    $fatal(1, "TP must be even when trees split in %m");
  end

  // Checks
  logic [31:0] sum, part;
  logic        odd, zero, malformed;
  logic [3:0]  mode;
  logic [1:0]  kind;
  always_comb begin
    sum = '0;
    for (int i = 0; i < 32; i++) sum = sum + words_i[i];
    odd = 1'b0;
    for (int i = 8; i < 17; i++) odd = odd || words_i[i][0];
    zero = words_i[2][7:0] == '0 || words_i[2][15:8] == '0 || words_i[2][23:16] == '0 || words_i[2][31:24] == '0
        || words_i[3][7:0] == '0 || words_i[3][15:8] == '0 || words_i[4][15:0] == '0 || words_i[4][31:16] == '0
        || words_i[5][15:0] == '0 || words_i[5][31:16] == '0 || words_i[6][15:0] == '0;
    kind = words_i[1][1:0];
    mode = kind == 2'd1 ? fluidnpu_pkg::ModeMaxPool : kind == 2'd2 ? fluidnpu_pkg::ModeSumPool : plan_mode_i;
    unique case (mode)
      fluidnpu_pkg::ModeNormal: part = words_i[17];
      fluidnpu_pkg::ModeWide:   part = words_i[18];
      fluidnpu_pkg::ModeLanes:  part = words_i[19];
      default:                  part = words_i[20];
    endcase
    malformed = words_i[0] != Magic || sum != '0 || odd || zero || kind == 2'd3 || words_i[1][15:8] > 8'd47
        || words_i[1][23:16] > 8'd31 || $signed(words_i[7][15:0]) > $signed(words_i[7][31:16])
        || (kind != 2'd0 && words_i[5][31:16] != 16'd1) || (kind == 2'd0 && (part == NoWeights || part[5:0] != '0));
  end
  assign pool_o = kind != 2'd0;

  // One operation after another: a * b, or a / b with remainder.
  localparam int unsigned Steps = 27;
  logic [4:0]  step_q;
  logic        busy_q, run_q, divide;
  logic [31:0] a, b, acc_q, x_q, y_q, rest_q;
  logic [5:0]  bit_q;
  logic        op_done;

  logic [31:0] jump_q, step_w_q, reach_h_q, tap_w_q, taps_q, p_q, p_tiles_q, rows_q, beats0_q, beats1_q, row_words_q;
  logic [31:0] tiles_q, last_cols_q, last_bias_q, last_tile_q, last_beats_q, full_beats_q, group_beats_q, layer_beats_q;
  logic [31:0] block_words_q, width, columns, last_slots;
  logic [31:0] across_q, reach_w_q, channels_q, above_q, step_h_q, tap_h_q, sample_bytes_q;
  logic [31:0] row_step, row_bytes, apart, pitch, rise, sample_rows;
  logic        flat;
  logic        odd_rows, contiguous;

  // Constants of a full column tile in each mode.
  localparam int unsigned Narrow = TC / 2 > 0 ? TC / 2 : 1;
  function automatic int unsigned bias_beats(int unsigned cols);
    bias_beats = ((cols + BiasesPerSlot - 1) / BiasesPerSlot + WeightSlots - 1) / WeightSlots;
  endfunction
  function automatic int unsigned slot_beats(int unsigned slots);
    slot_beats = (slots + WeightSlots - 1) / WeightSlots;
  endfunction
  localparam int unsigned NormalBias = bias_beats(TC);
  localparam int unsigned NarrowBias = bias_beats(Narrow);
  localparam int unsigned SplitBias = bias_beats(2 * TC);
  localparam int unsigned NormalTile = slot_beats(TC);
  localparam int unsigned WideTile = slot_beats(2 * Narrow);
  localparam int unsigned LanesTile = slot_beats(Narrow);

  logic [31:0] full_bias, full_tile;
  always_comb begin
    width      = 32'(TP);
    columns    = 32'(TC);
    full_bias  = 32'(NormalBias);
    full_tile  = 32'(NormalTile);
    last_slots = last_cols_q;
    unique case (mode)
      fluidnpu_pkg::ModeWide: begin
        width      = 32'(2 * TP);
        columns    = 32'(Narrow);
        full_bias  = 32'(NarrowBias);
        full_tile  = 32'(WideTile);
        last_slots = last_cols_q << 1;
      end
      fluidnpu_pkg::ModeLanes: begin
        columns   = 32'(Narrow);
        full_bias = 32'(NarrowBias);
        full_tile = 32'(LanesTile);
      end
      fluidnpu_pkg::ModeSplit: begin
        width      = 32'(TP / 2);
        columns    = 32'(2 * TC);
        full_bias  = 32'(SplitBias);
        last_slots = (last_cols_q + 32'd1) >> 1;
      end
      default: ;
    endcase
  end

  always_comb begin
    a      = '0;
    b      = '0;
    divide = 1'b0;
    case (step_q)
      5'd0:  begin a = words_i[9]; b = 32'(words_i[2][23:16]); end                       // in_row * stride_h
      5'd1:  begin a = words_i[10]; b = 32'(words_i[2][31:24]); end                      // in_pixel * stride_w
      5'd2:  begin a = 32'(words_i[3][7:0]); b = 32'(words_i[2][7:0]) - 32'd1; end        // rows under a window's first
      5'd3:  begin a = words_i[10]; b = 32'(words_i[3][15:8]); end                       // in_pixel * dilation_w
      5'd4:  begin a = 32'(words_i[2][15:8]); b = 32'(words_i[2][7:0]); end              // taps
      5'd5:  begin a = 32'(words_i[5][15:0]); b = taps_q; end                            // P
      5'd6:  begin a = p_q + width - 32'd1; b = width; divide = 1'b1; end                // P-tiles
      5'd7:  begin a = 32'(words_i[4][15:0]); b = 32'(words_i[4][31:16]); end            // rows of a sample
      5'd8:  begin a = rows_q; b = 32'(plan_row_lanes_i ? b_act_i : plan_b_r_i); end
      5'd9:  begin a = rows_q; b = 32'(b_act_i - plan_b_r_i); end
      5'd10: begin a = 32'(words_i[6][15:0]) - 32'd1; b = columns; divide = 1'b1; end    // full tiles before the last one
      5'd11: begin a = last_cols_q + 32'(BiasesPerSlot - 1); b = 32'(BiasesPerSlot); divide = 1'b1; end
      5'd12: begin a = last_bias_q + 32'(WeightSlots - 1); b = 32'(WeightSlots); divide = 1'b1; end
      5'd13: begin a = last_slots + 32'(WeightSlots - 1); b = 32'(WeightSlots); divide = 1'b1; end
      5'd14: begin a = p_tiles_q; b = last_tile_q; end
      5'd15: begin a = p_tiles_q; b = full_tile; end
      5'd16: begin a = full_beats_q; b = tiles_q; end
      5'd17: begin a = group_beats_q; b = 32'(words_i[5][31:16]); end
      5'd18: begin a = layer_beats_q; b = 32'(WeightSlots * TP); end
      5'd19: begin a = 32'(words_i[5][15:0]); b = 32'(words_i[2][15:8]); end             // words of a kernel row
      5'd20: begin a = step_w_q; b = 32'(words_i[4][31:16]) - 32'd1; end                 // first to last window of a row
      5'd21: begin a = tap_w_q; b = 32'(words_i[2][15:8]) - 32'd1; end                   // first to last tap of a row
      5'd22: begin a = 32'(words_i[5][15:0]); b = 32'(words_i[5][31:16]); end            // words of a pixel
      5'd23: begin a = rise; b = 32'(words_i[4][15:0]) - 32'd1; end                      // rows above a sample's last window
      5'd24: begin a = pitch; b = rise; end
      5'd25: begin a = pitch; b = 32'(words_i[3][7:0]); end
      5'd26: begin a = pitch; b = sample_rows; end
      default: ;
    endcase
  end

  // x_q: shifted a; y_q: what is left of b (product) or the divisor (quotient).
  assign op_done = run_q && (divide ? bit_q == '0 : y_q == '0);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      run_q  <= 1'b0;
      step_q <= '0;
      bit_q  <= '0;
    end else if (start_i) begin
      busy_q <= 1'b1;
      run_q  <= 1'b0;
      step_q <= '0;
    end else if (busy_q && (malformed || plan_bad_i || step_q == 5'(Steps))) begin
      busy_q <= 1'b0;
    end else if (busy_q && !run_q) begin
      run_q  <= 1'b1;
      acc_q  <= '0;
      rest_q <= '0;
      x_q    <= a;
      y_q    <= b;
      bit_q  <= 6'd32;
    end else if (busy_q && !op_done) begin
      if (divide) begin
        bit_q <= bit_q - 6'd1;
        x_q   <= x_q << 1;
        if ({rest_q[30:0], x_q[31]} >= y_q) begin
          rest_q <= {rest_q[30:0], x_q[31]} - y_q;
          acc_q  <= {acc_q[30:0], 1'b1};
        end else begin
          rest_q <= {rest_q[30:0], x_q[31]};
          acc_q  <= acc_q << 1;
        end
      end else begin
        if (y_q[0]) acc_q <= acc_q + x_q;
        x_q <= x_q << 1;
        y_q <= y_q >> 1;
      end
    end else if (busy_q) begin
      run_q  <= 1'b0;
      step_q <= step_q + 5'd1;
      case (step_q)
        5'd0:  jump_q <= acc_q;
        5'd1:  step_w_q <= acc_q;
        5'd2:  reach_h_q <= acc_q;
        5'd3:  tap_w_q <= acc_q;
        5'd4:  taps_q <= acc_q;
        5'd5:  p_q <= acc_q;
        5'd6:  p_tiles_q <= kind == 2'd1 ? (taps_q + 32'd1) >> 1 : pool_o ? taps_q : acc_q;  // a max pool takes two taps a beat
        5'd7:  rows_q <= acc_q;
        5'd8:  beats0_q <= plan_row_lanes_i ? (acc_q + 32'd1) >> 1 : acc_q;
        5'd9:  beats1_q <= plan_row_lanes_i ? beats0_q - 32'(odd_rows) : acc_q;
        5'd10: begin
          tiles_q     <= acc_q;
          last_cols_q <= rest_q + 32'd1;
        end
        5'd11: last_bias_q <= acc_q;
        5'd12: last_bias_q <= acc_q;
        5'd13: last_tile_q <= acc_q;
        5'd14: last_beats_q <= acc_q + last_bias_q;
        5'd15: full_beats_q <= acc_q + full_bias;
        5'd16: group_beats_q <= acc_q + last_beats_q;
        5'd17: layer_beats_q <= acc_q;
        5'd18: block_words_q <= acc_q;
        5'd19: row_words_q <= acc_q;
        5'd20: across_q <= acc_q;
        5'd21: reach_w_q <= acc_q;
        5'd22: channels_q <= acc_q;
        5'd23: above_q <= acc_q;
        5'd24: step_h_q <= acc_q;
        5'd25: tap_h_q <= acc_q;
        5'd26: sample_bytes_q <= acc_q;
        default: ;
      endcase
    end
  end

  // Input rows. A kernel of one row leaves out what its stride skips. In the buffer a row keeps its place within a port word.
  assign flat        = words_i[2][7:0] == 8'd1;
  assign row_step    = flat ? jump_q : words_i[9];
  assign rise        = flat ? 32'd1 : 32'(words_i[2][23:16]);
  assign sample_rows = above_q + reach_h_q + 32'd1;
  assign row_bytes   = across_q + reach_w_q + (channels_q << 1);
  assign apart       = row_bytes + 32'(PortBytes - 2);
  assign pitch       = apart + ((row_step - apart) & 32'(PortBytes - 1));

  assign odd_rows   = rows_q[0] && b_act_i[0];
  assign contiguous = !pool_o && words_i[3][15:8] == 8'd1 && words_i[10] == {15'd0, words_i[5][15:0], 1'b0};

  assign bad_o   = busy_q && (malformed || plan_bad_i);
  assign cause_o = malformed && !(words_i[0] == Magic && sum == '0 && plan_bad_i)
      ? fluidnpu_registers_pkg::CauseBadDescriptor : fluidnpu_registers_pkg::CauseBadFbcb;
  assign done_o  = busy_q && !bad_o && step_q == 5'(Steps);

  always_comb begin
    layer_o                 = '0;
    layer_o.pool            = pool_o;
    layer_o.mode            = mode;
    layer_o.row_lanes       = !pool_o && plan_row_lanes_i;
    layer_o.sample_lanes    = !pool_o && mode == fluidnpu_pkg::ModeLanes && !plan_row_lanes_i;
    layer_o.b_r             = plan_b_r_i;
    layer_o.block           = plan_block_i;
    layer_o.has_residual    = words_i[1][2];
    layer_o.shift           = words_i[1][13:8];
    layer_o.residual_shift  = words_i[1][20:16];
    layer_o.lo              = words_i[7][15:0];
    layer_o.hi              = words_i[7][31:16];
    layer_o.kernel_h        = words_i[2][7:0];
    layer_o.kernel_w        = words_i[2][15:8];
    layer_o.out_h           = words_i[4][15:0];
    layer_o.out_w           = words_i[4][31:16];
    layer_o.group_words     = words_i[5][15:0];
    layer_o.groups          = words_i[5][31:16];
    layer_o.columns         = words_i[6][15:0];
    layer_o.in_offset       = words_i[8];
    layer_o.out_offset      = words_i[11];
    layer_o.out_row         = words_i[12];
    layer_o.out_pixel       = words_i[13];
    layer_o.residual_offset = words_i[14];
    layer_o.residual_row    = words_i[15];
    layer_o.residual_pixel  = words_i[16];
    layer_o.step_w          = step_w_q;
    layer_o.tap_w           = tap_w_q;
    layer_o.row_bytes       = row_bytes;
    layer_o.row_step        = row_step;
    layer_o.sample_rows     = sample_rows[23:0];
    layer_o.rise            = rise[23:0];
    layer_o.span            = reach_h_q[23:0] + 24'd1;
    layer_o.pitch           = pitch;
    layer_o.sample_pitch    = (sample_bytes_q + 32'(PortBytes - 1)) & ~32'(PortBytes - 1);
    layer_o.step_h          = step_h_q;
    layer_o.tap_h           = tap_h_q;
    layer_o.contiguous      = contiguous;
    layer_o.run_words       = contiguous ? row_words_q[23:0] : 24'(words_i[5][15:0]);
    layer_o.p_tiles         = p_tiles_q[15:0];
    layer_o.beats0          = beats0_q;
    layer_o.beats1          = pool_o ? '0 : beats1_q;
    layer_o.weights         = part;
    layer_o.block_words     = block_words_q;
  end
endmodule
