#include "output.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

namespace forerun::app {

Status flush_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return Status();
  const int error = errno;
  return Status(StatusCode::kResourceExhausted,
                "standard output: cannot be written" +
                    (error == 0 ? std::string() : ": " + std::string(std::strerror(error))));
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

Status write_output(const std::string& flag, const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return flush_stdout();
  }
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return Status();
  return Status(StatusCode::kInvalidArgument,
                flag + ": '" + path +
                    "' cannot be written: " + std::strerror(errno == 0 ? EIO : errno) +
                    "; accepted: a file's path, or - for standard output");
}

}  // namespace forerun::app
