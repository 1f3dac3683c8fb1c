#include "model/cuda/step_block.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/logits_summary/cuda/logits_summary.h"

namespace forerun::cuda {
namespace {

// A writer that appends the kernels' data at 16-byte boundaries.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>* bytes) : bytes_(bytes) {}
  template <class T>
  int32_t append(std::span<const T> values) {
    const size_t offset = bytes_->size();
    bytes_->resize(offset + (values.size_bytes() + 15) / 16 * 16);
    if (!values.empty()) std::memcpy(bytes_->data() + offset, values.data(), values.size_bytes());
    return static_cast<int32_t>(offset);
  }
  // Reserves room for `count` values, which place() writes.
  template <class T>
  int32_t reserve(size_t count) {
    const size_t offset = bytes_->size();
    bytes_->resize(offset + (count * sizeof(T) + 15) / 16 * 16);
    return static_cast<int32_t>(offset);
  }
  template <class T>
  T* place(int32_t offset) {
    return reinterpret_cast<T*>(bytes_->data() + offset);
  }

 private:
  std::vector<std::byte>* bytes_;
};

// A writer of lists that does not repeat the previous one: rows of one sequence share theirs.
template <class T>
class ListWriter {
 public:
  explicit ListWriter(Writer* writer) : writer_(writer) {}
  int32_t append(std::span<const T> list) {
    if (list.data() != last_.data() || list.size() != last_.size()) {
      last_ = list;
      offset_ = writer_->append(list);
    }
    return offset_;
  }

 private:
  Writer* writer_;
  std::span<const T> last_;
  int32_t offset_ = 0;
};

int32_t physical_slot(const int32_t* block_table, int32_t slot) {
  return block_table[slot / kTilePositions] * kTilePositions + slot % kTilePositions;
}

}  // namespace

int32_t pass_bucket(int32_t rows) {
  for (const int32_t size : {0, 1, 2, 4, 8, 16, 24, 32, 48, 64, kMaxGraphRows}) {
    if (rows <= size) return size;
  }
  return rows;
}

size_t StepBlockCuda::pass_end(const Step& step, size_t begin, int32_t max_rows) {
  size_t end = std::min(step.rows.size(), begin + static_cast<size_t>(max_rows));
  for (const KvSelection& selection : step.selections) {
    const auto first = static_cast<size_t>(selection.first_row);
    if (first > begin && first < end && first + static_cast<size_t>(selection.num_rows) > end) {
      end = first;
    }
  }
  return end;
}

void StepBlockCuda::list_taps(const Step& step, size_t begin, size_t end) {
  taps_.clear();
  for (const StepTap& tap : step.taps) {
    const auto row = static_cast<size_t>(tap.row);
    if (row >= begin && row < end) {
      taps_.push_back({.row = static_cast<int32_t>(row - begin), .place = tap.place});
    }
  }
}

void StepBlockCuda::list_features(const Step& step, size_t begin, size_t end) {
  features_.clear();
  projects_taps_ = false;
  if (step.features.empty()) return;
  features_.resize(static_cast<size_t>(pass_bucket(static_cast<int32_t>(end - begin))));
  for (size_t row_idx = begin; row_idx < end; ++row_idx) {
    const StepFeature& from = step.features[row_idx];
    projects_taps_ = projects_taps_ || !from.is_own;
    features_[row_idx - begin] = {
        .source = from.is_own ? RowFeatureCuda::kOwn : RowFeatureCuda::kTarget,
        .place = from.place};
  }
}

