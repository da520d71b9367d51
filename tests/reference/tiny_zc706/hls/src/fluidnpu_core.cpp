// Top of the core: commands are handed to the PE array and to post-processing, which work on different accumulators at the same time.
#include "fluidnpu_core.h"

#include "pe_array.h"
#include "post.h"

// Hands each command on, and the one after it to the weight loader as soon as it is here, so that weights load one tile ahead
// across commands too. Pools have no weights: were the loader told of them, its queue could fill while nobody empties it.
static void distribute(command_stream_t& cmd, command_fifo_t& to_loader, command_fifo_t& to_array, command_fifo_t& to_post) {
    static command_t held;
    static bool is_held = false;
    command_t now = held;
    if (!is_held) {
        now = decode(cmd.read());
        if (is_gemm(now)) to_loader.write(now);
    }
    to_array.write(now);
    to_post.write(now);
    is_held = !cmd.empty();
    if (is_held) {
        held = decode(cmd.read());
        if (is_gemm(held)) to_loader.write(held);
    }
}

void fluidnpu_core(command_stream_t& cmd, input_stream_t& input, weight_stream_t& weight, output_stream_t& residual,
                   output_stream_t& output, ap_uint<32>* saturations) {
#pragma HLS INTERFACE axis port=cmd
#pragma HLS INTERFACE axis port=input
#pragma HLS INTERFACE axis port=weight
#pragma HLS INTERFACE axis port=residual
#pragma HLS INTERFACE axis port=output
#pragma HLS INTERFACE ap_vld port=saturations
#pragma HLS INTERFACE ap_ctrl_none port=return
#pragma HLS DATAFLOW
    static command_fifo_t to_loader("to_loader");
#pragma HLS STREAM variable=to_loader depth=4
#pragma HLS DATA_PACK variable=to_loader
    static command_fifo_t to_array("to_array");
#pragma HLS STREAM variable=to_array depth=2
#pragma HLS DATA_PACK variable=to_array
    static command_fifo_t to_post("to_post");
#pragma HLS STREAM variable=to_post depth=4
#pragma HLS DATA_PACK variable=to_post

    // Written by the array, read by post-processing: channels of the dataflow region, hence each of them twice, in turn.
    acc_t acc[Banks][Halves][BankDepth];
#pragma HLS ARRAY_PARTITION variable=acc complete dim=1
#pragma HLS RESOURCE variable=acc core=RAM_2P_BRAM

    distribute(cmd, to_loader, to_array, to_post);
    run_array(to_array, to_loader, input, weight, acc);
    post_process(to_post, acc, residual, output, saturations);
}
