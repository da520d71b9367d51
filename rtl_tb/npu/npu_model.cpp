// The whole NPU behind a DRAM model: the C side of rtl_tb/npu/model.py. Built into one shared library with
// the verilated model.
//
// Owns the clock. A read burst sees memory as it is when its address is accepted, a write reaches memory only
// when its answer is given: the strictest memory that AXI allows, so an NPU that reads too early reads old
// data. Every rule of AXI that a master can break ends the run with a code. With stripes each master has
// several narrow ports, and port p of every master shares link p.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "verilated.h"

#ifndef PORT_BYTES
#error "PORT_BYTES must be the width of a memory port"
#endif
#ifndef STRIPES
#error "STRIPES must be the number of ports that a master is striped over"
#endif
#if !defined(MODE_AT) || !defined(ROW_LANES_AT) || !defined(ADDS_AT) || !defined(MULTIPLIES_AT)
#error "MODE_AT, ROW_LANES_AT, ADDS_AT, MULTIPLIES_AT must be places of fields in layer_t"
#endif

namespace {

constexpr int Stripes = STRIPES;
constexpr int Masters = 3;
constexpr int Links = std::max(Masters, Stripes);
constexpr uint64_t PortBytes = PORT_BYTES / STRIPES;  // of one port
constexpr int StrobeBits = PortBytes < 8 ? PortBytes : 8;  // of a byte of strobes
constexpr int AddressBits = 40;
constexpr uint64_t Page = 4096;
constexpr uint32_t Fraction = 1024;  // rates are in bytes of 1 / Fraction
constexpr int LitePatience = 1000;   // cycles that a register access may take
constexpr uint8_t DecodeError = 3;
constexpr uint64_t Border = 1ull << 32;  // of 4 GiB
constexpr uint32_t NoLayer = 0xFFFFFFFF;

enum Code : uint32_t {
  Fine = 0, CrossesPage = 1, Misaligned = 2, NotIncr = 3, WrongSize = 4, TooLong = 5, AddressMoved = 6, DataMoved = 7,
  LastMisplaced = 8, DataWithoutAddress = 9, LiteSilent = 10, Assertion = 11, IdleTooSoon = 12,
};

// What coverage samples, by kind; npu/coverage.py names the rest of a key.
enum Sample : uint64_t {
  LayerBegins = 1, Moment = 2, SlotRuns = 3, QueueFull = 4, BurstAsked = 5, ErrorAnswered = 6, PiecesAwaited = 7,
};

struct Settings {
  uint64_t base, size;
  uint64_t seed;
  uint32_t latency, write_latency;  // cycles from a handshake to the first answer, at least 1
  uint32_t link_rate, total_rate;   // bytes * Fraction a cycle; 0: as wide as the ports
  uint32_t refresh_interval, refresh_cycles;
  uint32_t outstanding;  // bursts that one master may have in one direction
  uint32_t max_burst;
  uint32_t link[Masters];  // which physical port a master's bursts take, without stripes
};

struct Event {  // counters when the layer that runs changed
  uint64_t cycle;
  uint64_t read_beats[Masters], read_bursts[Masters], write_beats, write_bursts;
  uint64_t input_taken, input_blocked, input_starved, weight_taken, residual_taken, output_taken;
  uint32_t layer;
  uint32_t reserved;
};

struct Count {
  uint64_t key, hits;
};

struct Burst {
  uint64_t due;
  uint8_t response;  // of every beat, unless the address is bad
  uint32_t beats, sent;
  uint64_t address;
  std::vector<uint8_t> data, strobes;
};

// `width` bits of a signal of any size, from bit `at`; a field of more than 8 bits begins at a byte.
template <typename T>
uint64_t bits(const T& signal, int at, int width) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&signal);
  uint64_t value = 0;
  for (int i = (at + width - 1) / 8; i >= at / 8; i--) value = value << 8 | bytes[i];
  return (value >> at % 8) & ((1ull << width) - 1);
}

