// How C simulation ends when the generated core does what it must not: the program does, or, inside another program, an exception leaves the core.
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
