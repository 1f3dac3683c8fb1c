#include "module_table.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "model/rounding_error.h"
#include "model/widened_formats.h"
#include "terminal.h"

namespace forerun::app {
namespace {

std::string whole_name(const ModuleRead& read) {
  return module_name(read.module.id, ModuleNaming::kHuggingFace) +
         (read.is_tied_head ? " (tied)" : "");
}

// Returns "self_attn.q_proj" for "model.layers.3.self_attn.q_proj".
std::string kind_name(const ModuleRead& read) {
  const std::string name = whole_name(read);
  if (read.module.id.layer < 0) return name;
  const std::string layer = "." + std::to_string(read.module.id.layer) + ".";
  return name.substr(name.find(layer) + layer.size());
}

ModuleRow::Read read_of(const ModuleRead& read) {
  return {
      .format = read.read_as, .change = weight_change_name(read.change), .bytes = read.read_bytes};
}

bool alike(const ModuleRow& left, const ModuleRow& right) {
  return left.modules == right.modules && left.stored == right.stored &&
         left.processors.format == right.processors.format && left.gpus.format == right.gpus.format;
}

// Returns "0-3, 5".
std::string ranges_of(const std::vector<int32_t>& layers) {
  std::string text;
  for (size_t begin = 0; begin < layers.size();) {
    size_t last = begin;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(layers[begin]);
    if (last > begin) text += "-" + std::to_string(layers[last]);
    begin = last + 1;
  }
  return text;
}

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

// Returns "bf16, rounded"; omits that a format stays unchanged.
std::string read_text(const ModuleRow::Read& read) {
  if (read.format.empty()) return "refused";
  return read.change == "as stored" ? read.format : read.format + ", " + read.change;
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

nlohmann::ordered_json json_of(const ModuleRow::Read& read) {
  if (read.format.empty()) return nullptr;
  return {{"format", read.format}, {"change", read.change}, {"bytes", read.bytes}};
}

}  // namespace

std::vector<ModuleRow> module_rows(const Checkpoint& checkpoint, WeightOverride weights,
                                   bool each_module) {
  const LayerRange all = LayerRange::all(checkpoint.config());
  const std::vector<ModuleRead> processors = module_reads(checkpoint, all, weights, false);
  std::vector<ModuleRead> gpus;
  if (!override_format(weights)) gpus = module_reads(checkpoint, all, weights, true);
  std::vector<ModuleRow> rows;
  for (size_t index = 0; index < processors.size(); ++index) {
    const ModuleRead& read = processors[index];
    ModuleRow row;
    row.modules = each_module ? whole_name(read) : kind_name(read);
    if (read.module.id.layer >= 0) row.layers.push_back(read.module.id.layer);
    row.stored = read.stored;
    row.stored_bytes = read.is_tied_head ? 0 : read.stored_bytes;
    row.processors = read_of(read);
    if (!gpus.empty()) row.gpus = read_of(gpus[index]);
    const auto same = std::find_if(rows.begin(), rows.end(),
                                   [&](const ModuleRow& other) { return alike(other, row); });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    same->layers.insert(same->layers.end(), row.layers.begin(), row.layers.end());
    same->stored_bytes += row.stored_bytes;
    same->processors.bytes += row.processors.bytes;
    same->gpus.bytes += row.gpus.bytes;
  }
  return rows;
}

std::string module_table(const std::vector<ModuleRow>& rows) {
  std::vector<std::vector<std::string>> table = {
      {"modules", "layers", "stored", "bytes", "processors read", "bytes", "GPUs read", "bytes"}};
  int64_t stored = 0, processors = 0, gpus = 0;
  bool on_gpus = false;
  for (const ModuleRow& row : rows) {
    stored += row.stored_bytes;
    processors += row.processors.bytes;
    gpus += row.gpus.bytes;
    on_gpus = on_gpus || !row.gpus.format.empty();
    table.push_back({row.modules, ranges_of(row.layers), row.stored, bytes_text(row.stored_bytes),
                     read_text(row.processors), bytes_text(row.processors.bytes),
                     read_text(row.gpus),
                     row.gpus.format.empty() ? "" : bytes_text(row.gpus.bytes)});
  }
  table.push_back({"all", "", "", bytes_text(stored), "", bytes_text(processors), "",
                   on_gpus ? bytes_text(gpus) : ""});
  return format_table(table);
}

nlohmann::ordered_json to_json(const std::vector<ModuleRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModuleRow& row : rows) {
    list.push_back({{"modules", row.modules},
                    {"layers", row.layers},
                    {"stored", row.stored},
                    {"stored_bytes", row.stored_bytes},
                    {"processors", json_of(row.processors)},
                    {"gpus", json_of(row.gpus)}});
  }
  return list;
}

Result<std::vector<ErrorRow>> rounding_errors(const Checkpoint& checkpoint,
                                              WeightOverride weights) {
  const LayerRange all = LayerRange::all(checkpoint.config());
  std::vector<ModuleRead> reads =
      module_reads(checkpoint, all, weights, weights == WeightOverride::kAsStored);
  std::erase_if(reads, [](const ModuleRead& read) { return !read.rounded_to; });
  std::vector<ErrorRow> rows;
  std::vector<RoundingError> sums;
  ProgressBar bar;
  for (size_t index = 0; index < reads.size(); ++index) {
    const ModuleRead& read = reads[index];
    const auto progress = [&](double part) {
      bar.update("comparing " + whole_name(read),
                 (static_cast<double>(index) + part) / static_cast<double>(reads.size()));
    };
    progress(0);
    FORERUN_ASSIGN_OR_RETURN(const RoundingError error, rounding_error(checkpoint, read, progress));
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const ErrorRow& other) {
      return other.modules == kind_name(read) && other.stored == read.stored;
    });
    const auto at = static_cast<size_t>(same - rows.begin());
    if (same == rows.end()) {
      rows.push_back({kind_name(read), read.stored, read.read_as, 0, 0, "", -1});
      sums.emplace_back();
    }
    sums[at].add(error);
    if (error.relative() <= rows[at].worst_relative) continue;
    rows[at].worst_relative = error.relative();
    rows[at].worst = whole_name(read);
  }
  for (size_t at = 0; at < rows.size(); ++at) {
    rows[at].relative = sums[at].relative();
    rows[at].largest = sums[at].largest;
  }
  return rows;
}

std::string error_table(const std::vector<ErrorRow>& rows) {
  std::vector<std::vector<std::string>> table = {{"modules", "stored", "rounded to",
                                                  "relative error", "largest", "worst module",
                                                  "its error"}};
  for (const ErrorRow& row : rows) {
    table.push_back({row.modules, row.stored, row.rounded_to, scientific(row.relative),
                     scientific(row.largest), row.worst, scientific(row.worst_relative)});
  }
  return format_table(table);
}

nlohmann::ordered_json to_json(const std::vector<ErrorRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ErrorRow& row : rows) {
    list.push_back({{"modules", row.modules},
                    {"stored", row.stored},
                    {"rounded_to", row.rounded_to},
                    {"relative_error", row.relative},
                    {"largest_error", row.largest},
                    {"worst_module", row.worst},
                    {"worst_relative_error", row.worst_relative}});
  }
  return list;
}

}  // namespace forerun::app
