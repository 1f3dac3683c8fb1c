// Writes safetensors files and temporary directories for tests.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "checkpoint/testing.h"

namespace forerun {
namespace {

Status write_bytes(const std::filesystem::path& file, std::initializer_list<std::string_view> parts,
                   std::span<const StoredTensor> tensors) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  for (const std::string_view part : parts) {
    stream.write(part.data(), static_cast<std::streamsize>(part.size()));
  }
  for (const StoredTensor& tensor : tensors) {
    stream.write(reinterpret_cast<const char*>(tensor.bytes.data()),
                 static_cast<std::streamsize>(tensor.bytes.size()));
  }
  stream.close();
  return stream.good() ? Status()
                       : Status(StatusCode::kInternal, file.string() + ": cannot be written");
}

}  // namespace

Status write_safetensors(const std::filesystem::path& file, std::span<const StoredTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  size_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    nlohmann::ordered_json& entry = header[tensor.name];
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + tensor.bytes.size()};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string length_bytes(8, '\0');
  std::memcpy(length_bytes.data(), &length, 8);
  return write_bytes(file, {length_bytes, text}, tensors);
}

Status write_text(const std::filesystem::path& file, const std::string& text) {
  return write_bytes(file, {text}, {});
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "forerun-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace forerun