// The same way in, for fields inside a byte.
template <typename T>
void put(T& signal, int at, int width, uint64_t value) {
  auto& byte = reinterpret_cast<uint8_t*>(&signal)[at / 8];
  byte = static_cast<uint8_t>((byte & ~(((1u << width) - 1) << at % 8)) | value << at % 8);
}

// A leaky bucket. A cycle leaves up to a beat of its rate behind, which moves nothing alone: the bucket keeps that beside
// the next cycle's rate, and two beats at least.
struct Budget {
  int64_t credit = 0;
  uint32_t rate = 0;
  void tick() {
    constexpr int64_t Beat = PortBytes * Fraction;
    if (rate != 0) credit = std::min<int64_t>(credit + rate, Beat + std::max<int64_t>(Beat, rate));
  }
  bool allows() const { return rate == 0 || credit >= static_cast<int64_t>(PortBytes * Fraction); }
  void spend() {
    if (rate != 0) credit -= PortBytes * Fraction;
  }
};

struct Reader {
  std::deque<Burst> queue;
  bool offering = false, waited = false;
  uint64_t waited_address = 0;
  uint32_t waited_length = 0;
};

struct Writer {
  std::deque<Burst> open, answered;  // open: the address is taken, data are coming
  bool offering = false, aw_waited = false, w_waited = false, w_last = false;
  uint64_t aw_address = 0;
  uint32_t aw_length = 0;
  uint8_t w_data[PortBytes], w_strobe[(PortBytes + 7) / 8];
};

class Npu {
 public:
  Npu(uint8_t* memory, const Settings& settings) : memory_(memory), set_(settings) {
    context_->fatalOnError(false);
    context_->randReset(2);
    context_->randSeed(static_cast<int>(settings.seed % 0x7FFFFFFF) + 1);
    top_ = std::make_unique<Vtop>(context_.get(), "npu");
    for (int i = 0; i < Links; i++) read_budget_[i].rate = write_budget_[i].rate = settings.link_rate;
    total_.rate = settings.total_rate;
    top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_arvalid = 0;
    top_->s_axil_bready = top_->s_axil_rready = 1;
    top_->rst_ni = 0;
    for (int i = 0; i < 16; i++) {
      top_->clk_i = i & 1;
      top_->eval();
    }
    top_->rst_ni = 1;
  }
  ~Npu() {
    Verilated::threadContextp(context_.get());  // where the model takes itself off the list; it may be another's, or gone
    top_->final();
    top_.reset();
  }

  // One register access; the response of the slave, or -1 when it does not answer.
  int write(uint32_t offset, uint32_t value) {
    bool address = false, data = false;
    top_->s_axil_awaddr = offset;
    top_->s_axil_wdata = value;
    top_->s_axil_wstrb = 0xF;
    for (int i = 0; i < LitePatience && code == Fine; i++) {
      top_->s_axil_awvalid = !address;
      top_->s_axil_wvalid = !data;
      settle();
      address |= top_->s_axil_awvalid && top_->s_axil_awready;
      data |= top_->s_axil_wvalid && top_->s_axil_wready;
      bool answered = top_->s_axil_bvalid;
      int response = top_->s_axil_bresp;
      rise();
      top_->s_axil_awvalid = top_->s_axil_wvalid = 0;
      if (answered) return response;
    }
    if (code == Fine) code = LiteSilent;
    return -1;
  }

  int read(uint32_t offset, uint32_t* value) {
    bool address = false;
    top_->s_axil_araddr = offset;
    for (int i = 0; i < LitePatience && code == Fine; i++) {
      top_->s_axil_arvalid = !address;
      settle();
      address |= top_->s_axil_arvalid && top_->s_axil_arready;
      bool answered = top_->s_axil_rvalid;
      int response = top_->s_axil_rresp;
      *value = top_->s_axil_rdata;
      rise();
      top_->s_axil_arvalid = 0;
      if (answered) return response;
    }
    if (code == Fine) code = LiteSilent;
    return -1;
  }

