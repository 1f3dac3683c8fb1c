// The page's files, which embed_files.cmake compiles into the program.
#pragma once

#include <string_view>
#include <vector>

namespace forerun::server {

struct EmbeddedFile {
  std::string_view name;  // "main.js"
  std::string_view bytes;
};

const std::vector<EmbeddedFile>& embedded_files();

}  // namespace forerun::server
