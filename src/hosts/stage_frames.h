// Reads and writes the payloads of frames that carry neither a StageMessage nor tasks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/step_runner.h"
#include "hosts/bytes.h"

namespace forerun {

inline void write_dropped(std::span<const IssuedRow> rows, ByteWriter& to) {
  to.count(rows.size());
  for (const IssuedRow& row : rows) {
    to.number(row.step);
    to.number(row.row);
  }
}

inline std::vector<IssuedRow> read_dropped(ByteReader& from) {
  std::vector<IssuedRow> rows(from.count("dropped rows", 12));
  for (IssuedRow& row : rows) {
    row.step = from.number<uint64_t>("dropped row");
    row.row = from.number<int32_t>("dropped row");
  }
  return rows;
}

}  // namespace forerun
