// Makes the TensorTable of a GGUF file.
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/modules.h"
#include "checkpoint/tensor_table.h"

namespace forerun {
namespace {

bool is_rotated(std::string_view name) {
  const auto module = find_module(name, ModuleNaming::kGguf);
  return module && (module->id.kind == ModuleKind::kQ || module->id.kind == ModuleKind::kK);
}

}  // namespace

TensorTable TensorTable::of_gguf(std::shared_ptr<const GgufFile> file, int64_t interleaved_head) {
  TensorTable table;
  table.naming_ = ModuleNaming::kGguf;
  table.main_file_ = file->files().front().path();
  for (const GgufFileTensor& each : file->tensors()) {
    const BlockFormatInfo* const blocks = find_ggml_block_format(each.ggml_type);
    const std::optional<DType> dtype = ggml_dtype(each.ggml_type);
    if (blocks == nullptr && !dtype) {
      table.foreign_.emplace(std::string(each.name), ggml_type_name(each.ggml_type));
      continue;
    }
    table.tensors_.push_back(RawTensor{
        .name = each.name,
        .dtype = dtype.value_or(DType::kBlocks),
        .shape = each.shape,
        .bytes = each.bytes,
        .blocks = blocks,
        .interleaved_head = is_rotated(each.name) ? interleaved_head : 0,
    });
  }
  table.gguf_ = std::move(file);
  table.sort_tensors();
  return table;
}

}  // namespace forerun
