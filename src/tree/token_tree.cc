#include "tree/token_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace forerun {
namespace {

float usable_logprob(float logprob) {
  if (std::isnan(logprob)) return -std::numeric_limits<float>::infinity();
  return std::min(logprob, 0.0f);
}

// Puts the lowest key at the top of a heap.
constexpr std::greater<> kByKey;

}  // namespace

TokenTree::TokenTree(int32_t capacity_nodes) {
  const size_t capacity = at(std::max(capacity_nodes, 1));
  ids_.reserve(capacity);
  tokens_.reserve(capacity);
  for (auto* rows : {&parents_, &positions_, &first_children_, &last_children_, &next_siblings_,
                     &scratch_, &new_rows_, &kept_rows_}) {
    rows->reserve(capacity);
  }
  logprobs_.reserve(capacity);
  weights_.reserve(capacity);
  notes_.reserve(capacity);
  origins_.reserve(capacity);
  for (auto& states : expansions_) states.reserve(capacity);
  // Reserves more than the capacity, because ids of dropped nodes keep their entries.
  rows_by_id_.reserve(4 * capacity);
  // Reserves twice the capacity, because a row enters the heap when it is added and may enter again
  // when its parent is run.
  leaves_.reserve(2 * capacity);
  keys_.reserve(capacity);
  reset(0, 0, 0);
}

NodeId TokenTree::reset(TokenId token, int32_t position, int32_t max_position) {
  resize_arrays(0);
  rows_by_id_.clear();
  leaves_.clear();
  max_position_ = max_position;
  append(kNone, {token, 0.0f});
  positions_[0] = position;
  push_leaf(0);
  return ids_[0];
}

NodeId TokenTree::parent(NodeId node) const { return id_or_none(parents_[slot(node)]); }

NodeId TokenTree::child(NodeId node, TokenId token) const {
  for (int32_t row = first_children_[slot(node)]; row != kNone; row = next_siblings_[at(row)]) {
    if (tokens_[at(row)] == token) return ids_[at(row)];
  }
  return kNoNode;
}

NodeId TokenTree::walk(std::span<const TokenId> tokens) const {
  NodeId node = root();
  for (TokenId token : tokens) {
    node = child(node, token);
    if (node == kNoNode) return kNoNode;
  }
  return node;
}

void TokenTree::path_tokens(NodeId node, std::vector<TokenId>& out) const {
  const int32_t leaf = find_row(node);
  out.resize(at(positions_[at(leaf)] - positions_[0]));
  size_t end = out.size();
  for (int32_t row = leaf; row != 0; row = parents_[at(row)]) out[--end] = tokens_[at(row)];
}

uint64_t TokenTree::heaviness_key(int32_t row) const {
  // The bits of non-negative floats are in the order of the floats, and weights are at most 0.
  const auto lightness = std::bit_cast<uint32_t>(0.0f - weights_[at(row)]);
  return uint64_t{lightness} << 32 | static_cast<uint32_t>(row);
}

int32_t TokenTree::append(int32_t parent_row, const Candidate& candidate) {
  const float logprob = usable_logprob(candidate.logprob);
  const auto row = static_cast<int32_t>(ids_.size());
  ids_.push_back(next_id_++);
  rows_by_id_.resize(ids_.back() - ids_[0], kNone);
  rows_by_id_.push_back(row);
  tokens_.push_back(candidate.token);
  parents_.push_back(parent_row);
  positions_.push_back(parent_row == kNone ? 0 : positions_[at(parent_row)] + 1);
  logprobs_.push_back(parent_row == kNone ? 0.0f : logprob);
  weights_.push_back(parent_row == kNone ? 0.0f : weights_[at(parent_row)] + logprob);
  notes_.push_back(0);
  origins_.push_back(GuessOrigin::kModel);
  first_children_.push_back(kNone);
  last_children_.push_back(kNone);
  next_siblings_.push_back(kNone);
  for (auto& states : expansions_) states.push_back(Expansion::kUnexpanded);
  link(row);
  return row;
}

void TokenTree::link(int32_t row) {
  const int32_t parent_row = parents_[at(row)];
  if (parent_row == kNone) return;
  const int32_t last = last_children_[at(parent_row)];
  if (last == kNone) {
    first_children_[at(parent_row)] = row;
  } else {
    next_siblings_[at(last)] = row;
  }
  last_children_[at(parent_row)] = row;
}

bool TokenTree::is_open_leaf(int32_t row) const {
  const auto& draft = expansions_[static_cast<size_t>(Role::kDraft)];
  if (draft[at(row)] != Expansion::kUnexpanded || positions_[at(row)] >= max_position_) {
    return false;
  }
  const int32_t parent_row = parents_[at(row)];
  return parent_row == kNone || draft[at(parent_row)] != Expansion::kUnexpanded;
}

void TokenTree::push_leaf(int32_t row) {
  if (is_open_leaf(row)) add_to_leaves(row);
}