  // Until the interrupt (bit 0 of `until`) or idleness (bit 1), `cycles` at most; which of them came.
  uint32_t run(uint64_t cycles, uint32_t until) {
    for (uint64_t i = 0;; i++) {
      uint32_t now = (top_->irq_o ? 1u : 0u) | (idle() ? 2u : 0u);
      if ((now & until) != 0 || i == cycles || code != Fine) return now;
      settle();
      rise();
    }
  }

  bool idle() const { return top_->rootp->fluidnpu_npu__DOT__data_plane__DOT__idle; }

  uint32_t code = Fine;
  bool silent = false;           // a bus that stops answering
  uint64_t bad_from = 0, bad_to = 0;  // addresses that answer with an error: of reads just the beats that hold them
  uint8_t bad_response = 2;
  Event now{};
  std::vector<Event> events;
  uint64_t began = 0, ended = 0;  // cycles of the last START, and of the first error since
  // Hits since the last call.
  std::map<uint64_t, uint64_t> take_samples() {
    for (uint64_t i = 0; i < std::size(full_); i++) {
      if (full_[i] != 0) samples_[static_cast<uint64_t>(QueueFull) << 48 | i] = std::exchange(full_[i], 0);
    }
    return std::exchange(samples_, {});
  }

  // Of the sequencer, and above it how far the layer is that begins next.
  uint32_t state() const {
    const auto& r = *top_->rootp;
    return r.fluidnpu_npu__DOT__data_plane__DOT__sequencer__DOT__state_q |
           r.fluidnpu_npu__DOT__data_plane__DOT__sequencer__DOT__ahead_q << 3;
  }

 private:
  // The first half of a cycle: inputs from what the model knows, then the combinational outputs.
  void settle() {
    auto& t = *top_;
    t.clk_i = 0;
    bool refreshing = silent || (set_.refresh_interval != 0 && now.cycle % set_.refresh_interval < set_.refresh_cycles);
    for (auto& budget : read_budget_) budget.tick();
    for (auto& budget : write_budget_) budget.tick();
    total_.tick();
    t.m2_axi_wready = 0;
    for (int i = 0, first = first_; i < 4 * Stripes; i++) {  // the port after the last one served goes first
      int who = (i + first) % (4 * Stripes);
      bool granted = who < Masters * Stripes ? grant_read(who / Stripes, who % Stripes, refreshing) : grant_write(who % Stripes, refreshing);
      if (granted) first_ = who + 1;
    }
    for (int p = 0; p < Stripes; p++) {
      drive_reader(0, p, t.m0_axi_arready, t.m0_axi_rvalid, t.m0_axi_rlast, t.m0_axi_rresp, t.m0_axi_rdata);
      drive_reader(1, p, t.m1_axi_arready, t.m1_axi_rvalid, t.m1_axi_rlast, t.m1_axi_rresp, t.m1_axi_rdata);
      drive_reader(2, p, t.m2_axi_arready, t.m2_axi_rvalid, t.m2_axi_rlast, t.m2_axi_rresp, t.m2_axi_rdata);
      Writer& w = writer_[p];
      put(t.m2_axi_awready, p, 1, w.open.size() + w.answered.size() < set_.outstanding);
      if (!w.offering && !w.answered.empty() && w.answered.front().due <= now.cycle && !silent) {
        w.offering = true;
        store(w.answered.front());
      }
      put(t.m2_axi_bvalid, p, 1, w.offering);
      put(t.m2_axi_bresp, 2 * p, 2, w.offering ? w.answered.front().response : 0);
    }
    t.eval();
  }

