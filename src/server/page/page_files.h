// The files of the page at `/`. They are part of the program: nothing is read at run time, and the
// page loads nothing from other servers.
//
// Thread rules: any thread.
#pragma once

#include <string_view>

namespace forerun::server {

struct PageFile {
  std::string_view path;  // "/" or "/page/main.js"
  std::string_view content_type;
  std::string_view bytes;
};

// Returns null if the page has no such file.
const PageFile* find_page_file(std::string_view path);

// The page's content security policy: browsers may load its own scripts and styles and call its own
// server, but nothing else, and may not show it in another page's frame.
inline constexpr std::string_view kPageSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace forerun::server