void TokenTree::add_to_leaves(int32_t row) {
  leaves_.push_back(heaviness_key(row));
  std::push_heap(leaves_.begin(), leaves_.end(), kByKey);
}

NodeId TokenTree::add_children(NodeId parent, std::span<const Candidate> candidates) {
  const int32_t parent_row = find_row(parent);
  if (candidates.empty() || positions_[at(parent_row)] >= max_position_) return kNoNode;
  const auto first = static_cast<int32_t>(ids_.size());
  for (const Candidate& candidate : candidates) append(parent_row, candidate);
  if (is_open_leaf(first)) {  // then its siblings are open leaves too
    for (int32_t row = first; row < size(); ++row) add_to_leaves(row);
  }
  return ids_[at(first)];
}

void TokenTree::set_expansion(Role role, NodeId node, Expansion state) {
  const int32_t row = find_row(node);
  Expansion& current = expansions_[static_cast<size_t>(role)][at(row)];
  const Expansion before = current;
  current = state;
  if (role != Role::kDraft) return;
  const bool was_open = before == Expansion::kUnexpanded;
  const bool is_open = state == Expansion::kUnexpanded;
  if (was_open == is_open) return;
  if (is_open) {
    push_leaf(row);
    return;
  }
  for (int32_t child = first_children_[at(row)]; child != kNone;
       child = next_siblings_[at(child)]) {
    push_leaf(child);
  }
}

void TokenTree::best_leaves(int32_t width, std::vector<NodeId>& out) {
  out.clear();
  keys_.clear();
  while (static_cast<int32_t>(out.size()) < width && !leaves_.empty()) {
    std::pop_heap(leaves_.begin(), leaves_.end(), kByKey);
    const uint64_t key = leaves_.back();
    leaves_.pop_back();
    // Equal keys in a row are the same row, which was added twice.
    if (!is_open_leaf(row_of_key(key)) || (!keys_.empty() && keys_.back() == key)) continue;
    keys_.push_back(key);
    out.push_back(ids_[at(row_of_key(key))]);
  }
  for (const uint64_t key : keys_) {
    leaves_.push_back(key);
    std::push_heap(leaves_.begin(), leaves_.end(), kByKey);
  }
}

void TokenTree::best_subtree(int32_t count, std::vector<NodeId>& out) {
  keys_.clear();
  for (int32_t row = 0; row < size(); ++row) keys_.push_back(heaviness_key(row));
  take_heaviest(count, out);
}

void TokenTree::best_unrun(Role role, int32_t count, std::vector<NodeId>& out) {
  const auto& states = expansions_[static_cast<size_t>(role)];
  keys_.clear();
  for (int32_t row = 0; row < size(); ++row) {
    if (states[at(row)] == Expansion::kUnexpanded) keys_.push_back(heaviness_key(row));
  }
  take_heaviest(count, out);
}

// A parent lies in an earlier row than its child and never weighs less. So the first `count` rows
// by (weight, row) contain the parent of each of them, provided that keys_ contains it.
void TokenTree::take_heaviest(int32_t count, std::vector<NodeId>& out) {
  const bool selects = count < static_cast<int32_t>(keys_.size());
  if (selects) {
    const auto end = keys_.begin() + std::max(count, 0);
    std::nth_element(keys_.begin(), end, keys_.end());
    keys_.erase(end, keys_.end());
  }
  scratch_.clear();
  for (const uint64_t key : keys_) scratch_.push_back(row_of_key(key));
  if (selects) std::sort(scratch_.begin(), scratch_.end());  // otherwise they are in order already
  out.clear();
  for (const int32_t row : scratch_) out.push_back(ids_[at(row)]);
}

void TokenTree::compact(int32_t root) {
  const int32_t old_size = size();
  new_rows_.assign(at(old_size), kNone);
  kept_rows_.clear();
  for (int32_t row = root; row < old_size; ++row) {
    const bool stays =
        row == root || (parents_[at(row)] >= root && new_rows_[at(parents_[at(row)])] != kNone);
    if (!stays) continue;
    const auto to = static_cast<int32_t>(kept_rows_.size());
    new_rows_[at(row)] = to;
    kept_rows_.push_back(row);
    const bool is_root = row == root;
    const int32_t parent_row = is_root ? kNone : new_rows_[at(parents_[at(row)])];
    ids_[at(to)] = ids_[at(row)];
    tokens_[at(to)] = tokens_[at(row)];
    parents_[at(to)] = parent_row;
    positions_[at(to)] = positions_[at(row)];
    logprobs_[at(to)] = is_root ? 0.0f : logprobs_[at(row)];
    // Sums anew from the root down, so that the weight equals the sum along the path bit for bit.
    weights_[at(to)] = is_root ? 0.0f : weights_[at(parent_row)] + logprobs_[at(to)];
    notes_[at(to)] = notes_[at(row)];
    origins_[at(to)] = origins_[at(row)];
    for (auto& states : expansions_) states[at(to)] = states[at(row)];
  }
  resize_arrays(kept_rows_.size());
  rebuild_rows_by_id();
  rebuild_links_and_leaves();
}

