#include "checkpoint/tensor_table.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/lfs_pointer.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/modules.h"
#include "checkpoint/other_formats.h"
#include "json/field_reader.h"
#include "json/json_document.h"

namespace forerun {
namespace {

constexpr std::string_view kPrefix = "model.";
// EAGLE-3 heads have another name for their first layer.
constexpr std::string_view kFirstLayer = "model.layers.0.";
constexpr std::string_view kMidlayer = "midlayer.";
constexpr int64_t kMaxIndexBytes = 100'000'000;

using ShardMap = std::map<std::string, std::vector<std::string>>;  // shard to tensor names

// Returns whether a shard lies in the directory itself or below it; symbolic links may lead
// elsewhere, as they do in the Hugging Face cache.
bool stays_inside(const std::string& shard) {
  const std::filesystem::path path(shard);
  if (shard.empty() || path.has_root_path() || shard.find('\0') != shard.npos) return false;
  return std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

Result<ShardMap> read_index(const std::filesystem::path& file) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::read(file, kMaxIndexBytes, true));
  FieldReader fields(document.root());
  auto weight_map = fields.object("weight_map");
  if (!weight_map && fields.ok()) {
    fields.refuse("weight_map", "an object from tensor to shard", StatusCode::kCorrupt);
  }
  if (!fields.ok()) return fields.status();
  ShardMap shards;
  for (const std::string& tensor : weight_map->keys()) {
    const auto shard = weight_map->string(tensor);
    if (!shard || !stays_inside(*shard)) {
      weight_map->refuse(tensor, "the name of a file in the same directory", StatusCode::kCorrupt);
      return fields.status();
    }
    shards[*shard].push_back(tensor);
  }
  return shards;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<TensorTable> TensorTable::open(const std::filesystem::path& dir) {
  TensorTable table;
  std::error_code error;
  table.main_file_ = dir / "model.safetensors";
  const std::filesystem::path index = dir / "model.safetensors.index.json";
  // An index lists the files of the model. A model.safetensors beside it may belong to another
  // model, so it is read only if the index names it.
  if (std::filesystem::exists(index, error)) {
    const std::filesystem::path whole = std::exchange(table.main_file_, index);
    FORERUN_ASSIGN_OR_RETURN(const ShardMap shards, read_index(index));
    const bool leaves_out =
        !shards.contains(whole.filename().string()) && std::filesystem::exists(whole, error);
    for (const auto& [shard, names] : shards) {
      const Status added = table.add_file(dir / shard, &names);
      if (added.code() == StatusCode::kNotFound && leaves_out) {
        return Status(added.code(), added.message() + "; to read " + whole.string() +
                                        ", which the index does not name, remove the index");
      }
      FORERUN_RETURN_IF_ERROR(added);
    }
    if (leaves_out) {
      log_line(LogLevel::kWarning,
               whole.string() + ": left out, " + index.filename().string() + " names other files");
    }
  } else if (std::filesystem::exists(table.main_file_, error)) {
    FORERUN_RETURN_IF_ERROR(table.add_file(table.main_file_, nullptr));
  } else if (std::filesystem::is_symlink(table.main_file_, error)) {
    return Status(StatusCode::kNotFound,
                  table.main_file_.string() +
                      ": a symbolic link to a file that is not there "
                      "(an interrupted download?); accepted: a file, or a link to "
                      "one");
  } else {
    return refuse_weights_of(dir);
  }
  table.finish();
  return table;
}

Status TensorTable::add_file(const std::filesystem::path& file,
                             const std::vector<std::string>* listed) {
  auto mapped = MappedFile::open(file);
  if (!mapped.ok()) {
    if (listed == nullptr) return mapped.status();
    const Status of_shard = mapped.status().with_context(main_file_.string() + ": shard");
    if (of_shard.code() != StatusCode::kNotFound) return of_shard;
    return Status(of_shard.code(), of_shard.message() +
                                       "; accepted: every shard that the index names, beside it "
                                       "(an interrupted download? hf download brings what is "
                                       "missing)");
  }
  FORERUN_RETURN_IF_ERROR(refuse_lfs_pointer(text_of(mapped->bytes()), file.string()));
  auto entries = parse_safetensors_header(mapped->bytes(), mapped->bytes().size());
  if (!entries.ok()) return entries.status().with_context(file.string());
  if (listed != nullptr) {
    std::vector<std::string_view> names;
    for (const SafetensorsEntry& entry : *entries) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    for (const std::string& name : *listed) {
      if (!std::binary_search(names.begin(), names.end(), std::string_view(name))) {
        return Status(StatusCode::kCorrupt, file.string() + ": tensor \"" + printable(name) +
                                                "\": not found, though " + main_file_.string() +
                                                " places it there; accepted: the file and the "
                                                "index of one checkpoint");
      }
    }
    std::vector<std::string_view> kept(listed->begin(), listed->end());
    std::sort(kept.begin(), kept.end());
    std::erase_if(*entries, [&](const SafetensorsEntry& entry) {
      return !std::binary_search(kept.begin(), kept.end(), std::string_view(entry.name));
    });
  }
  files_.push_back(std::move(mapped).value());
  entries_.push_back(std::move(entries).value());
  return Status();
}

void TensorTable::finish() {
  for (size_t file = 0; file < files_.size(); ++file) {
    for (const SafetensorsEntry& entry : entries_[file]) {
      if (!entry.dtype) {
        foreign_.emplace(entry.name, entry.dtype_name);
        continue;
      }
      tensors_.push_back(RawTensor{
          .name = entry.name,
          .dtype = *entry.dtype,
          .shape = entry.shape,
          .bytes = files_[file].bytes().subspan(entry.begin, entry.end - entry.begin),
      });
    }
  }
  sort_tensors();
  const std::string embedding = weight_name({ModuleKind::kEmbedding});
  // An EAGLE-3 head may have no embedding, but has a projection of taps.
  bare_names_ =
      find(embedding) == nullptr &&
      (find_spelled(embedding.substr(kPrefix.size())) != nullptr || any_begins_with("fc."));
  has_midlayer_ = any_begins_with(kMidlayer);
}

void TensorTable::sort_tensors() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const RawTensor& left, const RawTensor& right) { return left.name < right.name; });
}

