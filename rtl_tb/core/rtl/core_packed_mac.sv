/// Two multiply-accumulates of int8 in one DSP slice (ADR 75): sum_o = cascade_i + x_i * (upper * 2**FieldBits + lower).
///
/// The sum follows two cycles after x_i was registered.
/// `weight_i` has the lower weight in its lower byte, and above it the upper weight less one where the lower one
/// is negative. A1 and A2 of the slice hold weights: `load_i` fills the waiting one, `swap_i` makes it the active
/// one. For `Cells` see `core_mac`, the multiply-accumulate of one word of 16 bits.
module core_packed_mac #(
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned FieldBits = 18,
  parameter bit First = 1'b0,  // the sum begins here, with nothing
  localparam int unsigned SumBits = 48
) (
  input  logic               clk_i,      // clock
  input  logic [7:0]         x_i,        // a word
  input  logic [15:0]        weight_i,   // its two weights
  input  logic               load_i,     // they become the waiting ones
  input  logic               swap_i,     // the waiting weights become the active ones
  input  logic [SumBits-1:0] cascade_i,  // from the slice before
  output logic [SumBits-1:0] cascade_o,  // the sum, to the next slice alone
  output logic [SumBits-1:0] sum_o       // the sum
);
  logic signed [FieldBits+7:0] packed_weight;
  assign packed_weight = {weight_i[15:8], {(FieldBits - 8) {weight_i[7]}}, weight_i[7:0]};

  if (Cells == core_pkg::CellsInferred) begin : gen_inferred
    logic signed [7:0]            x_q;
    logic signed [FieldBits+7:0]  waiting_q, active_q;
    logic signed [FieldBits+15:0] product_q;
    logic signed [SumBits-1:0]    sum_q;

    always_ff @(posedge clk_i) begin
      x_q <= x_i;
      if (load_i) waiting_q <= packed_weight;
      if (swap_i) active_q <= waiting_q;
      product_q <= active_q * x_q;
      sum_q     <= (First ? '0 : cascade_i) + SumBits'(product_q);
    end
    assign sum_o     = sum_q;
    assign cascade_o = sum_q;
  end else if (Cells == core_pkg::CellsDsp48e1) begin : gen_dsp48e1
    DSP48E1 #(
      .AREG(2), .ACASCREG(2), .BREG(1), .BCASCREG(1), .CREG(0), .DREG(0), .ADREG(0), .MREG(1), .PREG(1),
      .OPMODEREG(0), .ALUMODEREG(0), .INMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0)
    ) u_slice (
      .CLK(clk_i), .A(30'(packed_weight)), .B(18'($signed(x_i))), .C(48'd0), .D(25'd0), .PCIN(cascade_i),
      .OPMODE(First ? 7'b0000101 : 7'b0010101), .ALUMODE(4'd0), .INMODE(5'd0), .CARRYIN(1'b0), .CARRYINSEL(3'd0),
      .CEA1(load_i), .CEA2(swap_i), .CEB1(1'b0), .CEB2(1'b1), .CEC(1'b0), .CEM(1'b1), .CEP(1'b1), .CED(1'b0), .CEAD(1'b0),
      .CECTRL(1'b0), .CEALUMODE(1'b0), .CEINMODE(1'b0), .CECARRYIN(1'b0), .RSTA(1'b0), .RSTB(1'b0), .RSTC(1'b0),
      .RSTM(1'b0), .RSTP(1'b0), .RSTD(1'b0), .RSTCTRL(1'b0), .RSTALUMODE(1'b0), .RSTINMODE(1'b0), .RSTALLCARRYIN(1'b0),
      .ACIN(30'd0), .BCIN(18'd0), .CARRYCASCIN(1'b0), .MULTSIGNIN(1'b0), .P(sum_o), .PCOUT(cascade_o), .ACOUT(), .BCOUT(),
      .CARRYCASCOUT(), .CARRYOUT(), .MULTSIGNOUT(), .OVERFLOW(), .UNDERFLOW(), .PATTERNDETECT(), .PATTERNBDETECT()
    );
  end else begin : gen_dsp48e2
    DSP48E2 #(
      .AREG(2), .ACASCREG(2), .BREG(1), .BCASCREG(1), .CREG(0), .DREG(0), .ADREG(0), .MREG(1), .PREG(1),
      .OPMODEREG(0), .ALUMODEREG(0), .INMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0)
    ) u_slice (
      .CLK(clk_i), .A(30'(packed_weight)), .B(18'($signed(x_i))), .C(48'd0), .D(27'd0), .PCIN(cascade_i),
      .OPMODE(First ? 9'b000000101 : 9'b000010101), .ALUMODE(4'd0), .INMODE(5'd0), .CARRYIN(1'b0), .CARRYINSEL(3'd0),
      .CEA1(load_i), .CEA2(swap_i), .CEB1(1'b0), .CEB2(1'b1), .CEC(1'b0), .CEM(1'b1), .CEP(1'b1), .CED(1'b0), .CEAD(1'b0),
      .CECTRL(1'b0), .CEALUMODE(1'b0), .CEINMODE(1'b0), .CECARRYIN(1'b0), .RSTA(1'b0), .RSTB(1'b0), .RSTC(1'b0),
      .RSTM(1'b0), .RSTP(1'b0), .RSTD(1'b0), .RSTCTRL(1'b0), .RSTALUMODE(1'b0), .RSTINMODE(1'b0), .RSTALLCARRYIN(1'b0),
      .ACIN(30'd0), .BCIN(18'd0), .CARRYCASCIN(1'b0), .MULTSIGNIN(1'b0), .P(sum_o), .PCOUT(cascade_o), .ACOUT(), .BCOUT(),
      .CARRYCASCOUT(), .CARRYOUT(), .MULTSIGNOUT(), .OVERFLOW(), .UNDERFLOW(), .PATTERNDETECT(), .PATTERNBDETECT(), .XOROUT()
    );
  end
endmodule
