#include "model/cuda/handed_taps.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "kernels/features/cuda/keep_taps.h"
#include "model/step_check.h"
#include "model/tap_store.h"

namespace forerun::cuda {
namespace {

// Rows per launch: enough of them to keep the bus busy.
constexpr size_t kLaunchRows = 128;

// The copies of a launch, in the form in which keep_taps_cuda() reads them from a Step's data.
struct ListCuda {
  int32_t count = 0;
  int32_t copies_offset = 0;
  TapPlaceCuda copies[kLaunchRows];
};

// Returns a call for the copies of a list in mapped memory; the caller sets source and destination.
KeepTapsCallCuda call_of(const PinnedBuffer& list) {
  return {.step = list.data(),
          .count_offset = static_cast<int32_t>(offsetof(ListCuda, count)),
          .taps_offset_offset = static_cast<int32_t>(offsetof(ListCuda, copies_offset)),
          .rows = list.as<ListCuda>()->count};
}

}  // namespace

Result<HandedTapsCuda> HandedTapsCuda::allocate(const TapStoreCuda& store,
                                                const LayerRange& layers) {
  HandedTapsCuda handed;
  if (store.places() == 0 || (layers.embeds && layers.heads)) return handed;
  handed.store_ = &store;
  handed.in_front_ = taps_in_front(store.after_layers(), layers);
  FORERUN_ASSIGN_OR_RETURN(handed.list_,
                           PinnedBuffer::allocate(sizeof(ListCuda), "a list of taps"));
  handed.list_.as<ListCuda>()->copies_offset = static_cast<int32_t>(offsetof(ListCuda, copies));
  FORERUN_ASSIGN_OR_RETURN(
      handed.rows_,
      PinnedBuffer::allocate(kLaunchRows * static_cast<size_t>(store.width()) * sizeof(bf16),
                             "taps between stages"));
  return handed;
}

Status HandedTapsCuda::read(std::span<const StepTap> taps, std::vector<std::byte>& rows,
                            const Stream& stream) const {
  if (store_ == nullptr) {
    return {StatusCode::kUnsupported,
            "taps: found a model that is not cut; accepted: a stage that hands them on"};
  }
  ListCuda& list = *list_.as<ListCuda>();
  const int64_t width = store_->width();
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(bf16);
  rows.reserve(rows.size() + taps.size() * row_bytes);
  for (size_t begin = 0; begin < taps.size(); begin += kLaunchRows) {
    list.count = static_cast<int32_t>(std::min(kLaunchRows, taps.size() - begin));
    for (int32_t idx = 0; idx < list.count; ++idx) {
      list.copies[idx] = {.row = taps[begin + static_cast<size_t>(idx)].place, .place = idx};
    }
    KeepTapsCallCuda call = call_of(list_);
    call.hidden = store_->data();
    call.store = rows_.as<__nv_bfloat16>();
    call.hidden_stride = call.store_stride = call.dim = width;
    FORERUN_RETURN_IF_ERROR(keep_taps_cuda(call, stream.get()));
    FORERUN_RETURN_IF_ERROR(stream.synchronize());
    rows.insert(rows.end(), rows_.data(),
                rows_.data() + static_cast<size_t>(list.count) * row_bytes);
  }
  return {};
}

Status HandedTapsCuda::write(std::span<const StepTap> taps, std::span<const std::byte> rows,
                             const Stream& stream) const {
  const int64_t hidden = store_ == nullptr ? 0 : store_->hidden_size();
  const int64_t width = static_cast<int64_t>(in_front_.size()) * hidden;
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(bf16);
  FORERUN_RETURN_IF_ERROR(
      check_written_taps(taps, store_ == nullptr ? 0 : store_->places(), row_bytes, rows.size()));
  if (in_front_.empty()) return {};
  ListCuda& list = *list_.as<ListCuda>();
  for (size_t begin = 0; begin < taps.size(); begin += kLaunchRows) {
    list.count = static_cast<int32_t>(std::min(kLaunchRows, taps.size() - begin));
    for (int32_t idx = 0; idx < list.count; ++idx) {
      list.copies[idx] = {.row = idx, .place = taps[begin + static_cast<size_t>(idx)].place};
    }
    std::memcpy(rows_.data(), rows.data() + begin * row_bytes,
                static_cast<size_t>(list.count) * row_bytes);
    KeepTapsCallCuda call = call_of(list_);
    call.hidden = rows_.as<__nv_bfloat16>();
    call.hidden_stride = width;
    call.store_stride = store_->width();
    call.dim = hidden;
    for (const size_t tap_idx : in_front_) {
      call.store = store_->tap(tap_idx);
      FORERUN_RETURN_IF_ERROR(keep_taps_cuda(call, stream.get()));
      call.hidden += hidden;
    }
    FORERUN_RETURN_IF_ERROR(stream.synchronize());
  }
  return {};
}

}  // namespace forerun::cuda
