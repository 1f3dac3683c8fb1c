#include "text/canonical_json.h"

#include <nlohmann/json.hpp>

namespace forerun::text {
namespace {

using nlohmann::json;

void flatten(const json& item, const char* parts, json& out) {
  if (!item.is_object()) return;
  const auto nested = item.find(parts);
  if (nested != item.end() && nested->is_array()) {
    for (const json& part : *nested) flatten(part, parts, out);
    return;
  }
  json kept = item;
  kept.erase("trim_offsets");
  // Older files leave out default values.
  if (kept.value("type", json()) == "ByteLevel" && std::string_view(parts) == "pretokenizers") {
    kept.emplace("use_regex", true);
  }
  out.push_back(std::move(kept));
}

}  // namespace

std::string canonical_splitting(const JsonValue& root) {
  json out = json::object({{"normalizer", json::array()}, {"pre_tokenizer", json::array()}});
  const auto add = [&](const char* name, const char* parts) {
    const JsonValue field = root[name];
    if (field.is_null()) return;
    // Nesting was limited when the stages were built.
    flatten(*field.get(), parts, out[name]);
  };
  add("normalizer", "normalizers");
  add("pre_tokenizer", "pretokenizers");
  return out.dump();
}

}  // namespace forerun::text