  // The second half: what was handed over counts, then the rising edge.
  void rise() {
    auto& t = *top_;
    look();
    for (int p = 0; p < Stripes; p++) {
      take_reader(0, p, t.m0_axi_arvalid, t.m0_axi_arready, t.m0_axi_araddr, t.m0_axi_arlen, t.m0_axi_arsize, t.m0_axi_arburst, t.m0_axi_rready);
      take_reader(1, p, t.m1_axi_arvalid, t.m1_axi_arready, t.m1_axi_araddr, t.m1_axi_arlen, t.m1_axi_arsize, t.m1_axi_arburst, t.m1_axi_rready);
      take_reader(2, p, t.m2_axi_arvalid, t.m2_axi_arready, t.m2_axi_araddr, t.m2_axi_arlen, t.m2_axi_arsize, t.m2_axi_arburst, t.m2_axi_rready);
      take_writer(p);
    }
    count();
    t.clk_i = 1;
    t.eval();
    now.cycle++;
    watch();
    if (context_->gotError()) fail(Assertion);
  }

  void fail(Code why) {
    if (code == Fine) code = why;
  }

  int link_of(int master, int port) const { return Stripes == 1 ? static_cast<int>(set_.link[master]) : port; }

  // An offered beat stays offered; a new one needs time and bandwidth.
  bool grant_read(int i, int p, bool refreshing) {
    Reader& r = reader_[i][p];
    Budget& link = read_budget_[link_of(i, p)];
    if (r.offering || refreshing || r.queue.empty() || r.queue.front().due > now.cycle || !link.allows() || !total_.allows()) return false;
    link.spend();
    total_.spend();
    return r.offering = true;
  }

  bool grant_write(int p, bool refreshing) {
    Budget& link = write_budget_[link_of(2, p)];
    if (!bits(top_->m2_axi_wvalid, p, 1) || writer_[p].open.empty() || refreshing || !link.allows() || !total_.allows()) return false;
    link.spend();
    total_.spend();
    put(top_->m2_axi_wready, p, 1, 1);
    return true;
  }

  template <typename Bit, typename Two, typename Data>
  void drive_reader(int i, int p, Bit& arready, Bit& rvalid, Bit& rlast, Two& rresp, Data& rdata) {
    Reader& r = reader_[i][p];
    put(arready, p, 1, r.queue.size() < set_.outstanding);
    put(rvalid, p, 1, r.offering);
    if (!r.offering) return;
    Burst& burst = r.queue.front();
    put(rlast, p, 1, burst.sent + 1 == burst.beats);
    put(rresp, 2 * p, 2, response_of(burst));
    std::memcpy(reinterpret_cast<uint8_t*>(&rdata) + p * PortBytes, burst.data.data() + burst.sent * PortBytes, PortBytes);
  }

  bool there(uint64_t address, uint64_t bytes) const {
    return address >= set_.base && address - set_.base + bytes <= set_.size;
  }

  bool bad(uint64_t address, uint64_t bytes) const { return address < bad_to && address + bytes > bad_from; }

  // Of the beat that is sent next.
  uint8_t response_of(const Burst& burst) const {
    return bad(burst.address + burst.sent * PortBytes, PortBytes) ? bad_response : burst.response;
  }

  void check(uint64_t address, uint32_t beats, uint32_t size, uint32_t type) {
    if (type != 1) fail(NotIncr);
    if (1ull << size != PortBytes) fail(WrongSize);
    if (address % PortBytes != 0) fail(Misaligned);
    if (beats > set_.max_burst) fail(TooLong);
    if (address / Page != (address + beats * PortBytes - 1) / Page) fail(CrossesPage);
  }

