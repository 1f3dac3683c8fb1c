// Records the results of benches as JSON, in addition to their printed output.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "forerun/status.h"

namespace forerun::bench {

// Writes `rows` to `path`, the value of --json; does nothing for an empty path. Fails with
// kInternal if the file cannot be written.
inline Status record_rows(const nlohmann::json& rows, const std::string& path) {
  if (path.empty()) return {};
  std::ofstream file(path);
  file << rows.dump(1) << "\n";
  file.close();
  if (file) return {};
  return Status(StatusCode::kInternal, "--json: cannot write '" + path + "'");
}

}  // namespace forerun::bench
