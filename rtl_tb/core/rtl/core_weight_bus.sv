/// Brings the slots of a weight beat to the processing elements, each of which listens to a fixed lane of the
/// bus.
///
/// PE j of the lower half (j < Pairs) listens to lane j % WeightSlots of `lower_o`, PE Pairs + j to the same
/// lane of `upper_o`. PEs j and Pairs + j form pair j of ADR 4. Words are skewed for `core_chain`; `load_o`
/// goes with word 0.
module core_weight_bus #(
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned WeightSlots = 1,
  parameter bit Stackable = 1'b1,
  parameter int unsigned Segment = TP,  // of `core_skew`
  localparam int unsigned Pairs = Stackable ? TC / 2 : TC
) (
  input  logic                                 clk_i,    // clock
  input  core_pkg::load_t                      load_i,   // a beat of weights comes
  input  fluidnpu_formats_pkg::mode_e          mode_i,   // of its command
  input  logic [WeightSlots-1:0][TP-1:0][15:0] slots_i,  // its slots
  output logic [WeightSlots-1:0][TP-1:0][15:0] lower_o,  // weights for the PEs of the lower half, a lane of the bus each
  output logic [WeightSlots-1:0][TP-1:0][15:0] upper_o,  // for those of the upper half
  output logic [TC-1:0]                        load_o    // the beat is that of the PE
);
  logic wide, lanes;
  assign wide  = Stackable && mode_i == fluidnpu_formats_pkg::ModeWide;
  assign lanes = Stackable && mode_i == fluidnpu_formats_pkg::ModeLanes;

  for (genvar lane = 0; lane < WeightSlots; lane++) begin : gen_lane
    logic [16*TP-1:0] lower_q, upper_q;

    always_ff @(posedge clk_i) begin
      lower_q <= wide ? slots_i[(2*lane)%WeightSlots] : slots_i[lane];
      upper_q <= wide ? slots_i[(2*lane+1)%WeightSlots] : lanes ? slots_i[lane] : slots_i[(lane+Pairs)%WeightSlots];
    end
    core_skew #(.Words(TP), .Segment(Segment)) u_lower (.clk_i, .data_i(lower_q), .data_o(lower_o[lane]));
    core_skew #(.Words(TP), .Segment(Segment)) u_upper (.clk_i, .data_i(upper_q), .data_o(upper_o[lane]));
  end

  for (genvar j = 0; j < TC; j++) begin : gen_load
    localparam int unsigned Pair = j < Pairs ? j : j - Pairs;
    localparam int unsigned High = j < Pairs ? 0 : 1;
    logic [12:0] own;
    logic        load_q;

    assign own = wide ? 13'((2 * Pair + High) / WeightSlots) : lanes ? 13'(Pair / WeightSlots) : 13'(j / WeightSlots);
    always_ff @(posedge clk_i) load_q <= load_i.valid && load_i.beat == own;
    assign load_o[j] = load_q;
  end
endmodule
