// Test bench of the core. `tb_core JOBS EXPECTED` runs every job and compares; `tb_core -` reads jobs from
// standard input to its end and writes results to standard output. All numbers are little endian; a result
// has the form of a file of expectations.
//   job:    int32 magic 0x0F1D0B00, commands, input, weight, residual, output beats; then the input streams
//   result: int32 magic, output beats, beats left over on the input streams, saturations; then the outputs.
//           With `-` an int64 follows each: calls of the core, which are cycles as long as no process stalls
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "words.h"

static const int32_t Magic = 0x0F1D0B00;
static const int Patience = 100000;  // calls in which no beat moves; without stalls, dozens at most

struct run_t {
    FILE* jobs;
    FILE* expected;  // compared with when it is there
    FILE* results;   // written to when it is there
};

static bool read_words(FILE* file, std::vector<int16_t>& words, size_t count) {
    words.resize(count);
    return count == 0 || fread(&words[0], sizeof(int16_t), count, file) == count;
}

template <int Words>
static bool read_beats(FILE* file, hls::stream<ap_uint<16 * Words> >& stream, int beats) {
    std::vector<int16_t> words;
    if (!read_words(file, words, size_t(beats) * Words)) return false;
    for (int b = 0; b < beats; ++b) {
        ap_uint<16 * Words> beat = 0;
        for (int i = 0; i < Words; ++i) set_word(beat, i, words[size_t(b) * Words + i]);
        stream.write(beat);
    }
    return true;
}

static void take(const output_beat_t& beat, std::vector<int16_t>& words) {
    for (int i = 0; i < OutWords; ++i) words.push_back(int16_t(get_word(beat, i).to_int()));
}

// Runs one job; 0 done, 1 a difference, 2 a damaged file, -1 no more jobs.
static int run_job(run_t& run) {
    static command_stream_t cmd("cmd");
    static input_stream_t input("input");
    static weight_stream_t weight("weight");
    static output_stream_t residual("residual");
    static output_stream_t output("output");
    static count_stream_t counts("saturations");
    int32_t head[6];
    if (fread(head, sizeof(int32_t), 6, run.jobs) != 6) return -1;
    if (head[0] != Magic || !read_beats<8>(run.jobs, cmd, head[1]) || !read_beats<InWords>(run.jobs, input, head[2]) ||
        !read_beats<TP * WeightSlots>(run.jobs, weight, head[3]) || !read_beats<OutWords>(run.jobs, residual, head[4])) {
        fprintf(stderr, "the file of jobs is damaged\n");
        return 2;
    }
#ifdef FLUIDNPU_CSIM
    const char* stalls = getenv("FLUIDNPU_CSIM_STALLS");
    hls::csim_stalls() = stalls ? atoi(stalls) : 0;
#endif
    std::vector<int16_t> words;
    int64_t saturations = 0, calls = 0;
    int commands = 0, idle = 0;
    for (size_t left = 0; commands < head[1] && idle < Patience; ++calls) {
        fluidnpu_core(cmd, input, weight, residual, output, counts);
        const size_t now = cmd.size() + input.size() + weight.size() + residual.size();
        idle = now == left && output.size() == 0 ? idle + 1 : 0;
        left = now;
        while (output.size() != 0) take(output.read(), words);
        for (; counts.size() != 0; ++commands) saturations += int64_t(counts.read().to_uint());
    }
#ifdef FLUIDNPU_CSIM
    hls::csim_stalls() = 0;
#endif
    if (commands < head[1]) {
        fprintf(stderr, "%d of %d commands were done, and no more came out; empty:%s%s%s\n", commands, head[1],
                input.empty() ? " input" : "", weight.empty() ? " weight" : "", residual.empty() ? " residual" : "");
        exit(3);
    }
    int32_t left = 0;
    for (; !input.empty(); ++left) input.read();
    for (; !weight.empty(); ++left) weight.read();
    for (; !residual.empty(); ++left) residual.read();
    const int32_t result[4] = {Magic, int32_t(words.size() / OutWords), left, int32_t(saturations)};
    if (run.results) {
        fwrite(result, sizeof(int32_t), 4, run.results);
        if (!words.empty()) fwrite(&words[0], sizeof(int16_t), words.size(), run.results);
        const int64_t took = calls;
        fwrite(&took, sizeof(took), 1, run.results);
        fflush(run.results);
        return 0;
    }
    int32_t want[4];
    std::vector<int16_t> wanted;
    if (fread(want, sizeof(int32_t), 4, run.expected) != 4 ||
        !read_words(run.expected, wanted, size_t(want[1]) * OutWords)) {
        fprintf(stderr, "the file of expectations is damaged\n");
        return 2;
    }
    return memcmp(want, result, sizeof(want)) == 0 && wanted == words ? 0 : 1;
}

static int run_all(run_t& run) {
    int jobs = 0, status = 0;
    for (int outcome = run_job(run); outcome >= 0; outcome = run_job(run), ++jobs) {
        if (outcome != 0) printf("job %d differs\n", jobs);
        if (outcome > status) status = outcome;
        if (outcome == 2) break;
    }
    if (!run.results) printf("%d jobs, %s\n", jobs, status ? "NOT as expected" : "all as expected");
    return status;
}

int main(int argc, char** argv) {
    run_t run = {0, 0, 0};
    if (argc == 2 && strcmp(argv[1], "-") == 0) {
        run.jobs = stdin;
        run.results = stdout;
    } else if (argc == 3) {
        run.jobs = fopen(argv[1], "rb");
        run.expected = fopen(argv[2], "rb");
    }
    if (!run.jobs || !(run.expected || run.results)) {
        fprintf(stderr, "usage: tb_core JOBS EXPECTED | tb_core -\n");
        return 2;
    }
    return run_all(run);
}
