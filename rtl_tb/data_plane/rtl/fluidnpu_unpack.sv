/// Converts port words to beats of BeatWords words, on the way from the bus to a stream of the core.
///
/// A job is `words` words that begin `skip` words into its first port word. Its last beat is filled up with
/// zeros, and the rest of its last port word is dropped. The next job begins, and takes its first port word,
/// while the last beat leaves. That a beat or a port word is the last one is found out a step ahead.
module fluidnpu_unpack #(
  parameter int unsigned PortWords = 8,
  parameter int unsigned BeatWords = 4,
  parameter int unsigned WordBits = 16,
  parameter int unsigned WordsWidth = 32,  // of the number of words of a job, with those that it skips
  localparam int unsigned SkipWidth = PortWords > 1 ? $clog2(PortWords) : 1
) (
  input  logic                          clk_i,         // clock
  input  logic                          rst_ni,        // reset, synchronous
  input  logic                          job_valid_i,   // a job is there
  output logic                          job_ready_o,   // and is taken
  input  logic [SkipWidth-1:0]          job_skip_i,    // words before its first
  input  logic [WordsWidth-1:0]         job_words_i,   // its words
  input  logic                          port_valid_i,  // a port word is there
  output logic                          port_ready_o,  // and is taken
  input  logic [PortWords*WordBits-1:0] port_i,        // that word
  output logic                          beat_valid_o,  // a beat is there
  input  logic                          beat_ready_i,  // and is taken
  output logic [BeatWords*WordBits-1:0] beat_o,        // that beat
  output logic [WordsWidth-1:0]         left_o,        // words of the job still to be given
  output logic [WordsWidth-1:0]         missing_o      // words still to come from the port, with those to be skipped
);
  localparam int unsigned Room = PortWords + BeatWords;
  localparam int unsigned CountWidth = $clog2(Room + 1);
  localparam int unsigned IndexBits = $clog2(WordBits);

  logic [Room*WordBits-1:0]    store_q, shifted, filled;
  (* max_fanout = 64 *) logic [CountWidth-1:0] count_q;  // here and below: for every word of the store
  logic [CountWidth-1:0] count_after, gained;
  logic [WordsWidth-1:0] left_q, missing_q, job_missing;
  (* max_fanout = 64 *) logic busy_q, last_beat_q;  // left_q is not 0; it is no more than a beat
  (* max_fanout = 64 *) logic more_q;               // missing_q is not 0
  logic                  last_port_q;           // nor more than a port word
  (* max_fanout = 64 *) logic [SkipWidth-1:0] skip_q;  // words to skip in the next port word
  logic [SkipWidth-1:0]  skip;
  logic                  enough, give, get, begins, ends, job_one_port;

  if (PortWords < 1 || BeatWords < 1) begin : gen_illegal
    $fatal(1, "PortWords and BeatWords must be at least 1 in %m");
  end
  if (WordsWidth <= CountWidth) begin : gen_illegal_width
    $fatal(1, "WordsWidth must hold more than a beat and a port word in %m");
  end

  assign enough       = busy_q && (32'(count_q) >= BeatWords || !more_q);  // a beat, or all that is left
  assign beat_valid_o = enough;
  assign give         = beat_valid_o && beat_ready_i;
  assign ends         = give && last_beat_q;
  assign job_ready_o  = !busy_q || ends;
  assign begins       = job_valid_i && job_ready_o;

  // Room for a port word behind what is left when the beat is given.
  assign port_ready_o = (begins || more_q) && (ends || (give ? 32'(count_q) <= 2 * BeatWords : 32'(count_q) <= BeatWords));
  assign get          = port_valid_i && port_ready_o;
  assign skip         = begins ? job_skip_i : skip_q;
  assign gained       = CountWidth'(PortWords) - CountWidth'(skip);
  assign count_after  = ends ? '0 : give ? count_q - CountWidth'(BeatWords) : count_q;
  assign shifted      = ends ? '0 : give ? store_q >> (BeatWords * WordBits) : store_q;
  // Words are skipped at the beginning of a job only, when nothing is stored.
  assign filled       = skip != '0 ? (Room * WordBits)'(port_i >> {skip, IndexBits'(0)}) : (Room * WordBits)'(port_i) << {count_after, IndexBits'(0)};
  assign left_o       = left_q;
  assign missing_o    = missing_q;

  assign job_missing  = job_words_i + WordsWidth'(job_skip_i);
  assign job_one_port = job_missing <= WordsWidth'(PortWords);

  always_comb begin
    beat_o = store_q[BeatWords*WordBits-1:0];
    for (int unsigned i = 0; i < BeatWords; i++) begin
      if (last_beat_q && i >= 32'(CountWidth'(left_q))) beat_o[i*WordBits+:WordBits] = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      store_q     <= '0;
      count_q     <= '0;
      left_q      <= '0;
      busy_q      <= 1'b0;
      last_beat_q <= 1'b0;
      missing_q   <= '0;
      more_q      <= 1'b0;
      last_port_q <= 1'b0;
      skip_q      <= '0;
    end else begin
      store_q <= get ? shifted | filled : shifted;
      count_q <= count_after + (get ? gained : '0);
      skip_q  <= get ? '0 : skip;
      if (begins) begin
        left_q      <= job_words_i;
        busy_q      <= 1'b1;
        last_beat_q <= job_words_i <= WordsWidth'(BeatWords);
        missing_q   <= !get ? job_missing : job_one_port ? '0 : job_words_i - WordsWidth'(gained);
        more_q      <= !get || !job_one_port;
        last_port_q <= get ? job_missing <= WordsWidth'(2 * PortWords) : job_one_port;
      end else begin
        if (give) begin
          left_q      <= ends ? '0 : left_q - WordsWidth'(BeatWords);
          busy_q      <= !ends;
          last_beat_q <= left_q <= WordsWidth'(2 * BeatWords);
        end
        if (get) begin
          missing_q   <= last_port_q ? '0 : missing_q - WordsWidth'(PortWords);
          more_q      <= !last_port_q;
          last_port_q <= missing_q <= WordsWidth'(2 * PortWords);
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (32'(count_q) <= Room);
    if (rst_ni) assert (busy_q == (left_q != '0) && more_q == (missing_q != '0));
    if (rst_ni && busy_q) assert (last_beat_q == (left_q <= WordsWidth'(BeatWords)));
    if (rst_ni && more_q) assert (last_port_q == (missing_q <= WordsWidth'(PortWords)));
    if (rst_ni && busy_q) begin
      // Stored words and words to come are the words to give; and a transfer is always possible.
      if (more_q) assert (missing_q - WordsWidth'(skip_q) <= left_q && WordsWidth'(count_q) + missing_q - WordsWidth'(skip_q) == left_q);
      else assert (WordsWidth'(count_q) >= left_q);
      assert (beat_valid_o || port_ready_o);
      assert (enough == (32'(count_q) >= BeatWords || WordsWidth'(count_q) >= left_q));
    end
    if (rst_ni && !busy_q) assert (!more_q && count_q == '0 && store_q == '0 && !beat_valid_o);
    if (rst_ni && begins) assert (job_words_i != '0);
    if (rst_ni && ends) assert (!more_q);
    if (rst_ni && skip_q != '0) assert (more_q && missing_q == left_q + WordsWidth'(skip_q) && count_q == '0);
  end
endmodule
