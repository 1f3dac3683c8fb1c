// The post-processor of tokenizer.json, reduced to its effect on ids: tokens before and after a
// single sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"

namespace forerun::text {

struct PostProcessor {
  std::vector<int32_t> before, behind;

  // Accepts Sequence, TemplateProcessing (its "single" with sequence A once), BertProcessing,
  // RobertaProcessing and ByteLevel (which changes only offsets); null adds nothing.
  static Result<PostProcessor> build(const JsonValue& field);
};

}  // namespace forerun::text
