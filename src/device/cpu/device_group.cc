#include "device/cpu/device_group.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "device/cpu/cpu_collectives.h"

namespace forerun {

struct CpuDeviceGroup::Impl {
  std::shared_ptr<CpuDevice> threads;  // threads of all devices, in rank order
  CpuGroupShared shared;
  std::vector<int32_t> team_sizes;
  std::vector<std::unique_ptr<CpuCollectives>> members;  // one per thread
};

CpuDeviceGroup::CpuDeviceGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CpuDeviceGroup::~CpuDeviceGroup() = default;

Result<std::unique_ptr<CpuDeviceGroup>> CpuDeviceGroup::create(CpuGroupOptions options) {
  if (options.devices.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "device group: found no device; accepted: at least 1");
  }
  std::vector<int32_t> team_sizes;
  std::vector<int32_t> cores;
  int32_t num_threads = 0;
  for (const CpuCores& device : options.devices) {
    const auto size =
        device.cores.empty() ? device.num_threads : static_cast<int32_t>(device.cores.size());
    const std::string name = "device " + std::to_string(team_sizes.size()) + " of a group";
    if (size < 1) {
      return Status(StatusCode::kInvalidArgument,
                    name + ": found " + std::to_string(size) + " threads; accepted: at least 1");
    }
    const bool is_pinned = !device.cores.empty();
    if (is_pinned != !options.devices.front().cores.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    name + ": found " + (is_pinned ? "" : "no ") +
                        "pinned threads; accepted: pinned ones on all devices or on none");
    }
    cores.insert(cores.end(), device.cores.begin(), device.cores.end());
    team_sizes.push_back(size);
    num_threads += size;
  }
  FORERUN_ASSIGN_OR_RETURN(std::shared_ptr<CpuDevice> threads,
                           CpuDevice::create(cores, num_threads));
  std::unique_ptr<Impl> impl = divide(std::move(threads), std::move(team_sizes), options.timeout);
  impl->shared.before_collective = std::move(options.before_collective);
  return std::unique_ptr<CpuDeviceGroup>(new CpuDeviceGroup(std::move(impl)));
}

std::unique_ptr<CpuDeviceGroup::Impl> CpuDeviceGroup::divide(std::shared_ptr<CpuDevice> threads,
                                                             std::vector<int32_t> team_sizes,
                                                             std::chrono::milliseconds timeout) {
  auto impl = std::make_unique<Impl>();
  impl->threads = std::move(threads);
  impl->team_sizes = std::move(team_sizes);
  const int spins = impl->threads->spins();
  const auto degree = static_cast<int32_t>(impl->team_sizes.size());
  CpuGroupShared& shared = impl->shared;
  shared.timeout = timeout;
  shared.everybody = std::make_unique<Barrier>(impl->threads->size(), spins);
  for (auto& partials : shared.partials) partials.resize(static_cast<size_t>(degree));
  const int32_t smallest = *std::min_element(impl->team_sizes.begin(), impl->team_sizes.end());
  for (int32_t column = 0; column < smallest; ++column) {
    shared.columns.push_back(std::make_unique<Barrier>(degree, spins));
  }
  for (int32_t rank = 0; rank < degree; ++rank) {
    const int32_t size = impl->team_sizes[static_cast<size_t>(rank)];
    shared.teams.push_back(std::make_unique<Barrier>(size, spins));
    std::vector<CpuCollectives*>& device = shared.participants.emplace_back();
    for (int32_t member = 0; member < size; ++member) {
      impl->members.push_back(std::make_unique<CpuCollectives>(
          rank, degree, Team(member, size, shared.teams.back().get()), &shared));
      device.push_back(impl->members.back().get());
    }
  }
  return impl;
}

std::unique_ptr<CpuDeviceGroup> CpuDeviceGroup::as_one_device() const {
  return std::unique_ptr<CpuDeviceGroup>(
      new CpuDeviceGroup(divide(impl_->threads, {impl_->threads->size()}, impl_->shared.timeout)));
}

Result<std::unique_ptr<CpuDeviceGroup>> CpuDeviceGroup::create_unpinned(
    const std::vector<int32_t>& team_sizes) {
  CpuGroupOptions options;
  for (const int32_t size : team_sizes) options.devices.push_back({{}, size});
  return create(std::move(options));
}

int32_t CpuDeviceGroup::degree() const { return static_cast<int32_t>(impl_->team_sizes.size()); }

int32_t CpuDeviceGroup::team_size(int32_t rank) const {
  return impl_->team_sizes[static_cast<size_t>(rank)];
}

int32_t CpuDeviceGroup::smallest_team() const {
  return static_cast<int32_t>(impl_->shared.columns.size());
}

void CpuDeviceGroup::pin_caller() const { impl_->threads->pin_caller(); }

Status CpuDeviceGroup::run(const std::function<void(const GroupMember&)>& work) {
  impl_->threads->run([&](const Team& all) {
    CpuCollectives& member = *impl_->members[static_cast<size_t>(all.rank())];
    const auto failed = [&](StatusCode code, const std::string& what) {
      impl_->shared.give_up(Status(code, "device " + std::to_string(member.rank()) + ": " + what));
    };
    try {
      work({member.team(), member});
    } catch (const RunGivenUp&) {
      // The member that gave the run up has recorded why.
    } catch (const std::bad_alloc&) {
      failed(StatusCode::kResourceExhausted, "out of memory");
    } catch (const std::exception& error) {
      failed(StatusCode::kInternal, error.what());
    }
  });
  return impl_->shared.take_failure();
}

}  // namespace forerun