void TokenTree::rebuild_rows_by_id() {
  rows_by_id_.assign(ids_.back() - ids_[0] + 1, kNone);
  for (size_t row = 0; row < ids_.size(); ++row) {
    rows_by_id_[ids_[row] - ids_[0]] = static_cast<int32_t>(row);
  }
}

void TokenTree::resize_arrays(size_t size) {
  ids_.resize(size);
  tokens_.resize(size);
  for (auto* rows : {&parents_, &positions_, &first_children_, &last_children_, &next_siblings_}) {
    rows->resize(size);
  }
  logprobs_.resize(size);
  weights_.resize(size);
  notes_.resize(size);
  origins_.resize(size);
  for (auto& states : expansions_) states.resize(size);
}

void TokenTree::rebuild_links_and_leaves() {
  for (auto* rows : {&first_children_, &last_children_, &next_siblings_}) {
    std::fill(rows->begin(), rows->end(), kNone);
  }
  leaves_.clear();
  for (int32_t row = 0; row < size(); ++row) {
    link(row);
    if (is_open_leaf(row)) leaves_.push_back(heaviness_key(row));
  }
  std::make_heap(leaves_.begin(), leaves_.end(), kByKey);
}

void TokenTree::reroot(NodeId node, std::vector<NodeId>& kept) {
  compact(find_row(node));
  kept.assign(ids_.begin(), ids_.end());
}

void TokenTree::truncate(int32_t size) {
  if (size >= this->size()) return;
  resize_arrays(at(std::max(size, 1)));
  rows_by_id_.resize(ids_.back() - ids_[0] + 1);
  rebuild_links_and_leaves();
}

void TokenTree::nodes_with_kv(Role role, std::vector<NodeId>& out) const {
  out.clear();
  const auto& states = expansions_[static_cast<size_t>(role)];
  for (size_t row = 0; row < ids_.size(); ++row) {
    if (states[row] != Expansion::kUnexpanded) out.push_back(ids_[row]);
  }
}

void TokenTree::append_level(int32_t width, int32_t per_node, std::span<const NodeId> parents,
                             std::span<const Candidate> candidates, std::vector<NodeId>& level) {
  level.clear();
  const auto weight_of = [&](int32_t entry) {
    const Candidate& candidate = candidates[at(entry)];
    return weights_[slot(parents[at(entry / per_node)])] + usable_logprob(candidate.logprob);
  };
  const auto heavier = [&](int32_t a, int32_t b) {
    const float wa = weight_of(a);
    const float wb = weight_of(b);
    return wa > wb || (wa == wb && a < b);
  };
  std::vector<int32_t>& entries = scratch_;
  entries.clear();
  for (int32_t entry = 0; entry < static_cast<int32_t>(candidates.size()); ++entry) {
    if (candidates[at(entry)].token < 0) continue;
    if (position(parents[at(entry / per_node)]) >= max_position_) continue;
    entries.push_back(entry);
  }
  const size_t kept = std::min(entries.size(), at(std::max(width, 0)));
  std::partial_sort(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(kept),
                    entries.end(), heavier);
  entries.resize(kept);
  std::sort(entries.begin(), entries.end());
  for (int32_t entry : entries) {
    const int32_t row = append(find_row(parents[at(entry / per_node)]), candidates[at(entry)]);
    push_leaf(row);
    level.push_back(ids_[at(row)]);
  }
}

void TokenTree::prune_to_subtree(NodeId node, std::vector<int32_t>& kept_rows) {
  compact(find_row(node));
  kept_rows.assign(kept_rows_.begin(), kept_rows_.end());
}

void TokenTree::ancestors(std::span<const NodeId> nodes, std::vector<int32_t>& begins,
                          std::vector<NodeId>& out) const {
  begins.clear();
  out.clear();
  begins.push_back(0);
  for (NodeId node : nodes) {
    const int32_t leaf = find_row(node);
    const auto begin = static_cast<int32_t>(out.size());
    int32_t place = begin + positions_[at(leaf)] - positions_[0];
    out.resize(at(place) + 1);
    for (int32_t row = leaf; row != kNone; row = parents_[at(row)]) {
      out[at(place--)] = ids_[at(row)];
    }
    begins.push_back(static_cast<int32_t>(out.size()));
  }
}

void TokenTree::mask(std::span<const NodeId> nodes, std::vector<uint64_t>& bits) const {
  const size_t words = at(mask_words());
  bits.assign(nodes.size() * words, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    uint64_t* line = bits.data() + i * words;
    for (int32_t row = find_row(nodes[i]); row != kNone; row = parents_[at(row)]) {
      line[row / 64] |= uint64_t{1} << (row % 64);
    }
  }
}

}  // namespace forerun
