// Toy EAGLE-3 heads for tests, one for each difference between published layouts.
#pragma once

#include "checkpoint/testing.h"

namespace forerun {

// Returns a head with one layer of the target's shape, in SpecForge's layout, which uses the
// target's embedding and LM head. Both models have the same dtype.
inline ToySpec head_of(const ToySpec& target) {
  ToySpec head = target;
  head.num_layers = 1;
  head.seed = 7;
  head.eagle3.emplace();
  head.eagle3->target_hidden_size = target.hidden_size;
  head.eagle3->own_embedding = head.eagle3->own_head = false;
  return head;
}

// Adds an LM head with fewer tokens, and a norm for each tap.
inline ToySpec with_fewer_tokens(ToySpec head) {
  head.eagle3->draft_vocab_size = 104;
  head.eagle3->own_head = true;
  head.eagle3->norm_of_taps = Eagle3Config::NormOfTaps::kEach;
  return head;
}

// Returns a head with two layers of Qwen3, three quarters as wide, with all flags of speculators.
inline ToySpec with_layers_of_another_width(ToySpec head) {
  head.head_layout = ToySpec::HeadLayout::kSpeculators;
  head.family = "qwen3";
  head.hidden_size = head.hidden_size / 4 * 3;
  head.num_heads = 6;
  head.num_layers = 2;
  head.eagle3->own_embedding = head.eagle3->own_head = true;
  head.eagle3->norm_before_residual = true;
  head.eagle3->feeds_back_normalized = true;
  return head;
}

}  // namespace forerun
