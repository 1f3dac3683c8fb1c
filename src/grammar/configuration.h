// Configuration: what a GrammarState holds, the level of a walk (walker.h) with counted frames.
#pragma once

#include <vector>

#include "grammar/frame.h"

namespace forerun::grammar {

struct Configuration {
  std::vector<Place> places;  // canonical; one reference on each frame
  bool complete = false;
  Hash128 hash;  // hash of places, `complete` and the program

  Configuration() = default;
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;
  ~Configuration() {
    for (const Place& place : places) release(place.frame);
  }
};

class Walker;

// This thread's walker, of which one walk at a time may be under way.
Walker& thread_walker();

}  // namespace forerun::grammar
