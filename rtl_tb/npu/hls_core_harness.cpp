// Compiled with the generated core into one library: a cycle of the core behind registers of two beats. All
// its state is static, so that a library is one core, and a core that was never called;
// rtl_tb/npu/hls_core.cpp loads a new one for each, and after each reset.
#include <cstdio>

#include "hls_core.h"
#include "words.h"

static const size_t Register = 2;  // beats
static const int WordBits = word_t::width, Packed = 32 / WordBits;

template <int Words>
static ap_uint<WordBits * Words> beat_of(const uint32_t* words) {
    ap_uint<WordBits * Words> beat = 0;
    for (int i = 0; i < Words; ++i) set_word(beat, i, word_t(words[i / Packed] >> WordBits * (i % Packed)));
    return beat;
}

extern "C" int core_cycle(hls_cycle_t* now) {
    static command_stream_t cmd("cmd");
    static input_stream_t input("input");
    static weight_stream_t weight("weight");
    static output_stream_t residual("residual"), output("output");
    static count_stream_t counts("saturations");
    static output_beat_t shown;
    static bool shows = false;
    output.csim_depth(Register - 1);  // the beat that shows is the other one
    try {
        if (now->taken & 1) cmd.write(beat_of<CoreCommandWireBits / WordBits>(now->data[0]));
        if (now->taken & 2) input.write(beat_of<InWords>(now->data[1]));
        if (now->taken & 4) weight.write(beat_of<TP * WeightSlots>(now->data[2]));
        if (now->taken & 8) residual.write(beat_of<OutWords>(now->data[3]));
        if (now->taken & 16) shows = false;
        fluidnpu_core(cmd, input, weight, residual, output, counts);
        if (!shows && output.size() != 0) {
            shown = output.read();
            shows = true;
        }
        now->saturations = 0;
        while (counts.size() != 0) now->saturations += counts.read().to_uint();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 0;
    }
    now->ready = (cmd.size() < Register) | (input.size() < Register) << 1 | (weight.size() < Register) << 2 | (residual.size() < Register) << 3;
    now->valid = shows;
    for (int i = 0; i < OutWords; ++i) {
        const uint32_t word = uint32_t(get_word(shown, i).to_int()) & ((1u << WordBits) - 1);
        const uint32_t before = i % Packed ? now->output[i / Packed] : 0;
        now->output[i / Packed] = before | word << WordBits * (i % Packed);
    }
    return 1;
}
