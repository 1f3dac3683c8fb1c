#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/lower_case.h"
#include "base/status_macros.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/gguf/gguf_config.h"
#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/layouts/weight_layout.h"
#include "checkpoint/old_quantization.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/tensor_checks.h"
#include "checkpoint/tensor_table.h"

namespace forerun {
namespace {

constexpr const char* kAcceptedPaths =
    "a GGUF file, or a Hugging Face directory with config.json, tokenizer.json and safetensors (hf "
    "download org/name brings one)";

Status check_directory(const std::filesystem::path& dir) {
  std::error_code error;
  if (!std::filesystem::exists(dir, error)) {
    return Status(StatusCode::kNotFound,
                  dir.string() + ": no such directory; accepted: " + kAcceptedPaths);
  }
  if (!std::filesystem::is_directory(dir, error)) return refuse_file(dir);
  if (std::filesystem::exists(dir / "config.json", error)) return Status();
  // Other formats have no config.json; their name helps a user more than that of the missing file.
  Status other = refuse_weights_of(dir);
  if (other.code() == StatusCode::kUnsupported) return other;
  return Status(StatusCode::kNotFound, (dir / "config.json").string() + ": " +
                                           (error ? error.message() : "no such file") +
                                           "; accepted: " + kAcceptedPaths);
}

}  // namespace

struct Checkpoint::Impl {
  std::filesystem::path path;
  ModelConfig config;
  TensorTable table;
  std::shared_ptr<const GgufFile> gguf;  // null for a directory
  PartsOfModules parts = {};
  std::vector<int32_t> draft_tokens = {};
  bool has_compared_head = false;  // with the embedding
};

namespace {

Result<Checkpoint::Impl> open_directory(const std::filesystem::path& dir) {
  FORERUN_RETURN_IF_ERROR(check_directory(dir));
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_model_config(dir));
  FORERUN_RETURN_IF_ERROR(read_old_quantization(dir, config));
  FORERUN_ASSIGN_OR_RETURN(TensorTable table, TensorTable::open(dir));
  Checkpoint::Impl impl{dir, std::move(config), std::move(table), nullptr, {}, {}};
  // transformers, too, uses a head that differs from the embedding, whatever config.json says.
  impl.has_compared_head = impl.config.tied_embeddings;
  if (impl.has_compared_head && has_head_of_its_own(impl.table)) {
    impl.config.tied_embeddings = false;
  }
  return impl;
}

// Checks that a head that shares the target's embedding or LM head has the target's width.
Status check_shared_modules(const TensorTable& table, const ModelConfig& config) {
  const Eagle3Config& head = *config.eagle3;
  const auto refuse = [&](ModuleKind kind, const std::string& accepted) {
    return Status(StatusCode::kNotFound, table.main_file().string() + ": tensor \"" +
                                             table.spelling(weight_name({kind})) +
                                             "\": not found; accepted: " + accepted);
  };
  if (!head.own_head && head.draft_vocab_size != config.vocab_size) {
    return refuse(ModuleKind::kHead, "a head of " + std::to_string(head.draft_vocab_size) +
                                         " rows, as draft_vocab_size says, or, to use the "
                                         "target's head, draft_vocab_size " +
                                         std::to_string(config.vocab_size));
  }
  if (!(head.own_head && head.own_embedding) && config.hidden_size != head.target_hidden_size) {
    return refuse(head.own_embedding ? ModuleKind::kHead : ModuleKind::kEmbedding,
                  "one of width " + std::to_string(config.hidden_size) +
                      ", as hidden_size says: the target's is " +
                      std::to_string(head.target_hidden_size) + " wide");
  }
  if (table.find(bias_name({ModuleKind::kTapProjection})) != nullptr) {
    return Status(StatusCode::kUnsupported,
                  table.main_file().string() + ": tensor \"" +
                      table.spelling(bias_name({ModuleKind::kTapProjection})) +
                      "\": found a bias; accepted: a projection without one");
  }
  return Status();
}

// Determines which modules an EAGLE-3 head has, and its tokens.
Result<Checkpoint::Impl> complete_head(Checkpoint::Impl impl) {
  Eagle3Config& head = *impl.config.eagle3;
  head.own_embedding = impl.table.find(weight_name({ModuleKind::kEmbedding})) != nullptr;
  head.own_head = impl.table.find(weight_name({ModuleKind::kHead})) != nullptr;
  FORERUN_RETURN_IF_ERROR(check_shared_modules(impl.table, impl.config));
  FORERUN_ASSIGN_OR_RETURN(impl.draft_tokens, read_draft_tokens(impl.table, impl.config));
  return impl;
}

Result<Checkpoint::Impl> open_eagle3_directory(const std::filesystem::path& dir) {
  FORERUN_RETURN_IF_ERROR(check_directory(dir));
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_eagle3_config(dir));
  FORERUN_RETURN_IF_ERROR(read_old_quantization(dir, config));
  FORERUN_ASSIGN_OR_RETURN(TensorTable table, TensorTable::open(dir));
  return complete_head({dir, std::move(config), std::move(table), nullptr, {}, {}});
}

