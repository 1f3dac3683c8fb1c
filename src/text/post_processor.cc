#include "text/post_processor.h"

#include "base/status_macros.h"
#include "text/tokenizer_json.h"

namespace forerun::text {
namespace {

constexpr int kMaxPostProcessorNesting = 16;
constexpr size_t kMaxIds = 4096;

Result<int32_t> read_id(const JsonValue& field) {
  FORERUN_ASSIGN_OR_RETURN(const int64_t id, field.as_integer(0, kMaxTokenId));
  return static_cast<int32_t>(id);
}

// Reads [token, id] of BertProcessing and RobertaProcessing.
Result<int32_t> read_pair(const JsonValue& field) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> pair, field.as_list());
  if (pair.size() != 2) return field.refuse("[token, id]", StatusCode::kCorrupt);
  return read_id(pair[1]);
}

Status add_template(const JsonValue& field, PostProcessor& out) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> parts, field["single"].as_list());
  std::vector<int32_t> before, behind;
  bool sequence_seen = false;
  for (const JsonValue& part : parts) {
    const JsonValue special = part["SpecialToken"];
    if (special.is_null()) {
      FORERUN_ASSIGN_OR_RETURN(const std::string id, part["Sequence"]["id"].as_string());
      if (id != "A" || sequence_seen)
        return field["single"].refuse("sequence A exactly once", StatusCode::kUnsupported);
      sequence_seen = true;
      continue;
    }
    FORERUN_ASSIGN_OR_RETURN(const std::string name, special["id"].as_string());
    const JsonValue listed = field["special_tokens"][name]["ids"];
    FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> ids, listed.as_list());
    for (const JsonValue& id : ids) {
      FORERUN_ASSIGN_OR_RETURN(const int32_t value, read_id(id));
      (sequence_seen ? behind : before).push_back(value);
    }
  }
  if (!sequence_seen)
    return field["single"].refuse("sequence A exactly once", StatusCode::kUnsupported);
  out.before.insert(out.before.begin(), before.begin(), before.end());
  out.behind.insert(out.behind.end(), behind.begin(), behind.end());
  return {};
}

Status add(const JsonValue& field, int depth, PostProcessor& out) {
  if (field.is_null()) return {};
  if (depth > kMaxPostProcessorNesting)
    return field.refuse("sequences nested at most 16 deep", StatusCode::kUnsupported);
  FORERUN_ASSIGN_OR_RETURN(const std::string type, field["type"].as_string());
  if (type == "Sequence") {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> parts, field["processors"].as_list());
    for (const JsonValue& part : parts) FORERUN_RETURN_IF_ERROR(add(part, depth + 1, out));
    return {};
  }
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return add_template(field, out);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    FORERUN_ASSIGN_OR_RETURN(const int32_t first, read_pair(field["cls"]));
    FORERUN_ASSIGN_OR_RETURN(const int32_t last, read_pair(field["sep"]));
    out.before.insert(out.before.begin(), first);
    out.behind.push_back(last);
    return {};
  }
  return field["type"].refuse(
      "Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel",
      StatusCode::kUnsupported);
}

}  // namespace

Result<PostProcessor> PostProcessor::build(const JsonValue& field) {
  PostProcessor out;
  FORERUN_RETURN_IF_ERROR(add(field, 0, out));
  if (out.before.size() + out.behind.size() > kMaxIds) {
    return field.refuse("at most " + std::to_string(kMaxIds) + " tokens around a sequence",
                        StatusCode::kUnsupported);
  }
  return out;
}

}  // namespace forerun::text
