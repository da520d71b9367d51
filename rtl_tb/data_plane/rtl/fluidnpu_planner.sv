/// Checks a descriptor and computes the layer's constants from it and the FBCB's plan.
///
/// One multiplier-divider takes a bit a cycle: about 250 cycles, more for long numbers. Wrong magic,
/// checksum, field range or alignment, and more P-tiles than a command can ask for, give `bad_o` with the
/// cause instead of a layer, and so does what a unit, a pool or a filter of this NPU cannot do. A layer is done
/// when its constants are there (`loaded_i`). Formulas:
/// `hls.core.layer_streams`, `hls.program.part_words` and `dse.hardware.InputRows`.
module fluidnpu_planner #(
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned OutWords = 4,
  parameter int unsigned PortBytes = 16,
  parameter int unsigned WordBits = 16,
  parameter bit Split = 1'b0,
  parameter bit Pools = 1'b1,      // outputs can pass a max pool on their way to memory
  parameter bit Activation = 1'b0, // and an activation unit
  parameter int unsigned FilterKernel = 0,   // and a depthwise filter of so many taps a side at most
  parameter int unsigned FilterWeights = 0,  // rows of its weights that a bank holds
  parameter bit FilterActivation = 1'b0      // and a table behind the filter
) (
  input  logic                              clk_i,         // clock
  input  logic                              rst_ni,        // reset, synchronous
  input  logic                              start_i,       // plans the descriptor at hand
  input  fluidnpu_formats_pkg::descriptor_t descriptor_i,  // that descriptor
  input  logic [4:0]                        b_act_i,       // active slots
  output logic                              pool_o,        // of the descriptor, for the FBCB lookup
  input  fluidnpu_formats_pkg::plan_t       plan_i,        // what the FBCB says of it
  output logic                              planned_o,     // `layer_o` is whole, and waits for its pieces
  input  logic                              loaded_i,      // they are there, or it has none
  output logic                              done_o,        // the layer is planned
  output fluidnpu_formats_pkg::fault_t      bad_o,         // or cannot be
  output fluidnpu_formats_pkg::layer_t      layer_o        // the layer as it runs
);
  localparam int unsigned Bytes = fluidnpu_formats_pkg::DescriptorBits / 8;
  localparam int unsigned WordBytes = WordBits / 8;
  localparam int unsigned ByteBits = $clog2(WordBytes);
  localparam int unsigned HeaderWords = fluidnpu_pkg::header_words(WordBits);
  localparam int unsigned BiasesPerSlot = TP / HeaderWords;
  localparam bit Pairs = WordBytes == 1;  // of columns, which share a chain: one without its neighbour is followed by zeros
  localparam int unsigned UnitBits = 6 - ByteBits;  // log2 of the words in 64 bytes
  localparam int unsigned TablePieces = fluidnpu_pkg::PieceRows + 2;

  if (TP < HeaderWords || TC < 1 || WeightSlots < 1) begin : gen_illegal
    $fatal(1, "TP must be at least %0d to carry a column's header in one slot, TC and WeightSlots at least 1 in %m", HeaderWords);
  end
  if (Pairs && (Split || TC % 2 != 0 || WeightSlots % 2 != 0)) begin : gen_illegal_pairs
    $fatal(1, "TC and WeightSlots must be even, and no tree splits, where words are bytes in %m");
  end
  if (Split && TP % 2 != 0) begin : gen_illegal_split
    $fatal(1, "TP must be even when trees split in %m");
  end

  // Checks
  logic [Bytes-1:0][7:0] bytes;
  logic [31:0] crc_q, part;
  (* max_fanout = 64 *) logic [$clog2(Bytes):0] byte_q;  // bytes that the checksum knows
  (* max_fanout = 64 *) logic checked_q;
  logic        odd, zero, foreign, gemm, unknown, no_part, beyond, misfit, mergeable, faulty_q, malformed_q, refused;
  logic        long_q;  // more P-tiles than fit
  fluidnpu_formats_pkg::mode_e mode, plan_mode_q;
  logic [15:0] plan_block_q;
  logic [4:0]  plan_b_r_q;
  logic        plan_row_lanes_q, plan_bad_q;
  logic        filters, walks_h, walks_w;  // outputs pass the filter; its walk holds the map, and ends within a window of it
  assign bytes   = descriptor_i;
  assign filters = FilterKernel != 0 && descriptor_i.filter_kernel != '0;
  always_ff @(posedge clk_i) begin  // the FBCB's RAM answers late in its cycle; the plan is needed some cycles later
    // Lanes by samples would bring outputs in another order than that of the image.
    plan_bad_q       <= plan_i.bad || (gemm && (descriptor_i.pool_kernel[1] || filters) && plan_i.mode == fluidnpu_formats_pkg::ModeLanes && !plan_i.row_lanes);
    plan_mode_q      <= plan_i.mode;
    plan_row_lanes_q <= plan_i.row_lanes;
    plan_b_r_q       <= plan_i.b_r;
    plan_block_q     <= plan_i.block;
  end
  always_comb begin
    odd = WordBytes > 1 && (descriptor_i.in_offset[0] || descriptor_i.in_row_bytes[0] || descriptor_i.in_pixel_bytes[0]
        || descriptor_i.out_offset[0] || descriptor_i.out_row_bytes[0] || descriptor_i.out_pixel_bytes[0]
        || descriptor_i.residual_offset[0] || descriptor_i.residual_row_bytes[0] || descriptor_i.residual_pixel_bytes[0]);
    zero = descriptor_i.kernel_h == '0 || descriptor_i.kernel_w == '0 || descriptor_i.stride_h == '0
        || descriptor_i.stride_w == '0 || descriptor_i.dilation_h == '0 || descriptor_i.dilation_w == '0
        || descriptor_i.out_h == '0 || descriptor_i.out_w == '0 || descriptor_i.group_words == '0
        || descriptor_i.groups == '0 || descriptor_i.columns == '0;
    foreign = descriptor_i.byte_words != Pairs || (Pairs ? descriptor_i.residual_shift != '0 : descriptor_i.residual_multiplier != '0);
    gemm = descriptor_i.kind == fluidnpu_formats_pkg::KindGemm;
    unknown = !gemm && descriptor_i.kind != fluidnpu_formats_pkg::KindMaxPool && descriptor_i.kind != fluidnpu_formats_pkg::KindSumPool;
    unique case (descriptor_i.kind)
      fluidnpu_formats_pkg::KindMaxPool: mode = fluidnpu_formats_pkg::ModeMaxPool;
      fluidnpu_formats_pkg::KindSumPool: mode = fluidnpu_formats_pkg::ModeSumPool;
      default:                           mode = plan_mode_q;
    endcase
    unique case (mode)
      fluidnpu_formats_pkg::ModeNormal: part = descriptor_i.weights[0];
      fluidnpu_formats_pkg::ModeWide:   part = descriptor_i.weights[1];
      fluidnpu_formats_pkg::ModeLanes:  part = descriptor_i.weights[2];
      default:                          part = descriptor_i.weights[3];
    endcase
  end
  function automatic logic has_window(logic [3:0] window);  // a table; that of bytes has all of them
    has_window = Pairs ? window == 4'd8 : window[3];
  endfunction

  always_comb begin  // what the activation unit could not do; without a unit, that anything is asked of it
    no_part = part == fluidnpu_formats_pkg::DescriptorNoWeights || part[5:0] != '0;
    beyond = descriptor_i.activation != fluidnpu_formats_pkg::ActivationNone || descriptor_i.pieces != '0 || descriptor_i.residual_spread;
    if (Activation) begin
      unique case (descriptor_i.activation)
        fluidnpu_formats_pkg::ActivationNone: beyond = descriptor_i.pieces != '0;
        fluidnpu_formats_pkg::ActivationTable: beyond = descriptor_i.pieces != 16'(TablePieces) || !has_window(descriptor_i.activation_window);
        fluidnpu_formats_pkg::ActivationProduct: beyond = descriptor_i.pieces != '0 || !descriptor_i.has_residual;
        fluidnpu_formats_pkg::ActivationSlope, fluidnpu_formats_pkg::ActivationAffine:
          beyond = descriptor_i.pieces == '0 || 32'(descriptor_i.pieces) > fluidnpu_pkg::PieceRows * OutWords;
        default: beyond = 1'b1;
      endcase
      if (descriptor_i.merged && descriptor_i.activation != fluidnpu_formats_pkg::ActivationNone) beyond = 1'b1;
      if (descriptor_i.residual_spread && !descriptor_i.has_residual) beyond = 1'b1;
      if ($signed(descriptor_i.activation_lo) > $signed(descriptor_i.activation_hi)) beyond = 1'b1;
      if (descriptor_i.pieces != '0 && no_part) beyond = 1'b1;
    end
  end
  assign pool_o = !gemm;

  assign mergeable = descriptor_i.kind == fluidnpu_formats_pkg::KindMaxPool || FilterKernel != 0;
  always_comb begin
    walks_h = descriptor_i.walk_h >= descriptor_i.out_h && 17'(descriptor_i.walk_h) < 17'(descriptor_i.out_h) + 17'(descriptor_i.filter_kernel);
    walks_w = descriptor_i.walk_w >= descriptor_i.out_w && 17'(descriptor_i.walk_w) < 17'(descriptor_i.out_w) + 17'(descriptor_i.filter_kernel);
  end
  always_comb begin  // what the filter could not do; without one, that anything is asked of it
    misfit = descriptor_i.filter_kernel != '0;
    if (FilterKernel != 0 && !filters) misfit = descriptor_i.filter_rows != '0 || descriptor_i.filter_table;
    if (filters) begin
      misfit = 32'(descriptor_i.filter_kernel) > FilterKernel || descriptor_i.filter_kernel == 4'd1
          || (descriptor_i.filter_stride != 2'd1 && descriptor_i.filter_stride != 2'd2)
          || !gemm || descriptor_i.groups != 16'd1 || descriptor_i.pool_kernel != '0 || descriptor_i.merged
          || 4'(descriptor_i.filter_top) >= descriptor_i.filter_kernel || 4'(descriptor_i.filter_left) >= descriptor_i.filter_kernel
          || !walks_h || !walks_w || descriptor_i.filter_rows == '0 || 32'(descriptor_i.filter_rows) > FilterWeights
          || descriptor_i.filter_shift > (Pairs ? '0 : fluidnpu_formats_pkg::DescriptorFilterShiftMost)
          || $signed(descriptor_i.filter_lo) > $signed(descriptor_i.filter_hi)
          || $signed(descriptor_i.filter_unit_lo) > $signed(descriptor_i.filter_unit_hi)
          || (descriptor_i.filter_table ? !FilterActivation || !has_window(descriptor_i.filter_window) : descriptor_i.filter_window != '0);
    end
  end

  // The checksum is taken byte by byte while the first operations run; all of them take longer. Behind the
  // bytes of its own it is the same number whatever was before.
  function automatic logic [31:0] crc_of(logic [31:0] crc, logic [7:0] data);
    crc_of = crc ^ 32'(data);
    for (int i = 0; i < 8; i++) crc_of = (crc_of >> 1) ^ (crc_of[0] ? fluidnpu_formats_pkg::DescriptorCrcPolynomial : '0);
  endfunction

  always_ff @(posedge clk_i) begin
    faulty_q <= descriptor_i.magic != fluidnpu_formats_pkg::DescriptorMagic || odd || zero || foreign || unknown
        || descriptor_i.shift > fluidnpu_formats_pkg::DescriptorShiftMost
        || descriptor_i.residual_shift > fluidnpu_formats_pkg::DescriptorResidualShiftMost
        || $signed(descriptor_i.lo) > $signed(descriptor_i.hi) || (!gemm && descriptor_i.groups != 16'd1)
        || descriptor_i.pool_kernel == 2'd1 || (descriptor_i.pool_kernel != '0 && (!gemm || !Pools))
        || (descriptor_i.merged && (!mergeable || descriptor_i.pool_kernel != '0))
        || (gemm && no_part && !(FilterKernel != 0 && descriptor_i.merged)) || beyond || misfit;
    if (start_i) begin
      crc_q  <= '1;
      byte_q <= '0;
    end else if (32'(byte_q) != Bytes) begin
      crc_q  <= crc_of(crc_q, bytes[byte_q[$clog2(Bytes)-1:0]]);
      byte_q <= byte_q + 1'b1;
    end
    malformed_q <= faulty_q || long_q || crc_q != fluidnpu_formats_pkg::DescriptorCrcResidue;
    checked_q   <= rst_ni && !start_i && 32'(byte_q) == Bytes;
  end
  assign refused = checked_q && (malformed_q || plan_bad_q);

  // One operation after another: a * b, or a / b with remainder.
  localparam int unsigned Steps = 27;
  (* max_fanout = 64 *) logic [4:0] step_q;
  logic        busy_q, run_q, divide;
  logic [31:0] a, b, acc_q, x_q, y_q, rest_q;
  logic [5:0]  bit_q;
  logic        op_done;

  logic [31:0] jump_q, step_w_q, reach_h_q, tap_w_q, taps_q, p_q, p_tiles_q, rows_q, beats0_q, beats1_q, row_words_q;
  logic [31:0] tiles_q, last_cols_q, last_bias_q, last_tile_q, last_beats_q, full_beats_q, group_beats_q, layer_beats_q;
  logic [31:0] block_words_q, width, columns, last_slots;
  logic [31:0] across_q, reach_w_q, channels_q, above_q, step_h_q, tap_h_q, sample_bytes_q;
  logic [31:0] row_step, row_bytes_q, apart, pitch_q, rise, sample_rows_q;
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
      fluidnpu_formats_pkg::ModeWide: begin
        width      = 32'(2 * TP);
        columns    = 32'(Narrow);
        full_bias  = 32'(NarrowBias);
        full_tile  = 32'(WideTile);
        last_slots = (last_cols_q + 32'(Pairs && last_cols_q[0])) << 1;
      end
      fluidnpu_formats_pkg::ModeLanes: begin
        columns   = 32'(Narrow);
        full_bias = 32'(NarrowBias);
        full_tile = 32'(LanesTile);
      end
      fluidnpu_formats_pkg::ModeSplit: begin
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
      5'd0:  begin a = descriptor_i.in_row_bytes; b = 32'(descriptor_i.stride_h); end
      5'd1:  begin a = descriptor_i.in_pixel_bytes; b = 32'(descriptor_i.stride_w); end
      5'd2:  begin a = 32'(descriptor_i.dilation_h); b = 32'(descriptor_i.kernel_h) - 32'd1; end  // rows under a window's first
      5'd3:  begin a = descriptor_i.in_pixel_bytes; b = 32'(descriptor_i.dilation_w); end
      5'd4:  begin a = 32'(descriptor_i.kernel_w); b = 32'(descriptor_i.kernel_h); end            // taps
      5'd5:  begin a = 32'(descriptor_i.group_words); b = taps_q; end                             // P
      5'd6:  begin a = p_q + width - 32'd1; b = width; divide = 1'b1; end                         // P-tiles
      5'd7:  begin a = 32'(descriptor_i.out_h); b = 32'(descriptor_i.out_w); end                  // rows of a sample
      5'd8:  begin a = rows_q; b = 32'(plan_row_lanes_q ? b_act_i : plan_b_r_q); end
      5'd9:  begin a = rows_q; b = 32'(b_act_i - plan_b_r_q); end
      5'd10: begin a = 32'(descriptor_i.columns) - 32'd1; b = columns; divide = 1'b1; end         // full tiles before the last one
      5'd11: begin a = last_cols_q + 32'(BiasesPerSlot - 1); b = 32'(BiasesPerSlot); divide = 1'b1; end
      5'd12: begin a = last_bias_q + 32'(WeightSlots - 1); b = 32'(WeightSlots); divide = 1'b1; end
      5'd13: begin a = last_slots + 32'(WeightSlots - 1); b = 32'(WeightSlots); divide = 1'b1; end
      5'd14: begin a = p_tiles_q; b = last_tile_q; end
      5'd15: begin a = p_tiles_q; b = full_tile; end
      5'd16: begin a = full_beats_q; b = tiles_q; end
      5'd17: begin a = group_beats_q; b = 32'(descriptor_i.groups); end
      5'd18: begin a = layer_beats_q; b = 32'(WeightSlots * TP); end
      5'd19: begin a = 32'(descriptor_i.group_words); b = 32'(descriptor_i.kernel_w); end         // words of a kernel row
      5'd20: begin a = step_w_q; b = 32'(descriptor_i.out_w) - 32'd1; end                         // first to last window of a row
      5'd21: begin a = tap_w_q; b = 32'(descriptor_i.kernel_w) - 32'd1; end                       // first to last tap of a row
      5'd22: begin a = 32'(descriptor_i.group_words); b = 32'(descriptor_i.groups); end           // words of a pixel
      5'd23: begin a = rise; b = 32'(descriptor_i.out_h) - 32'd1; end                             // rows above a sample's last window
      5'd24: begin a = pitch_q; b = rise; end
      5'd25: begin a = pitch_q; b = 32'(descriptor_i.dilation_h); end
      5'd26: begin a = pitch_q; b = sample_rows_q; end
      default: ;
    endcase
  end

  // x_q: shifted a; y_q: what is left of b (product) or the divisor (quotient).
  assign op_done = run_q && (divide ? bit_q == '0 : y_q == '0);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      run_q  <= 1'b0;
    end else if (start_i) begin
      busy_q <= 1'b1;
      run_q  <= 1'b0;
      step_q <= '0;
      long_q <= 1'b0;
    end else if (busy_q && (refused || done_o)) begin
      busy_q <= 1'b0;
    end else if (busy_q && !run_q && step_q != 5'(Steps)) begin
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
        5'd6: begin  // a max pool takes two taps a beat
          p_tiles_q <= descriptor_i.kind == fluidnpu_formats_pkg::KindMaxPool ? (taps_q + 32'd1) >> 1 : pool_o ? taps_q : acc_q;
          long_q    <= gemm && acc_q[31:16] != '0;
        end
        5'd7:  rows_q <= acc_q;
        5'd8:  beats0_q <= plan_row_lanes_q ? (acc_q + 32'd1) >> 1 : acc_q;
        5'd9:  beats1_q <= plan_row_lanes_q ? beats0_q - 32'(odd_rows) : acc_q;
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

  // Input rows. A kernel of one row leaves out what its stride skips. In the buffer a row keeps its place
  // within a port word.
  assign flat        = descriptor_i.kernel_h == 8'd1;
  assign row_step    = flat ? jump_q : descriptor_i.in_row_bytes;
  assign rise        = flat ? 32'd1 : 32'(descriptor_i.stride_h);
  assign apart       = row_bytes_q + 32'(PortBytes - WordBytes);
  always_ff @(posedge clk_i) begin  // settled two cycles behind what they depend on: the next operation takes as long
    sample_rows_q <= above_q + reach_h_q + 32'd1;
    row_bytes_q   <= across_q + reach_w_q + (channels_q << ByteBits);
    pitch_q       <= apart + ((row_step - apart) & 32'(PortBytes - 1));
  end

  assign odd_rows   = rows_q[0] && b_act_i[0];
  assign contiguous = !pool_o && descriptor_i.dilation_w == 8'd1 && descriptor_i.in_pixel_bytes == 32'(descriptor_i.group_words) << ByteBits;

  assign bad_o.valid = busy_q && refused;
  assign bad_o.cause = malformed_q && !(descriptor_i.magic == fluidnpu_formats_pkg::DescriptorMagic && crc_q == fluidnpu_formats_pkg::DescriptorCrcResidue && plan_bad_q)
      ? fluidnpu_registers_pkg::CauseBadDescriptor : fluidnpu_registers_pkg::CauseBadFbcb;
  assign planned_o = busy_q && checked_q && !refused && step_q == 5'(Steps);
  assign done_o    = planned_o && loaded_i;

  // Pieces begin at the next multiple of 64 bytes behind the part's weights. Settled long before the last operation.
  logic [31:0] piece_address_q, part_bytes_q;
  always_ff @(posedge clk_i) begin
    part_bytes_q    <= gemm ? {block_words_q[UnitBits+:26] + 26'(block_words_q[UnitBits-1:0] != '0), 6'd0} : '0;
    piece_address_q <= part + part_bytes_q;
  end

  logic multiplies;
  assign multiplies = Activation && descriptor_i.has_residual && descriptor_i.activation == fluidnpu_formats_pkg::ActivationProduct;
  always_comb begin
    layer_o                 = '0;
    layer_o.pool            = pool_o;
    layer_o.mode            = mode;
    layer_o.row_lanes       = !pool_o && plan_row_lanes_q;
    layer_o.sample_lanes    = !pool_o && mode == fluidnpu_formats_pkg::ModeLanes && !plan_row_lanes_q;
    layer_o.b_r             = plan_b_r_q;
    layer_o.block           = plan_block_q;
    layer_o.has_residual    = descriptor_i.has_residual && !multiplies;
    layer_o.multiplies      = multiplies;
    layer_o.shift           = 6'(descriptor_i.shift);
    layer_o.residual_shift  = Pairs ? '0 : 5'(descriptor_i.residual_shift);
    if (Pairs) layer_o.residual_multiplier = descriptor_i.residual_multiplier;
    layer_o.lo              = descriptor_i.lo;
    layer_o.hi              = descriptor_i.hi;
    layer_o.kernel_h        = descriptor_i.kernel_h;
    layer_o.kernel_w        = descriptor_i.kernel_w;
    layer_o.out_h           = descriptor_i.out_h;
    layer_o.out_w           = descriptor_i.out_w;
    layer_o.group_words     = descriptor_i.group_words;
    layer_o.groups          = descriptor_i.groups;
    layer_o.columns         = descriptor_i.columns;
    layer_o.pool_kernel     = descriptor_i.pool_kernel;
    layer_o.pool_top        = descriptor_i.pool_top;
    layer_o.pool_left       = descriptor_i.pool_left;
    layer_o.pool_pitch      = descriptor_i.pool_pitch;
    layer_o.merged          = descriptor_i.merged;
    layer_o.in_offset       = descriptor_i.in_offset;
    layer_o.out_offset      = descriptor_i.out_offset;
    layer_o.out_row         = descriptor_i.out_row_bytes;
    layer_o.out_pixel       = descriptor_i.out_pixel_bytes;
    layer_o.residual_offset = descriptor_i.residual_offset;
    layer_o.residual_row    = descriptor_i.residual_row_bytes;
    layer_o.residual_pixel  = descriptor_i.residual_pixel_bytes;
    layer_o.step_w          = step_w_q;
    layer_o.tap_w           = tap_w_q;
    layer_o.row_bytes       = row_bytes_q;
    layer_o.row_step        = row_step;
    layer_o.sample_rows     = sample_rows_q[23:0];
    layer_o.rise            = rise[23:0];
    layer_o.span            = reach_h_q[23:0] + 24'd1;
    layer_o.pitch           = pitch_q;
    layer_o.sample_pitch    = (sample_bytes_q + 32'(PortBytes - 1)) & ~32'(PortBytes - 1);
    layer_o.step_h          = step_h_q;
    layer_o.tap_h           = tap_h_q;
    layer_o.contiguous      = contiguous;
    layer_o.run_words       = contiguous ? row_words_q[23:0] : 24'(descriptor_i.group_words);
    layer_o.p_tiles         = p_tiles_q[15:0];
    layer_o.beats0          = beats0_q;
    layer_o.beats1          = pool_o ? '0 : beats1_q;
    layer_o.weights         = part;
    layer_o.block_words     = block_words_q;
    if (Activation || FilterKernel != 0) layer_o.piece_address = piece_address_q;
    if (FilterKernel != 0) begin
      layer_o.filter_kernel     = descriptor_i.filter_kernel;
      layer_o.filter_stride     = descriptor_i.filter_stride;
      layer_o.filter_top        = descriptor_i.filter_top;
      layer_o.filter_left       = descriptor_i.filter_left;
      layer_o.filter_shift      = descriptor_i.filter_shift;
      layer_o.filter_lo         = descriptor_i.filter_lo;
      layer_o.filter_hi         = descriptor_i.filter_hi;
      layer_o.filter_rows       = descriptor_i.filter_rows;
      layer_o.walk_h            = descriptor_i.walk_h;
      layer_o.walk_w            = descriptor_i.walk_w;
      unique case (descriptor_i.filter_kernel)  // ceil(k * k / 9)
        4'd4:    layer_o.filter_steps = 3'd2;
        4'd5:    layer_o.filter_steps = 3'd3;
        4'd6:    layer_o.filter_steps = 3'd4;
        4'd7:    layer_o.filter_steps = 3'd6;
        default: layer_o.filter_steps = {2'd0, filters};
      endcase
    end
    if (FilterActivation) begin
      layer_o.filter_table      = descriptor_i.filter_table;
      layer_o.filter_window     = descriptor_i.filter_window;
      layer_o.filter_unit_shift = descriptor_i.filter_unit_shift;
      layer_o.filter_unit_lo    = descriptor_i.filter_unit_lo;
      layer_o.filter_unit_hi    = descriptor_i.filter_unit_hi;
    end
    if (Activation) begin
      layer_o.residual_spread   = descriptor_i.residual_spread;
      layer_o.activation        = descriptor_i.activation;
      layer_o.activation_window = descriptor_i.activation_window;
      layer_o.activation_shift  = descriptor_i.activation_shift;
      layer_o.activation_lo     = descriptor_i.activation_lo;
      layer_o.activation_hi     = descriptor_i.activation_hi;
      layer_o.pieces            = descriptor_i.pieces;
    end
  end
endmodule