void StepBlockCuda::build(const Step& step, size_t begin, size_t end,
                          std::span<const RowQuery> queries, const StepShapeCuda& shape,
                          RopeTable& rope) {
  rows_.clear();
  num_wanted_ = 0;
  embeds_ = shape.embeds;
  StepHeaderCuda header;
  const int32_t wanted_offset = StepHeaderCuda::wanted_offset(static_cast<int32_t>(end - begin));
  int32_t* const wanted =
      header.tokens + (wanted_offset - static_cast<int32_t>(offsetof(StepHeaderCuda, tokens))) / 4;
  for (size_t row_idx = begin; row_idx < end; ++row_idx) {
    const StepRow& from = step.rows[row_idx];
    const auto local = static_cast<int32_t>(row_idx - begin);
    rows_.push_back(
        {.last_visible = from.visible - 1,
         .boundary = from.boundary,
         // A row without a slot gets the slot that it would have. It writes nothing, so it makes
         // no tile unstable.
         .slot = from.slot == kNoSlot ? from.visible - 1 : from.slot,
         .block_table = step.sequences[static_cast<size_t>(from.sequence_idx)].block_table,
         .ancestors = from.boundary == from.visible ? nullptr
                                                    : step.ancestors.data() + from.ancestor_begin});
    header.tokens[local] = shape.embeds ? from.token : local;
    if (from.wants_logits && shape.heads) wanted[num_wanted_++] = local;
  }
  selections_.clear();
  for (const KvSelection& selection : step.selections) {
    const auto first = static_cast<size_t>(selection.first_row);
    if (first < begin || first >= end) continue;
    selections_.push_back({.first_row = static_cast<int32_t>(first - begin),
                           .observers = selection.num_rows,
                           .first_weighed = selection.first_weighed,
                           .weighed_step = selection.weighed_step,
                           .tokens = selection.tokens,
                           .chosen = selection.chosen,
                           .pooling = selection.pooling});
  }
  AttentionShapeCuda attention_shape = shape.attention;
  // The observers' rotated queries must be in memory, and their keys in the cache, before attention
  // begins.
  if (!selections_.empty()) attention_shape.may_fuse = false;
  plan_.build(rows_, attention_shape);
  const size_t header_bytes =
      static_cast<size_t>(wanted_offset + (pass_bucket(num_wanted_) + 3) / 4 * 16);
  bytes_.assign(header_bytes, std::byte{});

  Writer writer(&bytes_);
  AttentionStepCuda& attention = header.attention;
  attention.num_rows = num_rows();
  attention.num_items = static_cast<int32_t>(plan_.items.size());
  attention.num_query_tiles = plan_.num_query_tiles;
  attention.rows_offset = writer.append(std::span<const AttentionRowCuda>(plan_.rows));
  attention.items_offset = writer.append(std::span<const AttentionItemCuda>(plan_.items));
  attention.num_prefix_items = static_cast<int32_t>(plan_.prefix_items.size());
  attention.prefix_items_offset =
      writer.append(std::span<const AttentionItemCuda>(plan_.prefix_items));
  attention.num_prompt_items = static_cast<int32_t>(plan_.prompt_items.size());
  attention.prompt_items_offset =
      writer.append(std::span<const AttentionItemCuda>(plan_.prompt_items));
  attention.num_workers = static_cast<int32_t>(plan_.workers.size());
  attention.workers_offset = writer.append(std::span<const AttentionWorkerCuda>(plan_.workers));
  attention.runs_offset = writer.append(std::span<const AttentionRunCuda>(plan_.runs));
  attention.num_merges = static_cast<int32_t>(plan_.merges.size());
  attention.merges_offset = writer.append(std::span<const AttentionMergeCuda>(plan_.merges));
  attention.tables_offset = writer.append(std::span<const int32_t>(plan_.tables));
  attention.ancestors_offset = writer.append(std::span<const int32_t>(plan_.ancestors));
  attention.extras_offset = writer.append(std::span<const int32_t>(plan_.extras));
  attention.kv_slots_offset = writer.reserve<int32_t>(rows_.size());
  auto* const kv_slots = writer.place<int32_t>(attention.kv_slots_offset);
  for (size_t i = 0; i < rows_.size(); ++i) {
    kv_slots[i] = step.rows[begin + i].slot == kNoSlot
                      ? -1
                      : physical_slot(rows_[i].block_table, rows_[i].slot);
  }
  const auto angles_of_row = static_cast<size_t>(shape.head_dim);
  attention.angles_offset = writer.reserve<float>(rows_.size() * angles_of_row);
  auto* const angles = writer.place<float>(attention.angles_offset);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const int32_t position = step.rows[begin + i].position;
    rope.prepare(position);
    const size_t half = angles_of_row / 2;
    std::copy_n(rope.cosines(position), half, angles + i * angles_of_row);
    std::copy_n(rope.sines(position), half, angles + i * angles_of_row + half);
  }
  auto selection = selections_.begin();
  for (const KvSelection& from : step.selections) {
    const auto first = static_cast<size_t>(from.first_row);
    if (first < begin || first >= end) continue;
    const int32_t* const table = step.sequences[static_cast<size_t>(from.sequence_idx)].block_table;
    selection->table_offset = writer.append(std::span(
        table,
        static_cast<size_t>((selection->max_weighed() + kTilePositions - 1) / kTilePositions)));
    selection->blocks_offset =
        writer.append(std::span(from.blocks, static_cast<size_t>(from.chosen / kTilePositions)));
    ++selection;
  }
  list_taps(step, begin, end);
  list_features(step, begin, end);
  header.num_taps = static_cast<int32_t>(taps_.size());
  header.taps_offset = writer.append(std::span<const TapPlaceCuda>(taps_));
  header.features_offset = writer.append(std::span<const RowFeatureCuda>(features_));
  header.num_wanted = num_wanted_;
  header.queries_offset = writer.append(queries.first(static_cast<size_t>(num_wanted_)));
  header.bytes = static_cast<int32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &header, header_bytes);
}

