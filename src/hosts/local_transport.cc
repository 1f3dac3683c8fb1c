#include "hosts/local_transport.h"

#include <algorithm>

namespace forerun {

class LocalNetwork::Rank : public Transport {
 public:
  Rank(LocalNetwork* network, int32_t rank) : network_(network), rank_(rank) {}

  int32_t rank() const override { return rank_; }
  int32_t num_ranks() const override { return static_cast<int32_t>(network_->inboxes_.size()); }
  Status send(int32_t to, Bytes message) override {
    const std::lock_guard lock(network_->mutex_);
    if (network_->cut_.contains(std::minmax(rank_, to))) return {};
    network_->inboxes_[static_cast<size_t>(to)].push_back({rank_, std::move(message)});
    return {};
  }
  Result<std::optional<Received>> poll() override {
    const std::lock_guard lock(network_->mutex_);
    std::deque<Received>& inbox = network_->inboxes_[static_cast<size_t>(rank_)];
    if (inbox.empty()) return std::optional<Received>();
    std::optional<Received> received = std::move(inbox.front());
    inbox.pop_front();
    return received;
  }
  bool has_sent_all() const override { return true; }

 private:
  LocalNetwork* network_;
  const int32_t rank_;
};

std::unique_ptr<Transport> LocalNetwork::transport(int32_t rank) {
  return std::make_unique<Rank>(this, rank);
}

void LocalNetwork::cut(int32_t rank_a, int32_t rank_b) {
  const std::lock_guard lock(mutex_);
  cut_.insert(std::minmax(rank_a, rank_b));
}

}  // namespace forerun
