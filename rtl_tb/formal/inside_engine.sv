// Inside fluid_batching_engine: the FBCB is written and read inside its words only.
`ifdef FORMAL
  always_comb begin
    if (rst_ni && load_i && !load_refused_o) assert (load_index_i < 32'(Words) && 32'(load_index_i[IndexWidth-1:0]) == load_index_i);
    if (rst_ni && lookup_i) assert (32'(index) < 32'(Words));
    if (rst_ni && lookup_i && in_range) assert (32'(index) == 32'(lookup_layer_i) * BMax + 32'(b_act_q) - 32'd1);
  end
`endif
