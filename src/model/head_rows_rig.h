// EAGLE-3 heads of every layout for tests of decoders, and the Steps in which a head reads a prompt
// and a tree behind it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/head_specs_rig.h"
#include "model/testing.h"
#include "step/step.h"

namespace forerun {

inline constexpr int32_t kHeadVocab = 256;
inline constexpr int32_t kHeadTokens = 70;  // tokens of the prompt, more than a KV block
inline constexpr int32_t kHeadNodes = 4;
inline constexpr int64_t kTargetPlaces = kHeadTokens + 3;  // the taps of token i go to place i + 3
inline constexpr int64_t kOwnPlaces = 9;
// Place of the prompt's last token in the head's own store.
inline constexpr int32_t kLastTokenPlace = 8;
// The tree: two children of the last token, then two of the second child.
inline constexpr int32_t kNodeTokens[kHeadNodes] = {17, 99, 42, 3};

struct HeadCase {
  std::string name;
  ToySpec target;
  ToySpec head;
};

// Returns every layout, flag and kind of norm, for heads of `target`, which has 6 layers.
inline std::vector<HeadCase> head_cases(ToySpec target) {
  target.num_layers = 6;
  const ToySpec plain = head_of(target);
  std::vector<HeadCase> all = {{"as_handed", target, plain}};
  ToySpec tied = target;
  tied.tied = true;
  tied.dtype = DType::kBf16;
  all.push_back({"tied_target", tied, plain});
  ToySpec fewer = with_fewer_tokens(plain);
  fewer.eagle3->tap_layers = {0, 2, 5};
  fewer.eagle3->taps_name_outputs = true;
  all.push_back({"fewer_tokens_and_fc_norm", target, fewer});
  ToySpec other = with_layers_of_another_width(plain);
  other.eagle3->tap_layers = {1, 6};
  all.push_back({"speculators_of_another_width", target, other});
  ToySpec angelslim = plain;
  angelslim.head_layout = ToySpec::HeadLayout::kAngelSlim;
  angelslim.eagle3->norm_of_taps = Eagle3Config::NormOfTaps::kTogether;
  angelslim.eagle3->feeds_back_normalized = true;
  all.push_back({"angelslim_with_norm_before_fc", target, angelslim});
  return all;
}

// Returns a Step in which the target reads the prompt and keeps its taps.
inline Step text_step(std::span<const int32_t> tokens, const std::vector<int32_t>& table) {
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(step, 0, tokens.first(kHeadTokens), 0, false);
  for (int32_t row = 0; row < kHeadTokens; ++row) step.taps.push_back({row, row + 3});
  return step;
}

// Returns the row of token q: at position q, in slot q - 1, with the feature of token q - 1.
inline StepRow head_row(int32_t token, int32_t position) {
  StepRow row;
  row.token = token;
  row.position = position;
  row.slot = position - 1;
  row.visible = row.boundary = position;
  row.wants_logits = true;
  return row;
}

// Calls `run` with Steps of this many rows of the prompt, `tokens` from the second on, then with
// one of two nodes and one of their two children (is_tree). The Steps have no sequence yet and run
// once. The features of the prompt's last token and of the first two nodes go to places
// kLastTokenPlace, 0 and 1.
template <class Run>
void run_text_and_tree(std::span<const int32_t> tokens, int32_t rows_per_step, const Run& run) {
  Step step;
  for (int32_t q = 1; q <= kHeadTokens; ++q) {
    step.rows.push_back(head_row(tokens[static_cast<size_t>(q)], q));
    step.features.push_back({.is_own = false, .place = q - 1 + 3});
    if (q == kHeadTokens) {
      step.taps.push_back({static_cast<int32_t>(step.rows.size()) - 1, kLastTokenPlace});
    }
    if (q == kHeadTokens || q % rows_per_step == 0) run(std::exchange(step, {}), false);
  }
  for (int32_t node = 0; node < kHeadNodes; ++node) {
    const bool is_deep = node >= 2;
    StepRow row = head_row(kNodeTokens[node], kHeadTokens + (is_deep ? 2 : 1));
    row.slot = kHeadTokens + node;
    row.boundary = kHeadTokens;
    row.ancestor_begin = static_cast<int32_t>(step.ancestors.size());
    if (is_deep) step.ancestors.push_back(kHeadTokens + 1);
    step.ancestors.push_back(row.slot);
    step.features.push_back({.is_own = true, .place = is_deep ? 1 : kLastTokenPlace});
    step.taps.push_back({static_cast<int32_t>(step.rows.size()), is_deep ? node + 1 : node});
    step.rows.push_back(row);
    if (node % 2 == 1) run(std::exchange(step, {}), true);
  }
}

}  // namespace forerun