void StepBlockCuda::refill(const Step& step, std::span<const RowQuery> queries) {
  auto* const header = reinterpret_cast<StepHeaderCuda*>(bytes_.data());
  const AttentionStepCuda& attention = header->attention;
  auto* const tables = reinterpret_cast<int32_t*>(bytes_.data() + attention.tables_offset);
  auto* const kv_slots = reinterpret_cast<int32_t*>(bytes_.data() + attention.kv_slots_offset);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const StepRow& row = step.rows[i];
    const int32_t* const table = step.sequences[static_cast<size_t>(row.sequence_idx)].block_table;
    rows_[i].block_table = table;
    std::copy_n(table, row.slot / kTilePositions + 1, tables + plan_.rows[i].table);
    kv_slots[i] = physical_slot(table, row.slot);
    if (embeds_) header->tokens[i] = row.token;
  }
  const std::span<const RowQuery> wanted = queries.first(static_cast<size_t>(num_wanted_));
  if (wanted.empty()) return;
  std::memcpy(bytes_.data() + header->queries_offset, wanted.data(), wanted.size_bytes());
}

void StepBlockCuda::append_edits(std::span<const RowQuery> queries, const StepEdits& edits,
                                 const uint32_t* masks, int64_t mask_words) {
  const auto is_edited = [](const RowQuery& query) {
    return query.kinds != RowQuery::kLogits && query.edits != RowQuery::kNone;
  };
  int32_t count = 0;
  for (const RowQuery& query : queries) {
    if (is_edited(query)) count = std::max(count, query.edits + 1);
  }
  if (count == 0) return;
  Writer writer(&bytes_);
  const auto offset = writer.reserve<RowEditsCuda>(static_cast<size_t>(count));
  ListWriter<TokenBias> biases(&writer);
  ListWriter<TokenCount> history(&writer), path(&writer);
  for (const RowQuery& query : queries) {
    if (!is_edited(query)) continue;
    const RowEdits& row = edits.row(query.edits);
    const RowEditsCuda appended = {.penalties = row.penalties,
                                   .num_biases = static_cast<int32_t>(row.biases.size()),
                                   .biases_offset = biases.append(row.biases),
                                   .num_history = static_cast<int32_t>(row.history.size()),
                                   .history_offset = history.append(row.history),
                                   .num_path = static_cast<int32_t>(row.path.size()),
                                   .path_offset = path.append(row.path),
                                   .mask = row.mask < 0 ? nullptr : masks + row.mask * mask_words};
    writer.place<RowEditsCuda>(offset)[query.edits] = appended;
  }
  auto* const header = reinterpret_cast<StepHeaderCuda*>(bytes_.data());
  header->edits_offset = offset;
  header->bytes = static_cast<int32_t>(bytes_.size());
}

}  // namespace forerun::cuda
