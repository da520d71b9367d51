// What a cycle of the HLS core takes and gives, between the verilated NPU and the library that holds the
// core.
#ifndef FLUIDNPU_HLS_CORE_H
#define FLUIDNPU_HLS_CORE_H

#include <cstdint>

struct hls_cycle_t {
  uint32_t taken;  // bit 0 cmd, 1 input, 2 weight, 3 residual: a beat comes; bit 4: the output beat that shows goes
  const uint32_t* data[4];
  uint32_t ready;  // for the next cycle, in the same order
  uint32_t valid;
  uint32_t* output;
  uint32_t saturations;  // of commands done in this cycle
};

#endif
