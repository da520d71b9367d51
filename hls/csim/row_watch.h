// Checks in C simulation the promise of `DEPENDENCE inter false` about the accumulators. A call of the array is a
// cycle of its pipeline; hardware writes a sum some cycles after it read the row, and only then may the row be
// read again.
#ifndef FLUIDNPU_CSIM_ROW_WATCH_H
#define FLUIDNPU_CSIM_ROW_WATCH_H

#include <string>

#include "csim_stop.h"

template <int Cells, int Distance>
class row_watch_t {
  public:
    explicit row_watch_t(const char* name) : name_(name), now_(Distance) {
        for (int i = 0; i < Cells; ++i) written_[i] = 0;
    }

    void call() { ++now_; }

    // A row is `cells` cells of each bank: one, or two with split trees.
    void writes(int row, int cells) {
        for (int i = row * cells; i < (row + 1) * cells; ++i) written_[i] = now_;
    }

    void reads(int row, int cells) const {
        for (int i = row * cells; i < (row + 1) * cells; ++i) {
            if (now_ - written_[i] < Distance) {
                csim_stop("row " + std::to_string(row) + " of '" + name_ + "' was read " +
                          std::to_string(now_ - written_[i]) + " calls after it was written, and " +
                          std::to_string(Distance) + " is the least");
            }
        }
    }

  private:
    const char* name_;
    long long now_;
    long long written_[Cells];
};

#endif
