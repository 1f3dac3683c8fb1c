// Configuration: the content of a GrammarState, i.e. the level of a walk (walker.h) with counted
// frames.
#pragma once

#include <vector>

#include "grammar/frame.h"

namespace forerun::grammar {

struct Configuration {
  std::vector<Place> places;  // canonical; one reference to each frame
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

// Returns this thread's walker, which supports one walk at a time.
Walker& thread_walker();

}  // namespace forerun::grammar
