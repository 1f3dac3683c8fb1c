// Reads RoPE from config.json. transformers 4 writes rope_theta beside rope_scaling (null or an
// object), transformers 5 one object rope_parameters with rope_theta inside; some files have both.
// The kind of scaling is "rope_type", in older files "type".
#include <algorithm>
#include <cmath>
#include <string>

#include "checkpoint/config_sections.h"
#include "checkpoint/other_families.h"

namespace forerun {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

std::string rope_type(FieldReader& rope) {
  if (const auto type = rope.string("rope_type")) return *type;
  if (const auto type = rope.string("type")) return *type;
  return "default";
}

void read_llama3(FieldReader& rope, RopeScaling& scaling) {
  for (const char* field : {"factor", "low_freq_factor", "high_freq_factor"}) {
    if (!rope.has(field)) {
      rope.refuse(field, "a number, which rope_type \"llama3\" needs");
    }
  }
  scaling.low_freq_factor = rope.number("low_freq_factor", 1e-3, kMaxFactor).value_or(1.0f);
  scaling.high_freq_factor = rope.number("high_freq_factor", 1e-3, kMaxFactor).value_or(4.0f);
  if (rope.ok() && scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.refuse("high_freq_factor", "a number greater than low_freq_factor");
  }
}

void read_yarn(FieldReader& rope, RopeScaling& scaling) {
  // 0 counts as absent, as in transformers.
  const float beta_fast = rope.number("beta_fast", 0, kMaxFactor).value_or(0.0f);
  const float beta_slow = rope.number("beta_slow", 0, kMaxFactor).value_or(0.0f);
  if (beta_fast != 0) scaling.beta_fast = beta_fast;
  if (beta_slow != 0) scaling.beta_slow = beta_slow;
  if (rope.ok() && scaling.beta_fast < scaling.beta_slow) {
    rope.refuse("beta_fast", "a number not below beta_slow");
  }
  scaling.attention_factor = rope.number("attention_factor", 1e-3, kMaxFactor);
  scaling.mscale = rope.number("mscale", 0, kMaxFactor);
  scaling.mscale_all_dim = rope.number("mscale_all_dim", 0, kMaxFactor);
  scaling.truncate = rope.boolean("truncate").value_or(true);
}

RopeScaling read_scaling(FieldReader& rope, FieldReader& fields, const ModelConfig& config) {
  RopeScaling scaling;
  const std::string type = rope_type(rope);
  if (type == "default" || type == "none") return scaling;
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
  } else if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
  } else {
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                accepted_or_other_engines("default, linear, llama3 or yarn"),
                StatusCode::kUnsupported);
    return scaling;
  }
  if (scaling.kind != RopeScaling::Kind::kLinear) {
    auto original = rope.integer("original_max_position_embeddings", 1, kMaxPosition);
    if (!original) original = fields.integer("original_max_position_embeddings", 1, kMaxPosition);
    if (!original && scaling.kind == RopeScaling::Kind::kLlama3) {
      rope.refuse("original_max_position_embeddings", "an integer, as rope_type \"llama3\" needs");
    }
    scaling.original_max_position = static_cast<int32_t>(original.value_or(config.max_position));
  }
  if (scaling.kind == RopeScaling::Kind::kYarn && !rope.has("factor")) {
    scaling.factor =
        static_cast<float>(config.max_position) / static_cast<float>(scaling.original_max_position);
  } else {
    if (!rope.has("factor")) {
      rope.refuse("factor", "a number of at least 1, as rope_type \"" + type + "\" needs");
    }
    scaling.factor = rope.number("factor", 1, kMaxFactor).value_or(1.0f);
  }
  if (scaling.kind == RopeScaling::Kind::kLlama3) read_llama3(rope, scaling);
  if (scaling.kind == RopeScaling::Kind::kYarn) read_yarn(rope, scaling);
  return scaling;
}

void extend_context(FieldReader& fields, ModelConfig& config) {
  int64_t context = config.max_position;
  if (config.rope_scaling.kind == RopeScaling::Kind::kLinear) {
    context = std::max(context, fields.integer("max_sequence_length", 1, kMaxPosition).value_or(0));
  }
  if (config.rope_scaling.kind == RopeScaling::Kind::kYarn) {
    const double scaled = static_cast<double>(config.rope_scaling.original_max_position) *
                          static_cast<double>(config.rope_scaling.factor);
    context = std::max(context, static_cast<int64_t>(std::min(std::floor(scaled),
                                                              static_cast<double>(kMaxPosition))));
  }
  config.max_position = static_cast<int32_t>(context);
}

}  // namespace

void read_rope(FieldReader& fields, ModelConfig& config) {
  auto theta = fields.number("rope_theta", 1, kMaxTheta);
  // A false or empty object counts as absent.
  auto parameters =
      fields.truthy("rope_parameters") ? fields.object("rope_parameters") : std::nullopt;
  auto scaling = fields.truthy("rope_scaling") ? fields.object("rope_scaling") : std::nullopt;
  for (auto* rope : {&parameters, &scaling}) {
    if (!*rope) continue;
    if (const auto inner = (*rope)->number("rope_theta", 1, kMaxTheta)) {
      if (theta && *theta != *inner) {
        (*rope)->refuse("rope_theta", "the same number wherever the file gives it (" +
                                          std::to_string(*theta) + ")");
      }
      theta = inner;
    }
    const auto partial = (*rope)->number("partial_rotary_factor", 0, 1);
    if (partial && *partial != 1.0f) {
      (*rope)->refuse("partial_rotary_factor", accepted_or_other_engines("1"),
                      StatusCode::kUnsupported);
    }
    for (const char* kind : {"full_attention", "sliding_attention"}) {
      if ((*rope)->has(kind)) {
        (*rope)->refuse(kind, accepted_or_other_engines("one rotary embedding for all layers"),
                        StatusCode::kUnsupported);
      }
    }
  }
  config.rope_theta = theta.value_or(10000.0f);
  RopeScaling from_parameters, from_scaling;
  if (parameters) from_parameters = read_scaling(*parameters, fields, config);
  if (scaling) from_scaling = read_scaling(*scaling, fields, config);
  if (parameters && scaling && fields.ok() &&
      (from_parameters.kind != from_scaling.kind || from_parameters.factor != from_scaling.factor ||
       from_parameters.original_max_position != from_scaling.original_max_position)) {
    fields.refuse("rope_scaling", "the same scaling as in rope_parameters");
  }
  // transformers prefers rope_scaling if both exist.
  config.rope_scaling = scaling ? from_scaling : from_parameters;
  extend_context(fields, config);
}

}  // namespace forerun
