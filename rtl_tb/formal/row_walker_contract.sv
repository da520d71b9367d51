/// Stands for fluidnpu_row_walker in proofs of its users: rows come for as long as it likes, hold still until they are taken, and a pass ends once.
module fluidnpu_row_walker #(
  parameter int unsigned BMax = 4
) (
  input  logic                                         clk_i,
  input  logic                                         rst_ni,
  input  logic                                         layer_start_i,
  input  logic [BMax-1:0][fluidnpu_pkg::AddrWidth-1:0] slot_i,
  input  logic [15:0]                                  out_h_i,
  input  logic [15:0]                                  out_w_i,
  input  logic                                         row_lanes_i,
  input  logic                                         sample_lanes_i,
  input  logic [4:0]                                   b_r_i,
  input  logic [31:0]                                  step_h_i,
  input  logic [31:0]                                  step_w_i,
  input  logic                                         pass_valid_i,
  output logic                                         pass_ready_o,
  input  logic [15:0]                                  beats_i,
  input  logic [15:0]                                  lane1_beats_i,
  input  logic [31:0]                                  shift_i,
  input  logic                                         commit_i,
  output logic                                         row_valid_o,
  input  logic                                         row_ready_i,
  output logic [fluidnpu_pkg::AddrWidth-1:0]           row_addr_o,
  output logic                                         row_lane_o,
  output logic                                         row_ends_beat_o,
  output logic                                         row_ends_pass_o
);
  (* anyseq *) logic [fluidnpu_pkg::AddrWidth-1:0] addr;
  (* anyseq *) logic lane, ends_beat, ends_pass;
  logic active_q = 1'b0, held_q = 1'b0;
  logic [fluidnpu_pkg::AddrWidth+2:0] held_value_q;
  assign row_addr_o      = held_q ? held_value_q[fluidnpu_pkg::AddrWidth+2:3] : addr;
  assign row_lane_o      = held_q ? held_value_q[2] : lane;
  assign row_ends_beat_o = held_q ? held_value_q[1] : ends_beat;
  assign row_ends_pass_o = held_q ? held_value_q[0] : ends_pass && row_ends_beat_o;
  assign row_valid_o     = active_q;
  assign pass_ready_o    = !active_q || (row_ready_i && row_ends_pass_o);
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      held_q   <= 1'b0;
    end else begin
      if (row_ready_i && row_ends_pass_o) active_q <= 1'b0;
      if (pass_valid_i && pass_ready_o) active_q <= 1'b1;
      held_q <= active_q && !row_ready_i;
    end
    held_value_q <= {row_addr_o, row_lane_o, row_ends_beat_o, row_ends_pass_o};
  end
endmodule