  template <typename Bit, typename Address, typename Length, typename Size, typename Type>
  void take_reader(int i, int p, const Bit& arvalids, const Bit& arreadies, const Address& addresses, const Length& lengths,
                   const Size& sizes, const Type& types, const Bit& rreadies) {
    Reader& r = reader_[i][p];
    bool arvalid = bits(arvalids, p, 1), arready = bits(arreadies, p, 1), rready = bits(rreadies, p, 1);
    uint64_t address = bits(addresses, p * AddressBits, AddressBits);
    uint32_t length = static_cast<uint32_t>(bits(lengths, 8 * p, 8));
    if (r.waited && (!arvalid || address != r.waited_address || length != r.waited_length)) fail(AddressMoved);
    r.waited = arvalid && !arready;
    r.waited_address = address;
    r.waited_length = length;
    if (r.offering && rready) {
      now.read_beats[i]++;
      r.offering = false;
      if (uint8_t response = response_of(r.queue.front())) {
        uint64_t place = (r.queue.front().sent == 0 ? 1 : 0) | (r.queue.front().sent + 1 == r.queue.front().beats ? 2 : 0);
        sample(ErrorAnswered, place << 8 | response << 4 | static_cast<uint64_t>(i));
      }
      if (++r.queue.front().sent == r.queue.front().beats) r.queue.pop_front();
    }
    if (!arvalid || !arready) return;
    uint32_t beats = length + 1;
    check(address, beats, static_cast<uint32_t>(bits(sizes, 3 * p, 3)), static_cast<uint32_t>(bits(types, 2 * p, 2)));
    now.read_bursts[i]++;
    sample(BurstAsked, (address >= Border ? 4 : 0) | static_cast<uint64_t>(i));
    Burst burst{now.cycle + set_.latency, 0, beats, 0, address, std::vector<uint8_t>(beats * PortBytes), {}};
    if (there(address, beats * PortBytes)) {
      std::memcpy(burst.data.data(), memory_ + (address - set_.base), beats * PortBytes);
    } else {
      burst.response = DecodeError;
    }
    r.queue.push_back(std::move(burst));
  }

  void take_writer(int p) {
    auto& t = *top_;
    Writer& w = writer_[p];
    const uint8_t* data = reinterpret_cast<const uint8_t*>(&t.m2_axi_wdata) + p * PortBytes;
    uint8_t strobe[sizeof w.w_strobe];
    for (size_t i = 0; i < sizeof strobe; i++) {
      strobe[i] = static_cast<uint8_t>(bits(t.m2_axi_wstrb, static_cast<int>(p * PortBytes + 8 * i), StrobeBits));
    }
    bool awvalid = bits(t.m2_axi_awvalid, p, 1), awready = bits(t.m2_axi_awready, p, 1), wvalid = bits(t.m2_axi_wvalid, p, 1);
    bool wready = bits(t.m2_axi_wready, p, 1), wlast = bits(t.m2_axi_wlast, p, 1);
    uint64_t address = bits(t.m2_axi_awaddr, p * AddressBits, AddressBits);
    uint32_t length = static_cast<uint32_t>(bits(t.m2_axi_awlen, 8 * p, 8));
    if (w.aw_waited && (!awvalid || address != w.aw_address || length != w.aw_length)) fail(AddressMoved);
    if (w.w_waited && (!wvalid || wlast != w.w_last || std::memcmp(w.w_data, data, PortBytes) != 0 ||
                       std::memcmp(w.w_strobe, strobe, sizeof strobe) != 0)) fail(DataMoved);
    w.aw_waited = awvalid && !awready;
    w.aw_address = address;
    w.aw_length = length;
    w.w_waited = wvalid && !wready;
    w.w_last = wlast;
    std::memcpy(w.w_data, data, PortBytes);
    std::memcpy(w.w_strobe, strobe, sizeof strobe);
    if (w.offering && bits(t.m2_axi_bready, p, 1)) {
      w.offering = false;
      if (uint8_t response = w.answered.front().response) sample(ErrorAnswered, 3 << 8 | response << 4 | 3);
      w.answered.pop_front();
    }
    if (wvalid && wready) take_data(w, strobe);
    if (awvalid && awready) {
      uint32_t beats = length + 1;
      check(address, beats, static_cast<uint32_t>(bits(t.m2_axi_awsize, 3 * p, 3)), static_cast<uint32_t>(bits(t.m2_axi_awburst, 2 * p, 2)));
      now.write_bursts++;
      sample(BurstAsked, (address >= Border ? 4 : 0) | 3);
      w.open.push_back(Burst{0, 0, beats, 0, address, {}, {}});
    }
  }

