// Ends C simulation when the generated core breaks a rule: by the end of the program or, where the core is a
// library, by an exception.
#ifndef FLUIDNPU_CSIM_STOP_H
#define FLUIDNPU_CSIM_STOP_H

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

inline void csim_stop(const std::string& why) {
#ifdef FLUIDNPU_CSIM_THROWS
    throw std::runtime_error(why);
#else
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(3);
#endif
}

#endif
