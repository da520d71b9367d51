/// The HLS core in the reference core's place, in simulation: its C++ is called once a cycle
/// (`hls_core.cpp`).
///
/// That is the rate of a pipeline of interval 1. Each stream has a register of two beats, as a port of type
/// axis has.
module fluidnpu_core #(
  parameter int unsigned TR = 64,
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned OutWords = 4,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  parameter int unsigned WordBits = 16,
  parameter int unsigned FieldBits = 18,  // of the reference core, too
  parameter int unsigned Piece = TP,  // Piece and Broken: of the reference core, which knows chains
  parameter int unsigned Broken = 0,
  parameter int unsigned InWords = Stackable ? 2 * TP : TP
) (
  input  logic                         clk_i,             // clock
  input  logic                         rst_ni,            // reset, synchronous
  input  logic                         clear_i,           // the count begins again
  output logic [31:0]                  saturations_o,     // words that no word could hold; saturates
  input  logic                         cmd_valid_i,       // a command is there
  output logic                         cmd_ready_o,       // and is taken
  input  logic [127:0]                 cmd_i,             // that command
  input  logic                         input_valid_i,     // an input beat is there
  output logic                         input_ready_o,     // and is taken
  input  logic [WordBits*InWords-1:0]        input_i,           // its words
  input  logic                         weight_valid_i,    // a weight beat is there
  output logic                         weight_ready_o,    // and is taken
  input  logic [WordBits*TP*WeightSlots-1:0] weight_i,          // its weights
  input  logic                         residual_valid_i,  // a residual beat is there
  output logic                         residual_ready_o,  // and is taken
  input  logic [WordBits*OutWords-1:0]       residual_i,        // its words
  output logic                         output_valid_o,    // an output beat is there
  input  logic                         output_ready_i,    // and is taken
  output logic [WordBits*OutWords-1:0]       output_o           // its words
);
  import "DPI-C" function chandle hls_core_open();
  import "DPI-C" function void hls_core_close(input chandle handle);
  import "DPI-C" function void hls_core_reset(input chandle handle);
  // `taken`: beats of cmd, input, weight, residual that the core takes in this cycle, and the one of output
  // that is taken from it. 0 when the core did what it must not.
  import "DPI-C" function int hls_core_cycle(
    input chandle handle,
    input bit [4:0] taken,
    input bit [127:0] cmd,
    input bit [WordBits*InWords-1:0] inputs,
    input bit [WordBits*TP*WeightSlots-1:0] weights,
    input bit [WordBits*OutWords-1:0] residuals,
    output bit [3:0] ready,
    output bit valid,
    output bit [WordBits*OutWords-1:0] outputs,
    output int unsigned saturations
  );

  chandle handle;
  initial handle = hls_core_open();
  final hls_core_close(handle);

  bit [3:0]             ready;
  bit                   valid;
  bit [WordBits*OutWords-1:0] outputs;
  int unsigned          count;
  logic [32:0]          sum;

  assign sum = {1'b0, saturations_o} + {1'b0, count};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      hls_core_reset(handle);
      {residual_ready_o, weight_ready_o, input_ready_o, cmd_ready_o, output_valid_o} <= '0;
      count <= '0;
    end else begin
      if (hls_core_cycle(
            handle,
            {output_valid_o && output_ready_i, residual_valid_i && residual_ready_o, weight_valid_i && weight_ready_o,
             input_valid_i && input_ready_o, cmd_valid_i && cmd_ready_o},
            cmd_i, input_i, weight_i, residual_i, ready, valid, outputs, count) == 0) begin
        $error("the HLS core must keep to what it promises");
      end
      {residual_ready_o, weight_ready_o, input_ready_o, cmd_ready_o} <= ready;
      output_valid_o <= valid;
      output_o <= outputs;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) saturations_o <= '0;
    else saturations_o <= sum[32] ? '1 : sum[31:0];
  end
endmodule
