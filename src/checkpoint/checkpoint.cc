#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/gguf/gguf_config.h"
#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/tensor_checks.h"
#include "checkpoint/tensor_table.h"
#include "json/field_reader.h"
#include "json/json_document.h"

namespace forerun {
namespace {

constexpr int64_t kMaxSideFileBytes = 1 << 20;

// Quantizers before transformers 4.35 described their work in a file of its own.
Status read_old_quantization_files(const std::filesystem::path& dir, ModelConfig& config) {
  if (config.quantization.kind != QuantizationConfig::Kind::kNone) return Status();
  std::error_code error;
  if (std::filesystem::exists(dir / "quantize_config.json", error)) {
    return Status(StatusCode::kUnsupported,
                  (dir / "quantize_config.json").string() +
                      ": found a GPTQ description; accepted: AWQ with 4 bits, version \"gemm\", or "
                      "no quantization; take the original bf16 or f16 checkpoint, or quantize that "
                      "with AutoAWQ");
  }
  const auto document = JsonDocument::read(dir / "quant_config.json", kMaxSideFileBytes);
  if (!document.ok()) {
    return document.status().code() == StatusCode::kNotFound ? Status() : document.status();
  }
  FieldReader fields(document->root());
  read_awq_fields(fields, config.quantization);
  return fields.status();
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, error);
}

Status check_directory(const std::filesystem::path& dir) {
  std::error_code error;
  if (!std::filesystem::exists(dir, error)) {
    return Status(StatusCode::kNotFound, dir.string() + ": no such directory");
  }
  if (!std::filesystem::is_directory(dir, error)) return refuse_file(dir);
  if (std::filesystem::exists(dir / "config.json", error)) return Status();
  // Other formats have no config.json; naming them helps more than naming the missing file.
  Status other = refuse_weights_of(dir);
  if (other.code() == StatusCode::kUnsupported) return other;
  return Status(StatusCode::kNotFound,
                (dir / "config.json").string() + ": " + (error ? error.message() : "no such file"));
}

}  // namespace

struct Checkpoint::Impl {
  std::filesystem::path path;
  ModelConfig config;
  TensorTable table;
  std::shared_ptr<const GgufFile> gguf;  // null for a directory
};

namespace {

Result<Checkpoint::Impl> open_directory(const std::filesystem::path& dir) {
  FORERUN_RETURN_IF_ERROR(check_directory(dir));
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_model_config(dir));
  FORERUN_RETURN_IF_ERROR(read_old_quantization_files(dir, config));
  FORERUN_ASSIGN_OR_RETURN(TensorTable table, TensorTable::open(dir));
  // transformers, too, uses a head that differs from the embedding, whatever config.json says.
  if (config.tied_embeddings && has_head_of_its_own(table)) config.tied_embeddings = false;
  return Checkpoint::Impl{dir, std::move(config), std::move(table), nullptr};
}

Result<Checkpoint::Impl> open_gguf(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(GgufFile opened, GgufFile::open(path));
  auto file = std::make_shared<const GgufFile>(std::move(opened));
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_gguf_config(*file));
  TensorTable table = TensorTable::of_gguf(file, interleaved_head(*file, config));
  return Checkpoint::Impl{path, std::move(config), std::move(table), std::move(file)};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(Impl impl, is_gguf(path) ? open_gguf(path) : open_directory(path));
  FORERUN_RETURN_IF_ERROR(check_tensors(impl.table, impl.config));
  if (!impl.config.dtype_stated) {
    impl.config.dtype = impl.table.find(weight_name({ModuleKind::kEmbedding}))->dtype;
  }
  return Checkpoint(std::make_unique<Impl>(std::move(impl)));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::filesystem::path& Checkpoint::path() const { return impl_->path; }
std::string Checkpoint::name() const {
  return (impl_->gguf != nullptr ? impl_->path.stem() : impl_->path.filename()).string();
}
const GgufFile* Checkpoint::gguf() const { return impl_->gguf.get(); }
Result<GenerationDefaults> Checkpoint::generation_defaults() const {
  return impl_->gguf != nullptr ? read_gguf_defaults(*impl_->gguf)
                                : read_generation_defaults(impl_->path);
}
const ModelConfig& Checkpoint::config() const { return impl_->config; }

void Checkpoint::extend_positions(int32_t max_position) {
  impl_->config.max_position = std::max(impl_->config.max_position, max_position);
}

const RawTensor* Checkpoint::weight(ModuleId module) const {
  return impl_->table.find(weight_name(module));
}
const RawTensor* Checkpoint::bias(ModuleId module) const {
  return impl_->table.find(bias_name(module));
}
std::vector<ModuleTensor> Checkpoint::tensors_of(ModuleId module) const {
  std::vector<ModuleTensor> found;
  const std::string name = module_name(module, ModuleNaming::kHuggingFace);
  for (const char* const part : {".weight", ".qweight", ".qzeros", ".scales", ".bias"}) {
    if (const RawTensor* const tensor = impl_->table.find(name + part)) {
      found.push_back({name + part, tensor});
    }
  }
  return found;
}
const std::filesystem::path& Checkpoint::file_of(const RawTensor& tensor) const {
  return impl_->table.file_of(tensor);
}
int64_t Checkpoint::offset_of(const RawTensor& tensor) const {
  return impl_->table.offset_of(tensor);
}
std::span<const RawTensor> Checkpoint::tensors() const { return impl_->table.tensors(); }

void Checkpoint::release_pages(const RawTensor& tensor) const { drop_mapped_pages(tensor.bytes); }
void Checkpoint::prefetch_pages(const RawTensor& tensor) const {
  read_ahead_mapped_pages(tensor.bytes);
}

Result<AwqTensors> Checkpoint::awq_tensors(ModuleId module) const {
  auto parts = find_awq_parts(impl_->table, module, impl_->config.quantization);
  if (!parts.ok()) return parts.status().with_context(impl_->path.string());
  return parts;
}

}  // namespace forerun
