// The HLS core behind the ports of the reference core in SystemVerilog (fluidnpu_core.sv), so that either can
// be built. It adds up the saturations of commands, and saturates at the largest value.
`default_nettype none

module fluidnpu_hls_core (
    input  wire         clk_i,
    input  wire         rst_ni,
    input  wire         clear_i,
    output reg  [31:0]  saturations_o,
    input  wire [127:0] cmd_i,
    input  wire cmd_valid_i,
    output wire cmd_ready_o,
    input  wire [511:0] input_i,
    input  wire input_valid_i,
    output wire input_ready_o,
    input  wire [127:0] weight_i,
    input  wire weight_valid_i,
    output wire weight_ready_o,
    input  wire [63:0] residual_i,
    input  wire residual_valid_i,
    output wire residual_ready_o,
    output wire [63:0] output_o,
    output wire output_valid_o,
    input  wire output_ready_i
);
    wire [31:0] count;
    wire        count_valid;
    wire [32:0] sum = {1'b0, saturations_o} + {1'b0, count};

    always @(posedge clk_i) begin
        if (!rst_ni || clear_i) saturations_o <= 32'd0;
        else if (count_valid) saturations_o <= sum[32] ? 32'hFFFFFFFF : sum[31:0];
    end

    fluidnpu_core core (
        .ap_clk(clk_i),
        .ap_rst_n(rst_ni),
        .cmd_V_V_TDATA(cmd_i),
        .cmd_V_V_TVALID(cmd_valid_i),
        .cmd_V_V_TREADY(cmd_ready_o),
        .input_V_V_TDATA(input_i),
        .input_V_V_TVALID(input_valid_i),
        .input_V_V_TREADY(input_ready_o),
        .weight_V_V_TDATA(weight_i),
        .weight_V_V_TVALID(weight_valid_i),
        .weight_V_V_TREADY(weight_ready_o),
        .residual_V_V_TDATA(residual_i),
        .residual_V_V_TVALID(residual_valid_i),
        .residual_V_V_TREADY(residual_ready_o),
        .output_V_V_TDATA(output_o),
        .output_V_V_TVALID(output_valid_o),
        .output_V_V_TREADY(output_ready_i),
        .saturations_V_V_TDATA(count),
        .saturations_V_V_TVALID(count_valid),
        .saturations_V_V_TREADY(1'b1)
    );
endmodule

`default_nettype wire
