#include "server/page/page_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace forerun::server {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(FORERUN_SOURCE_DIR) / "src" / "server" / "page";

bool is_of_page(const fs::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".html" || extension == ".css" || extension == ".js" || extension == ".svg";
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

TEST(PageFiles, HoldsEveryFileOfTheFolderByteForByte) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (!is_of_page(entry.path())) continue;
    ++files;
    const std::string name = entry.path().filename().string();
    const PageFile* const found = find_page_file(name == "index.html" ? "/" : "/page/" + name);
    ASSERT_NE(found, nullptr) << name << ": src/server/page/CMakeLists.txt does not name it";
    EXPECT_EQ(found->bytes, text_of(entry.path())) << name;
  }
  EXPECT_GE(files, 4);
}

TEST(PageFiles, NamesTheirContentTypes) {
  EXPECT_EQ(find_page_file("/")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(find_page_file("/page/main.js")->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(find_page_file("/page/style.css")->content_type, "text/css; charset=utf-8");
  EXPECT_EQ(find_page_file("/page/icon.svg")->content_type, "image/svg+xml");
}

TEST(PageFiles, KnowsNoOtherPath) {
  for (const char* const path : {"", "/page", "/page/", "/page/none.js", "/page/../main.js",
                                 "/main.js", "/page/index.html", "/page/page_files.cc"}) {
    EXPECT_EQ(find_page_file(path), nullptr) << path;
  }
}

// The policy would refuse a style or script within the document, and anything from other servers.
TEST(PageFiles, NeedsNothingThatThePolicyRefuses) {
  const std::string index(find_page_file("/")->bytes);
  for (const char* const refused : {"<style", " style=", " onclick=", "http://", "https://"}) {
    EXPECT_EQ(index.find(refused), std::string::npos) << refused;
  }
  EXPECT_EQ(kPageSecurityPolicy.find("unsafe"), std::string_view::npos);
}

// Model text is inserted into the document only as text.
TEST(PageFiles, SetsNoMarkup) {
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".js") continue;
    const std::string script = text_of(entry.path());
    for (const char* const markup : {"innerHTML", "outerHTML", "insertAdjacentHTML",
                                     "document.write", "DOMParser", "eval(", "new Function"}) {
      EXPECT_EQ(script.find(markup), std::string::npos) << entry.path() << ": " << markup;
    }
  }
}

}  // namespace
}  // namespace forerun::server
