#include "server/output/end_names.h"

#include <algorithm>
#include <utility>

namespace forerun::server {

EndNames::EndNames(std::vector<std::string> names) : names_(std::move(names)) {
  std::erase_if(names_, [](const std::string& name) { return name.empty(); });
}

void EndNames::take(char byte, std::string& out) {
  partial_ += byte;
  while (!partial_.empty()) {
    bool may_go_on = false;
    for (const std::string& name : names_) {
      if (name == partial_) {
        complete_ += std::exchange(partial_, {});
        return;
      }
      may_go_on = may_go_on || name.starts_with(partial_);
    }
    if (may_go_on) return;
    out += std::exchange(complete_, {});
    out += partial_.front();
    partial_.erase(0, 1);
  }
}

void EndNames::push(std::string_view text, std::string& out) {
  if (names_.empty()) {
    out += text;
    return;
  }
  for (const char byte : text) take(byte, out);
}

void EndNames::finish(std::string& out) {
  if (partial_.empty()) return;
  out += std::exchange(complete_, {});
  out += std::exchange(partial_, {});
}

}  // namespace forerun::server
