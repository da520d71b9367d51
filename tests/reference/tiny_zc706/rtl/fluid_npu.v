// The NPU as one module: data plane and core, joined by the five streams of ADR 4. Plain Verilog, so that
// Vivado packages it as an IP.
`default_nettype none

module fluid_npu (
    (* X_INTERFACE_INFO = "xilinx.com:signal:clock:1.0 aclk CLK" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME aclk, ASSOCIATED_BUSIF s_axil:m0_axi:m1_axi:m2_axi, ASSOCIATED_RESET aresetn" *)
    input  wire aclk,
    (* X_INTERFACE_INFO = "xilinx.com:signal:reset:1.0 aresetn RST" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME aresetn, POLARITY ACTIVE_LOW" *)
    input  wire aresetn,
    (* X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME irq, SENSITIVITY LEVEL_HIGH" *)
    output wire irq,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil AWADDR" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME s_axil, PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH 12, HAS_PROT 0" *)
    input  wire [11:0] s_axil_awaddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil AWVALID" *)
    input  wire s_axil_awvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil AWREADY" *)
    output wire s_axil_awready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil WDATA" *)
    input  wire [31:0] s_axil_wdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil WSTRB" *)
    input  wire [3:0] s_axil_wstrb,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil WVALID" *)
    input  wire s_axil_wvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil WREADY" *)
    output wire s_axil_wready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil BRESP" *)
    output wire [1:0] s_axil_bresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil BVALID" *)
    output wire s_axil_bvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil BREADY" *)
    input  wire s_axil_bready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil ARADDR" *)
    input  wire [11:0] s_axil_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil ARVALID" *)
    input  wire s_axil_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil ARREADY" *)
    output wire s_axil_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil RDATA" *)
    output wire [31:0] s_axil_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil RRESP" *)
    output wire [1:0] s_axil_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil RVALID" *)
    output wire s_axil_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 s_axil RREADY" *)
    input  wire s_axil_rready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARADDR" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m0_axi, PROTOCOL AXI4, READ_WRITE_MODE READ_ONLY, DATA_WIDTH 64, ADDR_WIDTH 40, ID_WIDTH 0, HAS_CACHE 1, HAS_PROT 1, HAS_LOCK 0, HAS_QOS 0, HAS_REGION 0, SUPPORTS_NARROW_BURST 0, MAX_BURST_LENGTH 16, NUM_READ_OUTSTANDING 8" *)
    output wire [39:0] m0_axi_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARLEN" *)
    output wire [7:0] m0_axi_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARSIZE" *)
    output wire [2:0] m0_axi_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARBURST" *)
    output wire [1:0] m0_axi_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARVALID" *)
    output wire m0_axi_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARREADY" *)
    input  wire m0_axi_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi RDATA" *)
    input  wire [63:0] m0_axi_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi RRESP" *)
    input  wire [1:0] m0_axi_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi RLAST" *)
    input  wire m0_axi_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi RVALID" *)
    input  wire m0_axi_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi RREADY" *)
    output wire m0_axi_rready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARCACHE" *)
    output wire [3:0] m0_axi_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m0_axi ARPROT" *)
    output wire [2:0] m0_axi_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARADDR" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m1_axi, PROTOCOL AXI4, READ_WRITE_MODE READ_ONLY, DATA_WIDTH 64, ADDR_WIDTH 40, ID_WIDTH 0, HAS_CACHE 1, HAS_PROT 1, HAS_LOCK 0, HAS_QOS 0, HAS_REGION 0, SUPPORTS_NARROW_BURST 0, MAX_BURST_LENGTH 16, NUM_READ_OUTSTANDING 8" *)
    output wire [39:0] m1_axi_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARLEN" *)
    output wire [7:0] m1_axi_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARSIZE" *)
    output wire [2:0] m1_axi_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARBURST" *)
    output wire [1:0] m1_axi_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARVALID" *)
    output wire m1_axi_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARREADY" *)
    input  wire m1_axi_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi RDATA" *)
    input  wire [63:0] m1_axi_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi RRESP" *)
    input  wire [1:0] m1_axi_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi RLAST" *)
    input  wire m1_axi_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi RVALID" *)
    input  wire m1_axi_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi RREADY" *)
    output wire m1_axi_rready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARCACHE" *)
    output wire [3:0] m1_axi_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m1_axi ARPROT" *)
    output wire [2:0] m1_axi_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARADDR" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m2_axi, PROTOCOL AXI4, READ_WRITE_MODE READ_WRITE, DATA_WIDTH 64, ADDR_WIDTH 40, ID_WIDTH 0, HAS_CACHE 1, HAS_PROT 1, HAS_LOCK 0, HAS_QOS 0, HAS_REGION 0, SUPPORTS_NARROW_BURST 0, MAX_BURST_LENGTH 16, NUM_READ_OUTSTANDING 8, NUM_WRITE_OUTSTANDING 8" *)
    output wire [39:0] m2_axi_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARLEN" *)
    output wire [7:0] m2_axi_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARSIZE" *)
    output wire [2:0] m2_axi_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARBURST" *)
    output wire [1:0] m2_axi_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARVALID" *)
    output wire m2_axi_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARREADY" *)
    input  wire m2_axi_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi RDATA" *)
    input  wire [63:0] m2_axi_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi RRESP" *)
    input  wire [1:0] m2_axi_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi RLAST" *)
    input  wire m2_axi_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi RVALID" *)
    input  wire m2_axi_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi RREADY" *)
    output wire m2_axi_rready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWADDR" *)
    output wire [39:0] m2_axi_awaddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWLEN" *)
    output wire [7:0] m2_axi_awlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWSIZE" *)
    output wire [2:0] m2_axi_awsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWBURST" *)
    output wire [1:0] m2_axi_awburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWVALID" *)
    output wire m2_axi_awvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWREADY" *)
    input  wire m2_axi_awready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi WDATA" *)
    output wire [63:0] m2_axi_wdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi WSTRB" *)
    output wire [7:0] m2_axi_wstrb,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi WLAST" *)
    output wire m2_axi_wlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi WVALID" *)
    output wire m2_axi_wvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi WREADY" *)
    input  wire m2_axi_wready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi BRESP" *)
    input  wire [1:0] m2_axi_bresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi BVALID" *)
    input  wire m2_axi_bvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi BREADY" *)
    output wire m2_axi_bready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARCACHE" *)
    output wire [3:0] m2_axi_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi ARPROT" *)
    output wire [2:0] m2_axi_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWCACHE" *)
    output wire [3:0] m2_axi_awcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm:1.0 m2_axi AWPROT" *)
    output wire [2:0] m2_axi_awprot
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
    assign m0_axi_arcache = 4'd3;
    assign m0_axi_arprot = 3'd0;
    assign m1_axi_arcache = 4'd3;
    assign m1_axi_arprot = 3'd0;
    assign m2_axi_arcache = 4'd3;
    assign m2_axi_arprot = 3'd0;
    assign m2_axi_awcache = 4'd3;
    assign m2_axi_awprot = 3'd0;

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
        .PortBytes(8),
        .LineWords(16),
        .Sets(32768),
        .PoolWindows(0),
        .PoolRows(0),
        .BuildId(32'h123d4533)
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
        .m0_axi_araddr(m0_axi_araddr),
        .m0_axi_arlen(m0_axi_arlen),
        .m0_axi_arsize(m0_axi_arsize),
        .m0_axi_arburst(m0_axi_arburst),
        .m0_axi_arvalid(m0_axi_arvalid),
        .m0_axi_arready(m0_axi_arready),
        .m0_axi_rdata(m0_axi_rdata),
        .m0_axi_rresp(m0_axi_rresp),
        .m0_axi_rlast(m0_axi_rlast),
        .m0_axi_rvalid(m0_axi_rvalid),
        .m0_axi_rready(m0_axi_rready),
        .m1_axi_araddr(m1_axi_araddr),
        .m1_axi_arlen(m1_axi_arlen),
        .m1_axi_arsize(m1_axi_arsize),
        .m1_axi_arburst(m1_axi_arburst),
        .m1_axi_arvalid(m1_axi_arvalid),
        .m1_axi_arready(m1_axi_arready),
        .m1_axi_rdata(m1_axi_rdata),
        .m1_axi_rresp(m1_axi_rresp),
        .m1_axi_rlast(m1_axi_rlast),
        .m1_axi_rvalid(m1_axi_rvalid),
        .m1_axi_rready(m1_axi_rready),
        .m2_axi_araddr(m2_axi_araddr),
        .m2_axi_arlen(m2_axi_arlen),
        .m2_axi_arsize(m2_axi_arsize),
        .m2_axi_arburst(m2_axi_arburst),
        .m2_axi_arvalid(m2_axi_arvalid),
        .m2_axi_arready(m2_axi_arready),
        .m2_axi_rdata(m2_axi_rdata),
        .m2_axi_rresp(m2_axi_rresp),
        .m2_axi_rlast(m2_axi_rlast),
        .m2_axi_rvalid(m2_axi_rvalid),
        .m2_axi_rready(m2_axi_rready),
        .m2_axi_awaddr(m2_axi_awaddr),
        .m2_axi_awlen(m2_axi_awlen),
        .m2_axi_awsize(m2_axi_awsize),
        .m2_axi_awburst(m2_axi_awburst),
        .m2_axi_awvalid(m2_axi_awvalid),
        .m2_axi_awready(m2_axi_awready),
        .m2_axi_wdata(m2_axi_wdata),
        .m2_axi_wstrb(m2_axi_wstrb),
        .m2_axi_wlast(m2_axi_wlast),
        .m2_axi_wvalid(m2_axi_wvalid),
        .m2_axi_wready(m2_axi_wready),
        .m2_axi_bresp(m2_axi_bresp),
        .m2_axi_bvalid(m2_axi_bvalid),
        .m2_axi_bready(m2_axi_bready),
        .m_axis_cmd_tdata(cmd_data),
        .m_axis_cmd_tvalid(cmd_valid),
        .m_axis_cmd_tready(cmd_ready),
        .m_axis_input_tdata(input_data),
        .m_axis_input_tvalid(input_valid),
        .m_axis_input_tready(input_ready),
        .m_axis_weight_tdata(weight_data),
        .m_axis_weight_tvalid(weight_valid),
        .m_axis_weight_tready(weight_ready),
        .m_axis_residual_tdata(residual_data),
        .m_axis_residual_tvalid(residual_valid),
        .m_axis_residual_tready(residual_ready),
        .s_axis_output_tdata(output_data),
        .s_axis_output_tvalid(output_valid),
        .s_axis_output_tready(output_ready),
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
