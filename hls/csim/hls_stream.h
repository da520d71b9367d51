// hls::stream for C simulation: a FIFO, unbounded unless `csim_depth` limits it. Reading an empty one or writing
// to a full one ends the simulation. `csim_stalls()` per cent of `empty` and `full` are true although the stream
// is not, as when data come late. It has only the members that the generated core and its test bench use; Vivado
// HLS brings a header of the same name.
#ifndef FLUIDNPU_CSIM_HLS_STREAM_H
#define FLUIDNPU_CSIM_HLS_STREAM_H

#include <string>
#include <vector>

#include "csim_stop.h"

namespace hls {

inline unsigned& csim_stalls() {
    static unsigned percent = 0;
    return percent;
}

inline bool csim_late() {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % 100u < csim_stalls();
}

template <typename T>
class stream {
  public:
    stream() : name_("stream"), head_(0), depth_(0) {}
    explicit stream(const char* name) : name_(name), head_(0), depth_(0) {}

    void csim_depth(std::size_t depth) { depth_ = depth; }

    bool empty() const { return head_ == items_.size() || (csim_stalls() != 0 && csim_late()); }
    bool full() const { return filled() || (csim_stalls() != 0 && csim_late()); }
    std::size_t size() const { return items_.size() - head_; }

    void write(const T& item) {
        if (filled()) fail("written while it was full");
        items_.push_back(item);
    }

    T read() {
        if (size() == 0) fail("read while it was empty");
        const T item = items_[head_++];
        if (head_ == items_.size()) {
            items_.clear();
            head_ = 0;
        }
        return item;
    }

    bool read_nb(T& item) {
        if (empty()) return false;
        item = read();
        return true;
    }

  private:
    bool filled() const { return depth_ != 0 && size() >= depth_; }

    void fail(const char* what) const { csim_stop("stream '" + name_ + "' was " + what); }

    stream(const stream&);
    stream& operator=(const stream&);

    std::string name_;
    std::vector<T> items_;
    std::size_t head_;
    std::size_t depth_;
};

}  // namespace hls

#endif
