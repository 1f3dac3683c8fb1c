#include "sampling/edit_list.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sampling/logits_processor.h"

namespace forerun {
namespace {

bool begins_with(std::span<const TokenId> path, std::span<const TokenId> begin) {
  return path.size() >= begin.size() && std::equal(begin.begin(), begin.end(), path.begin());
}

}  // namespace

void EditList::clear() {
  rows_.clear();
  masks_.clear();
  walks_.clear();
  biases_.used = 0;
  paths_.used = 0;
  biased_by_ = nullptr;
}

int32_t EditList::add(const RowContext& context) {
  const SamplingParams& params = *context.params;
  RowEdits edits;
  edits.biases = biases_of(context);
  if (needs_history(params)) {
    edits.penalties = {params.repetition_penalty, params.presence_penalty,
                       params.frequency_penalty};
    if (context.history != nullptr) edits.history = context.history->entries();
    edits.path = count_path(context);
  }
  if (context.constraint != nullptr) edits.mask = mask_of(context);
  rows_.push_back(edits);
  return static_cast<int32_t>(rows_.size()) - 1;
}

bool EditList::fits_devices(int32_t edits) const {
  return row(edits).path.size() <= size_t{RowEdits::kMaxPath};
}

void EditList::write_mask(int32_t mask, std::span<uint32_t> words) const {
  const Mask& asked = masks_[static_cast<size_t>(mask)];
  asked.constraint->allow(asked.state, words);
}

// Returns the biases of a row. End tokens that may not be sampled yet get a bias of minus infinity.
std::span<const TokenBias> EditList::biases_of(const RowContext& context) {
  const SamplingParams& params = *context.params;
  const bool with_ends = holds_ends_back(context);
  if (params.logit_bias.empty() && !with_ends) return {};
  if (biased_by_ == &params && with_ends_ == with_ends) return biases_.all[biases_.used - 1];
  biased_by_ = &params;
  with_ends_ = with_ends;
  std::vector<TokenBias>& biases = biases_.next();
  const std::vector<int32_t>& ends = params.end_tokens;
  for (const auto& [token, bias] : params.logit_bias) {
    if (with_ends && std::binary_search(ends.begin(), ends.end(), token)) continue;
    biases.push_back({token, bias});
  }
  if (!with_ends) return biases;
  for (const int32_t token : ends) {
    biases.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  return biases;
}

// Returns the distinct tokens of the path, with their counts in the output of history and path.
std::span<const TokenCount> EditList::count_path(const RowContext& context) {
  if (context.path.empty()) return {};
  std::vector<TokenCount>& counts = paths_.next();
  const auto length = static_cast<int32_t>(context.path.size());
  for (int32_t index = 0; index < length; ++index) {
    const bool is_prompt = context.position - length + index < context.prompt_tokens;
    counts.push_back({context.path[static_cast<size_t>(index)], is_prompt ? 0 : 1});
  }
  std::sort(counts.begin(), counts.end(),
            [](const TokenCount& a, const TokenCount& b) { return a.token < b.token; });
  size_t distinct = 0;
  for (size_t index = 0; index < counts.size(); ++index) {
    if (distinct > 0 && counts[distinct - 1].token == counts[index].token) {
      counts[distinct - 1].output_count += counts[index].output_count;
    } else {
      counts[distinct++] = counts[index];
    }
  }
  counts.resize(distinct);
  if (context.history == nullptr) return counts;
  for (TokenCount& count : counts) {
    const TokenCount* const before = context.history->find(count.token);
    if (before != nullptr) count.output_count += before->output_count;
  }
  return counts;
}

int32_t EditList::mask_of(const RowContext& context) {
  if (context.state != nullptr) {
    if (*context.state == nullptr) return -1;
    masks_.push_back({context.constraint, *context.state});
    return num_masks() - 1;
  }
  Walk walk{context.constrained, {}, *context.constrained, -1};
  // Continues from the parent if it is among the sequence's rows, else from the nearest ancestor.
  for (auto earlier = walks_.rbegin();
       earlier != walks_.rend() && walk.path.size() + 1 < context.path.size(); ++earlier) {
    if (earlier->from != context.constrained) break;
    if (earlier->path.size() <= walk.path.size()) continue;
    if (!begins_with(context.path, earlier->path)) continue;
    walk.path = earlier->path;
    walk.state = earlier->state;
  }
  for (size_t depth = walk.path.size(); depth < context.path.size() && walk.state != nullptr;
       ++depth) {
    walk.state = context.constraint->after(walk.state, context.path[depth]);
  }
  walk.path = context.path;
  if (walk.state != nullptr) {
    walk.mask = num_masks();
    masks_.push_back({context.constraint, walk.state});
  }
  walks_.push_back(walk);
  return walk.mask;
}

}  // namespace forerun