std::string TensorTable::spelling(std::string_view name) const {
  if (is_gguf()) {
    const auto found = find_module(name, ModuleNaming::kHuggingFace);
    if (!found) return std::string(name);
    return module_name(found->id, ModuleNaming::kGguf) + "." + std::string(found->part);
  }
  if (has_midlayer_ && name.starts_with(kFirstLayer)) {
    return std::string(kMidlayer).append(name.substr(kFirstLayer.size()));
  }
  if (bare_names_ && name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::string(name);
}

bool TensorTable::any_begins_with(std::string_view prefix) const {
  const auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), prefix,
      [](const RawTensor& tensor, std::string_view key) { return tensor.name < key; });
  return it != tensors_.end() && it->name.starts_with(prefix);
}

const RawTensor* TensorTable::find_spelled(std::string_view name) const {
  const auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const RawTensor& tensor, std::string_view key) { return tensor.name < key; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

const RawTensor* TensorTable::find(std::string_view name) const {
  return find_spelled(spelling(name));
}

std::string_view TensorTable::foreign_dtype(std::string_view name) const {
  const auto it = foreign_.find(spelling(name));
  return it == foreign_.end() ? std::string_view() : std::string_view(it->second);
}

std::string_view TensorTable::described_by() const {
  return is_gguf() ? "the file's metadata" : "config.json";
}

std::span<const MappedFile> TensorTable::mapped_files() const {
  return gguf_ != nullptr ? gguf_->files() : std::span(files_);
}

std::vector<std::filesystem::path> TensorTable::files() const {
  std::vector<std::filesystem::path> paths;
  for (const MappedFile& file : mapped_files()) paths.push_back(file.path());
  return paths;
}

const MappedFile* TensorTable::mapped_file(const RawTensor& tensor) const {
  for (const MappedFile& file : mapped_files()) {
    const auto bytes = file.bytes();
    if (tensor.bytes.data() >= bytes.data() && tensor.bytes.data() <= bytes.data() + bytes.size()) {
      return &file;
    }
  }
  return nullptr;
}

const std::filesystem::path& TensorTable::file_of(const RawTensor& tensor) const {
  const MappedFile* const file = mapped_file(tensor);
  return file == nullptr ? main_file_ : file->path();
}

int64_t TensorTable::offset_of(const RawTensor& tensor) const {
  const MappedFile* const file = mapped_file(tensor);
  return file == nullptr ? 0 : tensor.bytes.data() - file->bytes().data();
}

}  // namespace forerun
