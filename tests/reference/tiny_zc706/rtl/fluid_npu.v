// The NPU as one module: data plane and core, joined by the five streams of ADR 4. Plain Verilog, so that Vivado packages it as an IP.
`default_nettype none

module fluid_npu (
    (* X_INTERFACE_INFO = "xilinx.com:signal:clock:1.0 aclk CLK" *)
    (* X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF s_axil:m_axi, ASSOCIATED_RESET aresetn" *)
    input  wire aclk,
    (* X_INTERFACE_INFO = "xilinx.com:signal:reset:1.0 aresetn RST" *)
    (* X_INTERFACE_PARAMETER = "POLARITY ACTIVE_LOW" *)
    input  wire aresetn,
    (* X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT" *)
    (* X_INTERFACE_PARAMETER = "SENSITIVITY LEVEL_HIGH" *)
    output wire irq,
    input  wire [11:0] s_axil_awaddr,
    input  wire s_axil_awvalid,
    output wire s_axil_awready,
    input  wire [31:0] s_axil_wdata,
    input  wire [3:0] s_axil_wstrb,
    input  wire s_axil_wvalid,
    output wire s_axil_wready,
    output wire [1:0] s_axil_bresp,
    output wire s_axil_bvalid,
    input  wire s_axil_bready,
    input  wire [11:0] s_axil_araddr,
    input  wire s_axil_arvalid,
    output wire s_axil_arready,
    output wire [31:0] s_axil_rdata,
    output wire [1:0] s_axil_rresp,
    output wire s_axil_rvalid,
    input  wire s_axil_rready,
    output wire [39:0] m_axi_araddr,
    output wire [7:0] m_axi_arlen,
    output wire [2:0] m_axi_arsize,
    output wire [1:0] m_axi_arburst,
    output wire m_axi_arvalid,
    input  wire m_axi_arready,
    input  wire [63:0] m_axi_rdata,
    input  wire [1:0] m_axi_rresp,
    input  wire m_axi_rlast,
    input  wire m_axi_rvalid,
    output wire m_axi_rready,
    output wire [39:0] m_axi_awaddr,
    output wire [7:0] m_axi_awlen,
    output wire [2:0] m_axi_awsize,
    output wire [1:0] m_axi_awburst,
    output wire m_axi_awvalid,
    input  wire m_axi_awready,
    output wire [63:0] m_axi_wdata,
    output wire [7:0] m_axi_wstrb,
    output wire m_axi_wlast,
    output wire m_axi_wvalid,
    input  wire m_axi_wready,
    input  wire [1:0] m_axi_bresp,
    input  wire m_axi_bvalid,
    output wire m_axi_bready
);
    wire [127:0] cmd_data;
    wire cmd_valid, cmd_ready;
    wire [127:0] input_data;
    wire input_valid, input_ready;
    wire [127:0] weight_data;
    wire weight_valid, weight_ready;
    wire [63:0] residual_data;
    wire residual_valid, residual_ready;
    wire [63:0] output_data;
    wire output_valid, output_ready;
    wire core_rst_n, core_clear;
    wire [31:0] saturations;

    fluidnpu_data_plane #(
        .TR(16),
        .TP(4),
        .TC(6),
        .BMax(2),
        .AccBits(48),
        .WeightSlots(2),
        .OutWords(4),
        .InWords(8),
        .Stackable(1),
        .Split(0),
        .Layers(5),
        .BuildId(4171766596),
        .DataBytes(8)
    ) data_plane (
        .clk_i(aclk),
        .rst_ni(aresetn),
        .irq_o(irq),
        .s_axil_awaddr(s_axil_awaddr),
        .s_axil_awvalid(s_axil_awvalid),
        .s_axil_awready(s_axil_awready),
        .s_axil_wdata(s_axil_wdata),
        .s_axil_wstrb(s_axil_wstrb),
        .s_axil_wvalid(s_axil_wvalid),
        .s_axil_wready(s_axil_wready),
        .s_axil_bresp(s_axil_bresp),
        .s_axil_bvalid(s_axil_bvalid),
        .s_axil_bready(s_axil_bready),
        .s_axil_araddr(s_axil_araddr),
        .s_axil_arvalid(s_axil_arvalid),
        .s_axil_arready(s_axil_arready),
        .s_axil_rdata(s_axil_rdata),
        .s_axil_rresp(s_axil_rresp),
        .s_axil_rvalid(s_axil_rvalid),
        .s_axil_rready(s_axil_rready),
        .m_axi_araddr(m_axi_araddr),
        .m_axi_arlen(m_axi_arlen),
        .m_axi_arsize(m_axi_arsize),
        .m_axi_arburst(m_axi_arburst),
        .m_axi_arvalid(m_axi_arvalid),
        .m_axi_arready(m_axi_arready),
        .m_axi_rdata(m_axi_rdata),
        .m_axi_rresp(m_axi_rresp),
        .m_axi_rlast(m_axi_rlast),
        .m_axi_rvalid(m_axi_rvalid),
        .m_axi_rready(m_axi_rready),
        .m_axi_awaddr(m_axi_awaddr),
        .m_axi_awlen(m_axi_awlen),
        .m_axi_awsize(m_axi_awsize),
        .m_axi_awburst(m_axi_awburst),
        .m_axi_awvalid(m_axi_awvalid),
        .m_axi_awready(m_axi_awready),
        .m_axi_wdata(m_axi_wdata),
        .m_axi_wstrb(m_axi_wstrb),
        .m_axi_wlast(m_axi_wlast),
        .m_axi_wvalid(m_axi_wvalid),
        .m_axi_wready(m_axi_wready),
        .m_axi_bresp(m_axi_bresp),
        .m_axi_bvalid(m_axi_bvalid),
        .m_axi_bready(m_axi_bready),
        .cmd_o(cmd_data),
        .cmd_valid_o(cmd_valid),
        .cmd_ready_i(cmd_ready),
        .input_o(input_data),
        .input_valid_o(input_valid),
        .input_ready_i(input_ready),
        .weight_o(weight_data),
        .weight_valid_o(weight_valid),
        .weight_ready_i(weight_ready),
        .residual_o(residual_data),
        .residual_valid_o(residual_valid),
        .residual_ready_i(residual_ready),
        .output_i(output_data),
        .output_valid_i(output_valid),
        .output_ready_o(output_ready),
        .core_rst_no(core_rst_n),
        .core_clear_o(core_clear),
        .saturations_i(saturations)
    );

    fluidnpu_hls_core core (
        .clk_i(aclk),
        .rst_ni(core_rst_n),
        .clear_i(core_clear),
        .saturations_o(saturations),
        .cmd_i(cmd_data),
        .cmd_valid_i(cmd_valid),
        .cmd_ready_o(cmd_ready),
        .input_i(input_data),
        .input_valid_i(input_valid),
        .input_ready_o(input_ready),
        .weight_i(weight_data),
        .weight_valid_i(weight_valid),
        .weight_ready_o(weight_ready),
        .residual_i(residual_data),
        .residual_valid_i(residual_valid),
        .residual_ready_o(residual_ready),
        .output_o(output_data),
        .output_valid_o(output_valid),
        .output_ready_i(output_ready)
    );
endmodule

`default_nettype wire
