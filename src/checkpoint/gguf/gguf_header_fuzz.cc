// Feeds bytes to the GGUF header parser. An accepted header must keep its promises: tensors lie
// within the file, in order, aligned, with the size of their shape and type; keys are found;
// strings lie within the file; fields are checked. A small valid file replaces inputs that are no
// GGUF file, so that the fuzzer can start from it.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_fields.h"
#include "checkpoint/gguf/gguf_header.h"
#include "checkpoint/gguf/gguf_rig.h"
#include "checkpoint/gguf/gguf_split.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

const std::string& seed() {
  static const std::string file =
      forerun::GgufRig()
          .value("general.architecture", "llama")
          .value<uint32_t>("general.alignment", 32)
          .value("scale", 0.5F)
          .value("llama.attention.scale", 0.125F)
          .value("llama.attention.causal", true)
          .value("llama.hidden_activation", "silu")
          .array<float>("llama.activation_sparsity_scale", {0, 0})
          .split(0, 1, 3)
          .array<std::string>("tokens", {"a", "bc"})
          .array<int32_t>("types", {1, 2})
          .raw_value("nested", 9,
                     forerun::gguf_bytes(9U) + forerun::gguf_bytes<uint64_t>(1) +
                         forerun::gguf_bytes(0U) + forerun::gguf_bytes<uint64_t>(1) + "\1")
          .tensor("a", 0, {2, 3}, std::string(24, '\0'))
          .tensor("b", 2, {1, 32}, std::string(18, '\0'))
          .tensor("c", 16, {256}, std::string(66, '\0'))
          .bytes();
  return file;
}

void check_metadata(const forerun::GgufMetadata& metadata, std::span<const std::byte> file) {
  for (const forerun::GgufValue& value : metadata.values()) {
    require(metadata.find(value.key) == &value);
    forerun::GgufMetadataReader integers(metadata);
    forerun::GgufMetadataReader numbers(metadata);
    forerun::GgufMetadataReader flags(metadata);
    forerun::GgufMetadataReader tokens(metadata);
    forerun::GgufMetadataReader strings(metadata);
    require(integers.integers(value.key, INT64_MIN, INT64_MAX).has_value() == integers.ok());
    require(numbers.numbers(value.key, -1, 1).has_value() == numbers.ok());
    require(flags.numbers_or_booleans(value.key, -1, 1).has_value() == flags.ok());
    require(tokens.token_id(value.key).value_or(0) >= 0);
    require(strings.strings(value.key).has_value() == strings.ok());
    require(value.strings.empty() || value.strings.size() == value.count);
    for (const std::string_view text : value.strings) {
      const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
      require(begin >= file.data() && begin + text.size() <= file.data() + file.size());
    }
  }
  forerun::ModelConfig config;
  config.head_dim = config.hidden_size = 64;
  forerun::GgufMetadataReader fields(metadata);
  forerun::check_gguf_fields(fields, "llama.", config);
  require(fields.ok() || fields.status().message().find("; accepted: ") != std::string::npos);
  const auto split = forerun::read_gguf_split(metadata, "f");
  if (split.ok() && split->has_value()) require((*split)->part_idx < (*split)->num_parts);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned) {
  if ((size < 4 || std::memcmp(data, "GGUF", 4) != 0) && seed().size() <= max_size) {
    std::memcpy(data, seed().data(), seed().size());
    size = seed().size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto header = forerun::parse_gguf_header(bytes, size);
  if (!header.ok()) {
    require(header.status().message().find("; accepted: ") != std::string::npos);
    return 0;
  }
  check_metadata(header->metadata, bytes);
  uint64_t position = 0;
  for (const forerun::GgufTensor& tensor : header->tensors) {
    require(tensor.begin >= position && tensor.end >= tensor.begin && tensor.end <= size);
    require(tensor.begin % header->alignment == 0);
    position = tensor.end;
    const auto layout = forerun::ggml_layout(tensor.ggml_type);
    if (!layout) continue;
    int64_t weights = 1;
    for (const int64_t extent : tensor.shape) weights *= extent;
    require(weights % layout->weights == 0);
    require(static_cast<uint64_t>(weights / layout->weights * layout->bytes) ==
            tensor.end - tensor.begin);
  }
  return 0;
}
