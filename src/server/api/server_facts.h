// Facts about the engine that the API reports, and limits of requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::server {

struct ApiOptions {
  std::vector<std::string> model_names;  // answers name the first one; all are accepted
  int32_t max_prompts = 128;             // in one call of /v1/completions
  int32_t max_choices = 128;             // n times prompts
  size_t max_stop_strings = 16;
  size_t max_biases = 1024;
  size_t max_salt_bytes = 1024;
  int32_t max_logprobs = 20;
  int32_t num_slots = 64;  // requests that may run at once
  // Maximum scored prompt tokens in one answer, each alternative counted: one takes about 300
  // bytes.
  int64_t max_scores = 500'000;
};

// Returns the seconds since 1970.
inline int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct ServerFacts {
  ApiOptions options;
  EngineInfo info;
  int64_t created = unix_seconds();  // time at which the server was created

  const std::string& model() const { return options.model_names.front(); }
};

}  // namespace forerun::server
