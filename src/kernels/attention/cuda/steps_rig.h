// Steps for the test and the bench of attention on a GPU: trees, rows of a prefix, and the data
// that the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/plan.h"

namespace forerun::cuda {

// Rows of one or more sequences, with their block tables and lists.
struct TestStep {
  std::vector<AttentionRow> rows;
  std::vector<int32_t> sequence_of;  // by row
  std::vector<std::vector<int32_t>> tables;
  std::vector<std::vector<int32_t>> ancestors;

  // Adds a tree: `prefix` tokens and `old_nodes` of its nodes lie in the cache, `new_nodes` are
  // rows. Each node's parent is an earlier node or the prefix; with `arity` 1 the tree is a chain.
  void add_tree(int32_t prefix, int32_t old_nodes, int32_t new_nodes, int32_t arity);
  // Adds rows that extend the prefix.
  void add_chain(int32_t prefix, int32_t count);
  int32_t num_blocks = 0;

 private:
  const int32_t* add_table(int32_t tokens);
};

inline const int32_t* TestStep::add_table(int32_t tokens) {
  const int32_t blocks = (tokens + kTilePositions - 1) / kTilePositions;
  std::vector<int32_t> table;
  for (int32_t i = 0; i < blocks; ++i) table.push_back(num_blocks + blocks - 1 - i);
  num_blocks += blocks;
  tables.push_back(std::move(table));
  return tables.back().data();
}

inline void TestStep::add_chain(int32_t prefix, int32_t count) {
  const int32_t* table = add_table(prefix + count);
  for (int32_t i = 0; i < count; ++i) {
    rows.push_back({.last_visible = prefix + i,
                    .boundary = prefix + i + 1,
                    .slot = prefix + i,
                    .block_table = table});
    sequence_of.push_back(static_cast<int32_t>(tables.size()) - 1);
  }
}

inline void TestStep::add_tree(int32_t prefix, int32_t old_nodes, int32_t new_nodes,
                               int32_t arity) {
  const int32_t nodes = old_nodes + new_nodes;
  const int32_t* table = add_table(prefix + nodes);
  std::vector<std::vector<int32_t>> paths;
  for (int32_t node = 0; node < nodes; ++node) {
    std::vector<int32_t> path;
    if (node > 0) path = paths[static_cast<size_t>((node - 1) / arity)];
    path.push_back(prefix + node);
    paths.push_back(path);
    if (node < old_nodes) continue;
    ancestors.push_back(path);
    rows.push_back({.last_visible = prefix + static_cast<int32_t>(path.size()) - 1,
                    .boundary = prefix,
                    .slot = prefix + node,
                    .block_table = table,
                    .ancestors = ancestors.back().data()});
    sequence_of.push_back(static_cast<int32_t>(tables.size()) - 1);
  }
}

// Returns the data of a step: `kv_slots` and `angles` are as in AttentionStepCuda, by row.
inline std::vector<std::byte> step_bytes(const AttentionPlanCuda& plan,
                                         std::span<const int32_t> kv_slots,
                                         std::span<const float> angles) {
  std::vector<std::byte> bytes(sizeof(AttentionStepCuda));
  const auto append = [&](std::span<const std::byte> values) {
    const size_t offset = bytes.size();
    bytes.resize(offset + (values.size() + 15) / 16 * 16);
    if (!values.empty()) std::memcpy(bytes.data() + offset, values.data(), values.size());
    return static_cast<int32_t>(offset);
  };
  AttentionStepCuda header;
  header.num_rows = static_cast<int32_t>(plan.rows.size());
  header.num_items = static_cast<int32_t>(plan.items.size());
  header.num_query_tiles = plan.num_query_tiles;
  header.rows_offset = append(std::as_bytes(std::span(plan.rows)));
  header.items_offset = append(std::as_bytes(std::span(plan.items)));
  header.num_prefix_items = static_cast<int32_t>(plan.prefix_items.size());
  header.prefix_items_offset = append(std::as_bytes(std::span(plan.prefix_items)));
  header.num_prompt_items = static_cast<int32_t>(plan.prompt_items.size());
  header.prompt_items_offset = append(std::as_bytes(std::span(plan.prompt_items)));
  header.num_workers = static_cast<int32_t>(plan.workers.size());
  header.workers_offset = append(std::as_bytes(std::span(plan.workers)));
  header.runs_offset = append(std::as_bytes(std::span(plan.runs)));
  header.num_merges = static_cast<int32_t>(plan.merges.size());
  header.merges_offset = append(std::as_bytes(std::span(plan.merges)));
  header.tables_offset = append(std::as_bytes(std::span(plan.tables)));
  header.ancestors_offset = append(std::as_bytes(std::span(plan.ancestors)));
  header.extras_offset = append(std::as_bytes(std::span(plan.extras)));
  header.kv_slots_offset = append(std::as_bytes(kv_slots));
  header.angles_offset = append(std::as_bytes(angles));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

}  // namespace forerun::cuda
