// Values of a chat template: what Python objects are to Jinja, as far as templates use them.
//
// Strings, lists and dicts are immutable and shared; only a namespace changes. Containers know how
// deep they nest, so that nothing a template builds can exhaust the stack when it is printed or
// freed. Not thread-safe across one render; a render shares nothing with another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "forerun/status.h"

namespace forerun::text::jinja {

class Value;
struct Statement;

using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in order of insertion, keys unique

// Deepest nesting of lists and dicts.
constexpr uint32_t kMaxValueDepth = 64;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
};

// Built-in functions.
enum class Function : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

struct LoopState {
  const List* items = nullptr;  // of the loop that is running
  size_t index0 = 0;
  uint32_t depth = 1;
};

class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> name;  // for messages
  };
  struct Method {
    std::shared_ptr<const Value> self;
    std::string name;
  };
  template <class Items>
  struct Container {
    Items items;
    uint32_t depth = 1;
    bool holds_namespace = false;
    bool is_tuple = false;
  };
  struct Namespace {
    Dict members;
  };

  Value() : data_(Undefined{}) {}  // undefined, unnamed
  static Value undefined(std::string name);
  static Value none();
  static Value boolean(bool flag);
  static Value integer(int64_t number);
  static Value real(double number);
  static Value string(std::string text);
  static Value function(Function which);
  static Value macro(const Statement* definition);
  static Value loop(std::shared_ptr<const LoopState> state);
  static Value method(Value self, std::string name);
  static Value new_namespace();
  // Fail with kResourceExhausted past kMaxValueDepth.
  static Result<Value> list(List items, bool is_tuple = false);
  static Result<Value> dict(Dict items);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_number() const {
    return kind() == Kind::kInt || kind() == Kind::kFloat || kind() == Kind::kBool;
  }

  // Each only for its kind; as_int and as_float take booleans and integers, too.
  const std::string& as_string() const;
  const List& as_list() const;
  const Dict& as_dict() const;
  bool is_tuple() const;
  int64_t as_int() const;
  double as_float() const;
  Function as_function() const { return std::get<Function>(data_); }
  const Statement* as_macro() const { return std::get<const Statement*>(data_); }
  const LoopState& as_loop() const;
  const Method& as_method() const;
  const std::string& undefined_name() const;

  // A member of a dict or namespace; null if there is none.
  const Value* find(std::string_view key) const;
  // Sets a namespace's member. Fails where `member` holds a namespace: it could hold itself.
  Status set_member(std::string_view key, Value member);

  // Python's truth of a value.
  bool truth() const;
  bool holds_namespace() const;
  uint32_t depth() const;

  // How messages call the kind, e.g. "a string".
  const char* kind_name() const;

 private:
  template <class T>
  explicit Value(std::in_place_t, T data) : data_(std::move(data)) {}
  template <class T>
  static Value make(T data) {
    return Value(std::in_place, std::move(data));
  }

  // In the order of Kind.
  std::variant<Undefined, std::monostate, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Container<List>>, std::shared_ptr<const Container<Dict>>,
               std::shared_ptr<Namespace>, std::shared_ptr<const LoopState>, const Statement*,
               Function, std::shared_ptr<const Method>>
      data_;
};

// Python's ==.
bool equal(const Value& a, const Value& b);
// -1, 0 or 1 as Python orders numbers, strings and lists; kInvalidArgument for other pairs.
Result<int> compare(const Value& a, const Value& b);

// Python's str() and repr().
std::string to_text(const Value& value);
std::string to_repr(const Value& value);

}  // namespace forerun::text::jinja