using GgufFilePtr = std::shared_ptr<const GgufFile>;

Result<GgufFilePtr> open_gguf_file(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(GgufFile opened, GgufFile::open(path));
  return GgufFilePtr(std::make_shared<const GgufFile>(std::move(opened)));
}

Checkpoint::Impl tensors_of_gguf(const std::filesystem::path& path, GgufFilePtr file,
                                 ModelConfig config) {
  TensorTable table = TensorTable::of_gguf(file, interleaved_head(*file, config));
  return {path, std::move(config), std::move(table), std::move(file), {}, {}};
}

Result<Checkpoint::Impl> open_gguf(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(GgufFilePtr file, open_gguf_file(path));
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_gguf_config(*file));
  return tensors_of_gguf(path, std::move(file), std::move(config));
}

Result<Checkpoint::Impl> open_eagle3_gguf(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(GgufFilePtr file, open_gguf_file(path));
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_gguf_eagle3_config(*file));
  return complete_head(tensors_of_gguf(path, std::move(file), std::move(config)));
}

// Returns whether a directory or GGUF file that can be opened is an EAGLE-3 head.
bool is_head(const std::filesystem::path& path) {
  if (!is_gguf_path(path)) return describes_eagle3(path);
  const auto file = GgufFile::open(path);
  return file.ok() && describes_eagle3(*file);
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(Impl impl, is_gguf_path(path) ? open_gguf(path) : open_directory(path));
  FORERUN_RETURN_IF_ERROR(check_tensors(impl.table, impl.config, impl.parts));
  if (!impl.config.dtype_stated) {
    impl.config.dtype = impl.table.find(weight_name({ModuleKind::kEmbedding}))->dtype;
  }
  return Checkpoint(std::make_unique<Impl>(std::move(impl)));
}

Result<Checkpoint> Checkpoint::open_eagle3(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(
      Impl impl, is_gguf_path(path) ? open_eagle3_gguf(path) : open_eagle3_directory(path));
  FORERUN_RETURN_IF_ERROR(check_tensors(impl.table, impl.config, impl.parts));
  if (!impl.config.dtype_stated) {
    impl.config.dtype = impl.table.find(weight_name({ModuleKind::kFinalNorm}))->dtype;
  }
  return Checkpoint(std::make_unique<Impl>(std::move(impl)));
}

