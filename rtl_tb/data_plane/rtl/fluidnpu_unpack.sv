/// Converts port words to beats of BeatWords words, on the way from the bus to a stream of the core.
///
/// A job is `words` words that begin `skip` words into its first port word. Its last beat is filled up with
/// zeros, and the rest of its last port word is dropped. The next job begins, and takes its first port word,
/// while the last beat leaves.
module fluidnpu_unpack #(
  parameter int unsigned PortWords = 8,
  parameter int unsigned BeatWords = 4,
  localparam int unsigned SkipWidth = PortWords > 1 ? $clog2(PortWords) : 1
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      job_valid_i,
  output logic                      job_ready_o,
  input  logic [SkipWidth-1:0]      job_skip_i,
  input  logic [31:0]               job_words_i,
  input  logic                      port_valid_i,
  output logic                      port_ready_o,
  input  logic [PortWords*16-1:0]   port_i,
  output logic                      beat_valid_o,
  input  logic                      beat_ready_i,
  output logic [BeatWords*16-1:0]   beat_o,
  output logic [31:0]               left_o,    // words of the job still to be given
  output logic [31:0]               missing_o  // words still to come from the port, with those to be skipped
);
  localparam int unsigned Room = PortWords + BeatWords;
  localparam int unsigned CountWidth = $clog2(Room + 1);

  logic [Room*16-1:0]    store_q, shifted, filled;
  logic [CountWidth-1:0] count_q, count_after, gained;
  logic [31:0]           left_q, missing_q, missing;  // words to give; words still to come from the port
  logic [SkipWidth-1:0]  skip_q, skip;      // words to skip in the next port word
  logic                  enough, give, get, begins, ends;
  logic [PortWords*16-1:0] useful;

  if (PortWords < 1 || BeatWords < 1) begin : gen_illegal
    $fatal(1, "PortWords and BeatWords must be at least 1 in %m");
  end

  assign enough       = left_q != '0 && (32'(count_q) >= BeatWords || 32'(count_q) >= left_q);
  assign beat_valid_o = enough;
  assign give         = beat_valid_o && beat_ready_i;
  assign ends         = give && left_q <= BeatWords;
  assign count_after  = give && !ends ? count_q - CountWidth'(BeatWords) : ends ? '0 : count_q;
  assign shifted      = !give ? store_q : ends ? '0 : store_q >> (BeatWords * 16);
  assign job_ready_o  = left_q == '0 || ends;
  assign begins       = job_valid_i && job_ready_o;
  assign skip         = begins ? job_skip_i : skip_q;
  assign missing      = begins ? job_words_i : missing_q;
  assign gained       = CountWidth'(PortWords) - CountWidth'(skip);
  assign useful       = port_i >> {skip, 4'd0};
  assign port_ready_o = missing != '0 && 32'(count_after) + PortWords <= Room;
  assign get          = port_valid_i && port_ready_o;
  assign filled       = (Room * 16)'(useful) << {count_after, 4'd0};
  assign left_o       = left_q;
  assign missing_o    = missing_q + 32'(skip_q);

  always_comb begin
    beat_o = store_q[BeatWords*16-1:0];
    for (int unsigned i = 0; i < BeatWords; i++) begin
      if (i >= left_q) beat_o[i*16+:16] = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      store_q   <= '0;
      count_q   <= '0;
      left_q    <= '0;
      missing_q <= '0;
      skip_q    <= '0;
    end else begin
      store_q   <= get ? shifted | filled : shifted;
      count_q   <= count_after + (get ? gained : '0);
      skip_q    <= get ? '0 : skip;
      missing_q <= !get ? missing : missing > 32'(gained) ? missing - 32'(gained) : '0;
      if (begins) left_q <= job_words_i;
      else if (give) left_q <= ends ? '0 : left_q - BeatWords;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (32'(count_q) <= Room);
    if (rst_ni && left_q != '0) begin
      // Stored words and words to come are the words to give; and a transfer is always possible.
      if (missing_q != '0) assert (missing_q <= left_q && 32'(count_q) + missing_q == left_q);
      else assert (32'(count_q) >= left_q);
      assert (beat_valid_o || port_ready_o);
    end
    if (rst_ni && left_q == '0) assert (missing_q == '0 && count_q == '0 && store_q == '0 && !beat_valid_o);
    if (rst_ni && job_valid_i && job_ready_o) assert (job_words_i != '0);
    if (rst_ni && ends) assert (missing_q == '0);
    if (rst_ni && skip_q != '0) assert (missing_q == left_q && missing_q != '0 && count_q == '0);
  end
endmodule