  void take_data(Writer& w, const uint8_t* strobe) {
    if (w.open.empty()) return fail(DataWithoutAddress);
    Burst& burst = w.open.front();
    now.write_beats++;
    burst.data.insert(burst.data.end(), w.w_data, w.w_data + PortBytes);
    for (uint64_t i = 0; i < PortBytes; i++) burst.strobes.push_back(strobe[i / 8] >> (i % 8) & 1);
    bool last = ++burst.sent == burst.beats;
    if (last != w.w_last) fail(LastMisplaced);
    if (!last) return;
    burst.due = now.cycle + set_.write_latency;
    w.answered.push_back(std::move(burst));
    w.open.pop_front();
  }

  void store(Burst& burst) {
    if (!there(burst.address, burst.data.size())) {
      burst.response = DecodeError;
      return;
    }
    if (bad(burst.address, burst.data.size())) {
      burst.response = bad_response;
      return;
    }
    for (uint64_t i = 0; i < burst.data.size(); i++) {
      if (burst.strobes[i]) memory_[burst.address - set_.base + i] = burst.data[i];
    }
  }

  void watch() {
    const auto& r = *top_->rootp;
    uint32_t progress = r.fluidnpu_npu__DOT__data_plane__DOT__progress;
    uint32_t layer = progress >> BUSY_AT & 1 ? progress >> LAYER_AT & 0xFFFF : NoLayer;
    if (layer == layer_) return;
    layer_ = now.layer = layer;
    events.push_back(now);
  }

  void sample(Sample kind, uint64_t what) { samples_[static_cast<uint64_t>(kind) << 48 | what]++; }

#define PLANE(name) r.fluidnpu_npu__DOT__data_plane__DOT__##name
#define BIT(name, at) static_cast<uint32_t>(PLANE(name) >> (at) & 1)
  // What happens in this cycle inside the NPU.
  void look() {
    const auto& r = *top_->rootp;
    if (idle() && owes()) fail(IdleTooSoon);
    uint64_t events = PLANE(m0_error) | PLANE(m1_error) << 1 | PLANE(m2_read_error) << 2 | PLANE(m2_write_error) << 3 |
                      PLANE(watchdog) << 4 | BIT(control, SOFT_RESET_AT) << 5 | PLANE(stuck) << 6 | PLANE(sequencer__DOT__plan_refused) << 7 |
                      BIT(progress, START_REFUSED_AT) << 8 | BIT(refused, FAULT_AT) << 9 | BIT(progress, DONE_AT) << 10 | PLANE(written) << 11;
    if ((events & 0xCF) != 0 && ended == 0) ended = now.cycle;
    if ((events & 0x7FF) != 0) sample(Moment, events | static_cast<uint64_t>(state()) << 16);
    bool started = BIT(control, START_AT) && !BIT(progress, START_REFUSED_AT);
    if (!BIT(refused, FAULT_AT)) changed_ |= BIT(control, EXIT_AT) | BIT(control, MERGE_AT) << 1;
    if (started) {
      began = now.cycle;
      ended = 0;
      first_ = 0;  // no port wants anything: a job's cycles do not depend on the one before
      uint32_t active = static_cast<uint32_t>(PLANE(batch) >> ACTIVE_AT);
      for (int slot = 0; slot < 32; slot++) {
        if (active >> slot & 1) sample(SlotRuns, static_cast<uint64_t>(slot));
      }
      since_ = changed_;
      changed_ = 0;
    }
    if (PLANE(layer_start)) {
      const auto& running = PLANE(running);
      uint64_t residual = bits(running, ADDS_AT, 1) | bits(running, MULTIPLIES_AT, 1);
      sample(LayerBegins, bits(running, MODE_AT, 4) | bits(running, ROW_LANES_AT, 1) << 4 | residual << 5 |
                              static_cast<uint64_t>(since_) << 6 | (static_cast<uint64_t>(PLANE(batch)) >> B_ACT_AT & 31) << 8);
    }
    if (PLANE(plan_whole) && !PLANE(pieces_loaded)) sample(PiecesAwaited, (state() & 7) | PLANE(r_valid) << 3);
    if (PLANE(command_valid)) {
      uint32_t full = !PLANE(cmd_ready) | !PLANE(input_ready) << 1 | !PLANE(output_ready) << 2 | !PLANE(residual_ready) << 3 |
                      !PLANE(block_ready) << 4;
      for (int i = 0; full >> i != 0; i++) full_[i] += full >> i & 1;
    }
  }
#undef PLANE

