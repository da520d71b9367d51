// Top of the core: three processes that run for ever, one call of each a cycle, with streams between them.
// No process waits for an empty stream. A full stream stalls its writer, but never the array, whose credits
// count the room in `lines`.
#include "fluidnpu_core.h"

#include "array.h"
#include "post.h"

// Hands each command on, to the weight loader at once: weights load one tile ahead across commands too.
// The loader gets no pools: they have no weights, and would fill its queue while it waits for its tile to be
// taken.
static void distribute(command_stream_t& cmd, command_fifo_t& to_loader, command_fifo_t& to_array,
                       command_fifo_t& to_post) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
    if (!cmd.empty()) {
        const command_t c = decode(cmd.read());
        if (c.gemm) to_loader.write(c);
        to_array.write(c);
        to_post.write(c);
    }
}

void fluidnpu_core(command_stream_t& cmd, input_stream_t& input, weight_stream_t& weight, output_stream_t& residual,
                   output_stream_t& output, count_stream_t& saturations) {
#pragma HLS INTERFACE mode=axis port=cmd
#pragma HLS INTERFACE mode=axis port=input
#pragma HLS INTERFACE mode=axis port=weight
#pragma HLS INTERFACE mode=axis port=residual
#pragma HLS INTERFACE mode=axis port=output
#pragma HLS INTERFACE mode=axis port=saturations
#pragma HLS INTERFACE mode=ap_ctrl_none port=return
#pragma HLS DATAFLOW disable_start_propagation
    static command_fifo_t to_loader("to_loader");
#pragma HLS STREAM variable=to_loader depth=4
#pragma HLS AGGREGATE variable=to_loader compact=bit
#pragma HLS BIND_STORAGE variable=to_loader type=fifo impl=srl
    static command_fifo_t to_array("to_array");
#pragma HLS STREAM variable=to_array depth=2
#pragma HLS AGGREGATE variable=to_array compact=bit
#pragma HLS BIND_STORAGE variable=to_array type=fifo impl=srl
    static command_fifo_t to_post("to_post");
#pragma HLS STREAM variable=to_post depth=4
#pragma HLS AGGREGATE variable=to_post compact=bit
#pragma HLS BIND_STORAGE variable=to_post type=fifo impl=srl
    static line_fifo_t lines("lines");
#pragma HLS STREAM variable=lines depth=32
#pragma HLS AGGREGATE variable=lines compact=bit
#pragma HLS BIND_STORAGE variable=lines type=fifo impl=srl
    static credit_fifo_t credits("credits");
#pragma HLS STREAM variable=credits depth=32
#pragma HLS BIND_STORAGE variable=credits type=fifo impl=srl
#ifdef FLUIDNPU_CSIM  // a process that stalls in hardware is not called in simulation
    to_loader.csim_depth(4);
    to_array.csim_depth(2);
    to_post.csim_depth(4);
    lines.csim_depth(32);
    credits.csim_depth(32);
    if (!to_loader.full() && !to_array.full() && !to_post.full()) distribute(cmd, to_loader, to_array, to_post);
    run_array(to_array, to_loader, input, weight, lines, credits);
    if (!output.full()) post_process(to_post, lines, credits, residual, output, saturations);
#else
    distribute(cmd, to_loader, to_array, to_post);
    run_array(to_array, to_loader, input, weight, lines, credits);
    post_process(to_post, lines, credits, residual, output, saturations);
#endif
}
