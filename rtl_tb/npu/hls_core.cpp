// The functions that `hls_core.sv` imports: a library of the generated C++ for each NPU, loaded anew after
// each reset, since that is how static state begins again. A file that is loaded already is not loaded again,
// nor is one of the same name: so each time it is a copy of another name.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "Vtop__Dpi.h"
#include "hls_core.h"

#ifndef HLS_CORE
#error "HLS_CORE must be the path of the core's library"
#endif

namespace {

class Core {
 public:
  Core() {
    std::ifstream file(HLS_CORE, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    load();
  }
  ~Core() { dlclose(library_); }

  void reset() {
    if (!used_) return;
    dlclose(library_);
    load();
  }

  int cycle(hls_cycle_t* now) {
    used_ = true;
    return cycle_(now);
  }

 private:
  void load() {
    static std::atomic<unsigned long> copies{0};
    const std::string path = HLS_CORE "." + std::to_string(getpid()) + "." + std::to_string(copies++);
    std::ofstream(path, std::ios::binary).write(bytes_.data(), std::streamsize(bytes_.size()));
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::remove(path.c_str());
    void* found = library_ ? dlsym(library_, "core_cycle") : nullptr;
    if (!found) {
      std::fprintf(stderr, "the library of the HLS core must load, and it does not: %s\n", dlerror());
      std::abort();
    }
    cycle_ = reinterpret_cast<int (*)(hls_cycle_t*)>(found);
    used_ = false;
  }

  std::string bytes_;
  void* library_ = nullptr;
  int (*cycle_)(hls_cycle_t*) = nullptr;
  bool used_ = false;
};

}  // namespace

extern "C" void* hls_core_open() { return new Core; }

extern "C" void hls_core_close(void* core) { delete static_cast<Core*>(core); }

extern "C" void hls_core_reset(void* core) { static_cast<Core*>(core)->reset(); }

extern "C" int hls_core_cycle(void* core, const svBitVecVal* taken, const svBitVecVal* cmd, const svBitVecVal* inputs,
                              const svBitVecVal* weights, const svBitVecVal* residuals, svBitVecVal* ready, svBit* valid,
                              svBitVecVal* outputs, unsigned* saturations) {
  hls_cycle_t now = {*taken, {cmd, inputs, weights, residuals}, 0, 0, outputs, 0};
  if (!static_cast<Core*>(core)->cycle(&now)) return 0;
  *ready = now.ready;
  *valid = svBit(now.valid);
  *saturations = now.saturations;
  return 1;
}
