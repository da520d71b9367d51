// Drives one core with whole streams: the C side of rtl_tb/core/model.py. Built into one shared library with
// the verilated model.
//
// Every stream stalls at random: a beat that is offered stays until it is taken, `stall` of 65536 cycles an
// idle stream stays idle.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

struct Stream {
  const uint8_t* data;
  uint64_t beats;
  uint32_t bytes;
  uint32_t stall;
  uint64_t taken;
  uint64_t* cycles;  // of every handshake, or null
};

struct Report {
  uint64_t cycles;
  uint64_t received;
  uint32_t saturations;
  uint32_t code;
};

enum Code : uint32_t { Done = 0, Timeout = 1, Unstable = 2, Surplus = 3, Assertion = 4 };

constexpr int Settle = 64;  // cycles after the last beat in which nothing may come

uint64_t next(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

bool idle(uint64_t& state, uint32_t stall) { return stall != 0 && (next(state) >> 20 & 0xFFFF) < stall; }

template <typename Valid, typename Port>
void offer(Stream& s, uint64_t& state, bool& held, Valid& valid, Port& port) {
  if (!held) held = s.taken < s.beats && !idle(state, s.stall);
  valid = held;
  if (held) std::memcpy(&port, s.data + s.taken * s.bytes, s.bytes);
  else if (s.stall) std::memset(&port, static_cast<int>(next(state) & 0xFF), s.bytes);  // rubbish while idle
}

template <typename Ready>
void account(Stream& s, bool& held, const Ready& ready, uint64_t cycle) {
  if (!held || !ready) return;
  if (s.cycles) s.cycles[s.taken] = cycle;
  s.taken++;
  held = false;
}

}  // namespace

// in: cmd, input, weight, residual. out: `beats` is its capacity and what is expected. Cycle 0 is the first
// in which every part of the core has left reset.
extern "C" __attribute__((visibility("default"))) void core_run(Stream in[4], Stream* out, uint8_t* sink, uint64_t seed, uint64_t limit, Report* report) {
  auto context = std::make_unique<VerilatedContext>();
  context->fatalOnError(false);
  context->randReset(2);
  context->randSeed(static_cast<int>(seed % 0x7FFFFFFF) + 1);
  auto top = std::make_unique<Vtop>(context.get(), "core");
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 0x1234567ull;
  if (state == 0) state = 1;
  bool held[4] = {};
  std::vector<uint8_t> shown(out->bytes);
  bool waiting = false;

  top->clk_i = 0;
  top->clear_i = 0;
  top->cmd_valid_i = top->input_valid_i = top->weight_valid_i = top->residual_valid_i = top->output_ready_i = 0;
  for (int i = 0; i < 12; i++) {
    top->rst_ni = i >= 8;  // two cycles more: it goes through two registers (common_reset)
    top->clk_i = i & 1;
    top->eval();
  }

  int settle = Settle;
  uint64_t cycle = 0;
  report->code = Timeout;
  for (; cycle < limit; cycle++) {
    top->clk_i = 0;
    offer(in[0], state, held[0], top->cmd_valid_i, top->cmd_i);
    offer(in[1], state, held[1], top->input_valid_i, top->input_i);
    offer(in[2], state, held[2], top->weight_valid_i, top->weight_i);
    offer(in[3], state, held[3], top->residual_valid_i, top->residual_i);
    top->output_ready_i = !idle(state, out->stall);
    top->eval();
    account(in[0], held[0], top->cmd_ready_o, cycle);
    account(in[1], held[1], top->input_ready_o, cycle);
    account(in[2], held[2], top->weight_ready_o, cycle);
    account(in[3], held[3], top->residual_ready_o, cycle);
    if (waiting && (!top->output_valid_o || std::memcmp(shown.data(), &top->output_o, out->bytes) != 0)) {
      report->code = Unstable;
      break;
    }
    waiting = top->output_valid_o && !top->output_ready_i;
    if (waiting) std::memcpy(shown.data(), &top->output_o, out->bytes);
    if (top->output_valid_o && top->output_ready_i) {
      if (out->taken == out->beats) {
        report->code = Surplus;
        break;
      }
      std::memcpy(sink + out->taken * out->bytes, &top->output_o, out->bytes);
      if (out->cycles) out->cycles[out->taken] = cycle;
      out->taken++;
    }
    top->clk_i = 1;
    top->eval();
    if (context->gotError()) {
      report->code = Assertion;
      break;
    }
    if (out->taken == out->beats && --settle == 0) {
      report->code = Done;
      break;
    }
  }
  report->cycles = cycle;
  report->received = out->taken;
  report->saturations = top->saturations_o;
  top->final();
}
