#include "server/page/page_files.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/page/page_data.h"

namespace forerun::server {
namespace {

constexpr std::string_view kIndex = "index.html";

std::string_view content_type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

struct PageFiles {
  std::vector<std::string> paths;  // paths that `files` points to
  std::vector<PageFile> files;
};

PageFiles make_page_files() {
  PageFiles page;
  for (const EmbeddedFile& file : embedded_files()) {
    page.paths.push_back(file.name == kIndex ? "/" : "/page/" + std::string(file.name));
  }
  for (size_t idx = 0; idx < page.paths.size(); ++idx) {
    const EmbeddedFile& file = embedded_files()[idx];
    page.files.push_back({page.paths[idx], content_type_of(file.name), file.bytes});
  }
  return page;
}

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  static const PageFiles page = make_page_files();
  const auto found = std::find_if(page.files.begin(), page.files.end(),
                                  [&](const PageFile& file) { return file.path == path; });
  return found == page.files.end() ? nullptr : &*found;
}

}  // namespace forerun::server