  // Data or answers that memory owes, or bursts whose data did not come.
  bool owes() const {
    for (const auto& ports : reader_) {
      for (const auto& r : ports) {
        if (!r.queue.empty()) return true;
      }
    }
    return std::any_of(std::begin(writer_), std::end(writer_), [](const Writer& w) { return !w.open.empty() || !w.answered.empty(); });
  }

  void count() {
    const auto& r = *top_->rootp;
    bool valid = r.fluidnpu_npu__DOT__input_valid, ready = r.fluidnpu_npu__DOT__input_ready;
    now.input_taken += valid && ready;
    now.input_blocked += valid && !ready;
    now.input_starved += !valid && ready;
    now.weight_taken += r.fluidnpu_npu__DOT__weight_valid && r.fluidnpu_npu__DOT__weight_ready;
    now.residual_taken += r.fluidnpu_npu__DOT__residual_valid && r.fluidnpu_npu__DOT__residual_ready;
    now.output_taken += r.fluidnpu_npu__DOT__output_valid && r.fluidnpu_npu__DOT__output_ready;
  }

  uint8_t* memory_;
  Settings set_;
  std::unique_ptr<VerilatedContext> context_ = std::make_unique<VerilatedContext>();
  std::unique_ptr<Vtop> top_;
  Budget read_budget_[Links], write_budget_[Links], total_;
  int first_ = 0;  // port whose turn it is
  Reader reader_[Masters][Stripes];
  Writer writer_[Stripes];
  uint32_t layer_ = NoLayer;
  std::map<uint64_t, uint64_t> samples_;  // key (kind in the upper bits) -> hits
  uint64_t full_[5] = {};  // hits of QueueFull, which may come in every cycle
  uint32_t changed_ = 0, since_ = 0;  // EXIT (1) and MERGE (2) since the last START, and before it
};

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API Npu* npu_open(uint8_t* memory, const Settings* settings) { return new Npu(memory, *settings); }
API void npu_close(Npu* npu) { delete npu; }
API int npu_write(Npu* npu, uint32_t offset, uint32_t value) { return npu->write(offset, value); }
API int npu_read(Npu* npu, uint32_t offset, uint32_t* value) { return npu->read(offset, value); }
API uint32_t npu_run(Npu* npu, uint64_t cycles, uint32_t until) { return npu->run(cycles, until); }
API uint32_t npu_code(const Npu* npu) { return npu->code; }
API uint64_t npu_cycle(const Npu* npu) { return npu->now.cycle; }
API uint64_t npu_events(const Npu* npu) { return npu->events.size(); }
API void npu_take_events(Npu* npu, Event* out) {
  std::copy(npu->events.begin(), npu->events.end(), out);
  npu->events.clear();
}
API void npu_fault(Npu* npu, uint32_t silent, uint64_t bad_from, uint64_t bad_to, uint32_t response) {
  npu->silent = silent != 0;
  npu->bad_from = bad_from;
  npu->bad_to = bad_to;
  npu->bad_response = static_cast<uint8_t>(response);
}
API uint64_t npu_began(const Npu* npu) { return npu->began; }
API uint64_t npu_ended(const Npu* npu) { return npu->ended; }
API uint32_t npu_state(const Npu* npu) { return npu->state(); }
API uint64_t npu_take_samples(Npu* npu, Count* out, uint64_t most) {
  uint64_t count = 0;
  for (const auto& [key, hits] : npu->take_samples()) {
    if (count < most) out[count++] = Count{key, hits};
  }
  return count;
}
