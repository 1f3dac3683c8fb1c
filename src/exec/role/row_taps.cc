#include "exec/role/row_taps.h"

#include <algorithm>

namespace forerun {

int32_t TapPlaces::take() {
  if (!has_free()) {
    for (RowTaps* const sequence : sequences_) sequence->forget_before(sequence->end() - kMinKept);
  }
  if (!free_.empty()) {
    const int32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  return next_ < places_ ? static_cast<int32_t>(next_++) : -1;
}

RowTaps::RowTaps(TapPlaces* places) : places_(places) {
  if (places_ != nullptr) places_->sequences_.push_back(this);
}

RowTaps::~RowTaps() {
  if (places_ == nullptr) return;
  forget_from(first_);
  keep_nodes([](NodeId) { return false; });
  std::erase(places_->sequences_, this);
}

int32_t RowTaps::add_prefix(int32_t position) {
  const int32_t place = places_->take();
  append(position, place);
  return place;
}

int32_t RowTaps::add_node(NodeId node) {
  const int32_t place = places_->take();
  if (place >= 0) nodes_.push_back({node, place});
  return place;
}

void RowTaps::append(int32_t position, int32_t place) {
  if (position != end()) {
    forget_from(first_);
    first_ = position;
  }
  prefix_.push_back(place);
  while (static_cast<int32_t>(prefix_.size()) > TapPlaces::kMaxKept) pop_front();
}

int32_t RowTaps::of_prefix(int32_t position) const {
  const bool is_kept = position >= first_ && position < end();
  return is_kept ? prefix_[static_cast<size_t>(position - first_)] : -1;
}

int32_t RowTaps::of_node(NodeId node) const {
  const auto row = std::find_if(nodes_.begin(), nodes_.end(),
                                [node](const Node& each) { return each.node == node; });
  return row == nodes_.end() ? -1 : row->place;
}

void RowTaps::commit(NodeId node, int32_t position) {
  const auto row = std::find_if(nodes_.begin(), nodes_.end(),
                                [node](const Node& each) { return each.node == node; });
  if (row == nodes_.end()) return append(position, -1);
  append(position, row->place);
  nodes_.erase(row);
}

void RowTaps::pop_front() {
  if (prefix_.front() >= 0) places_->give(prefix_.front());
  prefix_.pop_front();
  ++first_;
}

void RowTaps::forget_before(int32_t position) {
  while (!prefix_.empty() && first_ < position) pop_front();
}

void RowTaps::forget_from(int32_t position) {
  while (!prefix_.empty() && end() > position) {
    if (prefix_.back() >= 0) places_->give(prefix_.back());
    prefix_.pop_back();
  }
}

}  // namespace forerun