Result<Checkpoint> Checkpoint::open_draft(const std::filesystem::path& path) {
  return is_head(path) ? open_eagle3(path) : open(path);
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::filesystem::path& Checkpoint::path() const { return impl_->path; }
std::string Checkpoint::name() const {
  if (impl_->gguf != nullptr) {
    const bool is_named = lower_case(impl_->path.extension().string()) == ".gguf";
    return (is_named ? impl_->path.stem() : impl_->path.filename()).string();
  }
  // This also finds the folder's name for "." and for a path that ends with a slash.
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(impl_->path, error);
  const std::filesystem::path plain = (whole / "").lexically_normal().parent_path();
  return plain.filename().string();
}
const GgufFile* Checkpoint::gguf() const { return impl_->gguf.get(); }
Result<GenerationDefaults> Checkpoint::generation_defaults() const {
  return impl_->gguf != nullptr ? read_gguf_defaults(*impl_->gguf)
                                : read_generation_defaults(impl_->path);
}
const ModelConfig& Checkpoint::config() const { return impl_->config; }
std::span<const int32_t> Checkpoint::draft_tokens() const { return impl_->draft_tokens; }

void Checkpoint::extend_positions(int32_t max_position) {
  impl_->config.max_position = std::max(impl_->config.max_position, max_position);
}

const RawTensor* Checkpoint::weight(ModuleId module) const {
  const auto found = impl_->parts.find({module.kind, module.layer});
  if (found != impl_->parts.end()) return &found->second.tensor();
  return impl_->table.find(weight_name(module));
}
const RawTensor* Checkpoint::bias(ModuleId module) const {
  return impl_->table.find(bias_name(module));
}
std::vector<ModuleTensor> Checkpoint::tensors_of(ModuleId module) const {
  std::vector<ModuleTensor> found;
  if (const RawTensor* const tensor = weight(module)) {
    if (tensor->parts != nullptr) {
      found = tensor->parts->tensors();
    } else {
      found.push_back({weight_name(module), tensor});
    }
  }
  if (const RawTensor* const tensor = bias(module)) found.push_back({bias_name(module), tensor});
  return found;
}
const std::filesystem::path& Checkpoint::file_of(const RawTensor& tensor) const {
  return impl_->table.file_of(tensor);
}
int64_t Checkpoint::offset_of(const RawTensor& tensor) const {
  return impl_->table.offset_of(tensor);
}
std::vector<std::filesystem::path> Checkpoint::weight_files() const { return impl_->table.files(); }
std::vector<const RawTensor*> Checkpoint::read_tensors() const {
  std::vector<const RawTensor*> read;
  for (const auto& [module, parts] : impl_->parts) {
    read.insert(read.end(), parts.read_tensors().begin(), parts.read_tensors().end());
  }
  std::vector<std::string> names = {"d2t", std::string(kGgufRopeFactors)};
  for (const Module& module : decoder_modules(impl_->config)) {
    if (!module.has_bias) names.push_back(bias_name(module.id));  // of zeros, if there is one
  }
  if (impl_->has_compared_head) {
    for (const ModuleKind kind : {ModuleKind::kHead, ModuleKind::kEmbedding}) {
      names.push_back(weight_name({kind}));
    }
  }
  for (const std::string& name : names) {
    if (const RawTensor* const tensor = impl_->table.find(name)) read.push_back(tensor);
  }
  return read;
}
std::span<const RawTensor> Checkpoint::tensors() const { return impl_->table.tensors(); }

void Checkpoint::release_pages(const RawTensor& tensor) const {
  if (tensor.parts == nullptr) return drop_mapped_pages(tensor.bytes);
  for (const ModuleTensor& part : tensor.parts->tensors()) drop_mapped_pages(part.tensor->bytes);
}
void Checkpoint::prefetch_pages(const RawTensor& tensor) const {
  read_ahead_mapped_pages(tensor.bytes);
}

std::string_view format_name(const RawTensor& tensor) {
  if (tensor.parts != nullptr) return tensor.parts->name();
  return tensor.blocks == nullptr ? dtype_name(tensor.dtype) : tensor.blocks->name;
}

int64_t stored_bytes(const RawTensor& tensor) {
  return tensor.parts != nullptr ? tensor.parts->stored_bytes()
                                 : static_cast<int64_t>(tensor.bytes.size());
}

}  // namespace forerun
