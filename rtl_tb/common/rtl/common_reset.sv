/// Registers of reset: each of `Copies` follows `rst_ni` two cycles late and has loads of its own.
///
/// So no reset is a net of thousands. They hold the reset itself, not its inverse: slices reset at 1, and an
/// inverter behind a register would be the net's driver. The first register stays one of its own (`keep`,
/// `dont_touch`): what hangs on it is then no duplicate of another's, and tools merge no copies. The second may
/// be replicated: `max_fanout` asks the vendor for it. All begin in reset.
module common_reset #(
  parameter int unsigned Copies = 1
) (
  input  logic              clk_i,   // clock
  input  logic              rst_ni,  // the reset
  output logic [Copies-1:0] rst_no   // each a register of its own, two cycles late
);
  if (Copies < 1) begin : gen_illegal
    $fatal(1, "Copies must be at least 1 in %m");
  end

  (* keep = "true", dont_touch = "true", shreg_extract = "no" *) logic [Copies-1:0] first_q;
  (* shreg_extract = "no", max_fanout = 64 *) logic [Copies-1:0] second_q;
  initial {first_q, second_q} = '1;
  always @(posedge clk_i) begin  // not `always_ff`, which shares its registers with no `initial`
    first_q  <= {Copies{!rst_ni}};
    second_q <= first_q;
  end
  assign rst_no = ~second_q;
endmodule
