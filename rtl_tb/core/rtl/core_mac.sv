/// One multiply-accumulate, one DSP slice: sum_o = head + x_i * weight, two cycles after x_i was registered.
///
/// The weight has two registers, B1 and B2 of the slice: `load_i` fills the waiting one, `swap_i` makes it
/// the active one. `Head` is the source of the sum. `Cells` chooses the form: inferred (as simulated), or
/// DSP48E1 or DSP48E2 cells, which keep the weights and the cascade inside the slice with any synthesiser.
/// All three compute the same.
module core_mac #(
  parameter int unsigned Cells = core_pkg::CellsInferred,
  parameter int unsigned Head = core_pkg::HeadCascade,
  localparam int unsigned SumBits = 48
) (
  input  logic               clk_i,      // clock
  input  logic [15:0]        x_i,        // a word
  input  logic [15:0]        weight_i,   // a weight
  input  logic               load_i,     // it becomes the waiting one
  input  logic               swap_i,     // the waiting weight becomes the active one
  input  logic               clear_i,    // Head = HeadRegister: takes zero instead of `sum_i`
  input  logic [SumBits-1:0] sum_i,      // to port C
  input  logic [SumBits-1:0] cascade_i,  // Head = HeadCascade: from the slice before
  output logic [SumBits-1:0] cascade_o,  // the sum, to the next slice alone
  output logic [SumBits-1:0] sum_o       // the sum
);
  localparam bit Cascaded = Head == core_pkg::HeadCascade;
  localparam int unsigned HeadRegisters = Head == core_pkg::HeadRegister ? 1 : 0;

  if (Cells == core_pkg::CellsInferred) begin : gen_inferred
    logic signed [15:0]        x_q, waiting_q, active_q;
    logic signed [31:0]        product_q;
    logic signed [SumBits-1:0] head, sum_q;

    if (Head == core_pkg::HeadRegister) begin : gen_register
      logic [SumBits-1:0] head_q;
      always_ff @(posedge clk_i) begin
        if (clear_i) head_q <= '0;
        else head_q <= sum_i;
      end
      assign head = head_q;
    end else begin : gen_direct
      assign head = Cascaded ? cascade_i : sum_i;
    end

    always_ff @(posedge clk_i) begin
      x_q <= x_i;
      if (load_i) waiting_q <= weight_i;
      if (swap_i) active_q <= waiting_q;
      product_q <= x_q * active_q;
      sum_q     <= head + SumBits'(product_q);
    end
    assign sum_o     = sum_q;
    assign cascade_o = sum_q;
  end else if (Cells == core_pkg::CellsDsp48e1) begin : gen_dsp48e1
    DSP48E1 #(
      .AREG(1), .ACASCREG(1), .BREG(2), .BCASCREG(2), .CREG(HeadRegisters), .DREG(0), .ADREG(0), .MREG(1), .PREG(1),
      .OPMODEREG(0), .ALUMODEREG(0), .INMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0)
    ) u_slice (
      .CLK(clk_i), .A({{14{x_i[15]}}, x_i}), .B({{2{weight_i[15]}}, weight_i}), .C(sum_i), .D(25'd0), .PCIN(cascade_i),
      .OPMODE(Cascaded ? 7'b0010101 : 7'b0110101), .ALUMODE(4'd0), .INMODE(5'd0), .CARRYIN(1'b0), .CARRYINSEL(3'd0),
      .CEA1(1'b0), .CEA2(1'b1), .CEB1(load_i), .CEB2(swap_i), .CEC(1'b1), .CEM(1'b1), .CEP(1'b1), .CED(1'b0), .CEAD(1'b0),
      .CECTRL(1'b0), .CEALUMODE(1'b0), .CEINMODE(1'b0), .CECARRYIN(1'b0), .RSTA(1'b0), .RSTB(1'b0), .RSTC(clear_i),
      .RSTM(1'b0), .RSTP(1'b0), .RSTD(1'b0), .RSTCTRL(1'b0), .RSTALUMODE(1'b0), .RSTINMODE(1'b0), .RSTALLCARRYIN(1'b0),
      .ACIN(30'd0), .BCIN(18'd0), .CARRYCASCIN(1'b0), .MULTSIGNIN(1'b0), .P(sum_o), .PCOUT(cascade_o), .ACOUT(), .BCOUT(),
      .CARRYCASCOUT(), .CARRYOUT(), .MULTSIGNOUT(), .OVERFLOW(), .UNDERFLOW(), .PATTERNDETECT(), .PATTERNBDETECT()
    );
  end else begin : gen_dsp48e2
    DSP48E2 #(
      .AREG(1), .ACASCREG(1), .BREG(2), .BCASCREG(2), .CREG(HeadRegisters), .DREG(0), .ADREG(0), .MREG(1), .PREG(1),
      .OPMODEREG(0), .ALUMODEREG(0), .INMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0)
    ) u_slice (
      .CLK(clk_i), .A({{14{x_i[15]}}, x_i}), .B({{2{weight_i[15]}}, weight_i}), .C(sum_i), .D(27'd0), .PCIN(cascade_i),
      .OPMODE(Cascaded ? 9'b000010101 : 9'b000110101), .ALUMODE(4'd0), .INMODE(5'd0), .CARRYIN(1'b0), .CARRYINSEL(3'd0),
      .CEA1(1'b0), .CEA2(1'b1), .CEB1(load_i), .CEB2(swap_i), .CEC(1'b1), .CEM(1'b1), .CEP(1'b1), .CED(1'b0), .CEAD(1'b0),
      .CECTRL(1'b0), .CEALUMODE(1'b0), .CEINMODE(1'b0), .CECARRYIN(1'b0), .RSTA(1'b0), .RSTB(1'b0), .RSTC(clear_i),
      .RSTM(1'b0), .RSTP(1'b0), .RSTD(1'b0), .RSTCTRL(1'b0), .RSTALUMODE(1'b0), .RSTINMODE(1'b0), .RSTALLCARRYIN(1'b0),
      .ACIN(30'd0), .BCIN(18'd0), .CARRYCASCIN(1'b0), .MULTSIGNIN(1'b0), .P(sum_o), .PCOUT(cascade_o), .ACOUT(), .BCOUT(),
      .CARRYCASCOUT(), .CARRYOUT(), .MULTSIGNOUT(), .OVERFLOW(), .UNDERFLOW(), .PATTERNDETECT(), .PATTERNBDETECT(), .XOROUT()
    );
  end
endmodule
