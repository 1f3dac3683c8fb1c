// The names visible to a template's statements: a stack of nested scopes, and the variables around
// all of them.
//
// Thread rules: one render uses one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

class Scopes {
 public:
  // Opens the outermost scope. Names of scopes can hide `variables`, but not change them.
  explicit Scopes(Names variables) : variables_(std::move(variables)), scopes_(1) {}

  // Opens a scope within the one at index `parent`; without it, within the innermost.
  void open(std::optional<size_t> parent = std::nullopt);
  // Closes the innermost scope, which open() has opened.
  void close() { scopes_.pop_back(); }

  // Returns the value of the nearest name, seen from the innermost scope; undefined if there is
  // none.
  Value lookup(const std::string& name) const;
  // Sets a name of the innermost scope.
  void assign(const std::string& name, Value value);

  // Returns a macro that sees the innermost scope while that is open.
  Value macro_here(const Statement& definition) const;
  // Returns whether the scope in which the macro was defined is still open.
  bool is_open(const Value::Macro& macro) const {
    return macro.scope_index < scopes_.size() && scopes_[macro.scope_index].id == macro.scope_id;
  }

 private:
  struct Scope {
    Names names;
    uint64_t id = 0;    // never reused
    size_t parent = 0;  // index of the enclosing scope; its own index: none
  };

  const Names variables_;
  std::vector<Scope> scopes_;
  uint64_t next_id_ = 1;
};

}  // namespace forerun::text::jinja
