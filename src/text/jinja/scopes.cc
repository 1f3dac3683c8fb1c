#include "text/jinja/scopes.h"

#include <utility>

namespace forerun::text::jinja {

void Scopes::open(std::optional<size_t> parent) {
  Scope scope;
  scope.id = next_id_++;
  scope.parent = parent ? *parent : scopes_.size() - 1;
  scopes_.push_back(std::move(scope));
}

Value Scopes::macro_here(const Statement& definition) const {
  return Value::macro({&definition, scopes_.size() - 1, scopes_.back().id});
}

Value Scopes::lookup(const std::string& name) const {
  const auto find = [&](const Names& names) -> const Value* {
    for (const auto& entry : names) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  };
  for (size_t i = scopes_.size() - 1;; i = scopes_[i].parent) {
    if (const Value* found = find(scopes_[i].names)) return *found;
    if (scopes_[i].parent == i) break;
  }
  const Value* found = find(variables_);
  return found ? *found : Value::undefined(name);
}

void Scopes::assign(const std::string& name, Value value) {
  for (auto& entry : scopes_.back().names) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  scopes_.back().names.emplace_back(name, std::move(value));
}

}  // namespace forerun::text::jinja
