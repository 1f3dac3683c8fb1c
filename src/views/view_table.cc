#include "views/view_table.h"

#include "views/streaming_llm.h"

namespace forerun {
namespace {

template <class View>
constexpr KvViewEntry entry(const char* name, const char* help) {
  return {name, help, View::check, View::make};
}

constexpr KvViewEntry kTable[] = {
    entry<StreamingLlm>("streaming_llm", "the first tokens and the last ones, where they lie"),
};

}  // namespace

std::span<const KvViewEntry> view_table() { return kTable; }

const KvViewEntry* find_view(const std::string& name) {
  for (const KvViewEntry& view : kTable) {
    if (name == view.name) return &view;
  }
  return nullptr;
}

std::string view_names() {
  std::string names;
  for (const KvViewEntry& view : kTable) {
    names += (names.empty() ? "" : ", ") + std::string(view.name);
  }
  return names;
}

}  // namespace forerun
