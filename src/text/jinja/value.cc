#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

namespace forerun::text::jinja {
namespace {

const std::string kNoName;

template <class Container>
Status check_depth(const Container& container) {
  if (container.depth <= kMaxValueDepth) return {};
  return Status(StatusCode::kResourceExhausted,
                "value nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
}

}  // namespace

Value Value::undefined(std::string name) {
  return make(Undefined{std::make_shared<const std::string>(std::move(name))});
}
Value Value::none() { return make(std::monostate()); }
Value Value::boolean(bool flag) { return make(flag); }
Value Value::integer(int64_t number) { return make(number); }
Value Value::real(double number) { return make(number); }
Value Value::string(std::string text) {
  return make(std::make_shared<const std::string>(std::move(text)));
}
Value Value::function(Function which) { return make(which); }
Value Value::macro(const Statement* definition) { return make(definition); }
Value Value::loop(std::shared_ptr<const LoopState> state) { return make(std::move(state)); }
Value Value::method(Value self, std::string name) {
  return make(std::make_shared<const Method>(
      Method{std::make_shared<const Value>(std::move(self)), std::move(name)}));
}
Value Value::new_namespace() { return make(std::make_shared<Namespace>()); }

Result<Value> Value::list(List items, bool is_tuple) {
  auto container = std::make_shared<Container<List>>();
  container->is_tuple = is_tuple;
  for (const Value& item : items) {
    container->depth = std::max(container->depth, item.depth() + 1);
    container->holds_namespace |= item.holds_namespace();
  }
  container->items = std::move(items);
  FORERUN_RETURN_IF_ERROR(check_depth(*container));
  return make(std::shared_ptr<const Container<List>>(std::move(container)));
}

Result<Value> Value::dict(Dict items) {
  auto container = std::make_shared<Container<Dict>>();
  for (const auto& [key, item] : items) {
    container->depth = std::max(container->depth, item.depth() + 1);
    container->holds_namespace |= item.holds_namespace();
  }
  container->items = std::move(items);
  FORERUN_RETURN_IF_ERROR(check_depth(*container));
  return make(std::shared_ptr<const Container<Dict>>(std::move(container)));
}

const std::string& Value::as_string() const {
  return *std::get<std::shared_ptr<const std::string>>(data_);
}
const List& Value::as_list() const {
  return std::get<std::shared_ptr<const Container<List>>>(data_)->items;
}
const Dict& Value::as_dict() const {
  if (kind() == Kind::kNamespace) return std::get<std::shared_ptr<Namespace>>(data_)->members;
  return std::get<std::shared_ptr<const Container<Dict>>>(data_)->items;
}
bool Value::is_tuple() const {
  return is_list() && std::get<std::shared_ptr<const Container<List>>>(data_)->is_tuple;
}
int64_t Value::as_int() const {
  if (kind() == Kind::kBool) return std::get<bool>(data_) ? 1 : 0;
  return std::get<int64_t>(data_);
}
double Value::as_float() const {
  return kind() == Kind::kFloat ? std::get<double>(data_) : static_cast<double>(as_int());
}
const LoopState& Value::as_loop() const {
  return *std::get<std::shared_ptr<const LoopState>>(data_);
}
const Value::Method& Value::as_method() const {
  return *std::get<std::shared_ptr<const Method>>(data_);
}
const std::string& Value::undefined_name() const {
  const auto& name = std::get<Undefined>(data_).name;
  return name ? *name : kNoName;
}

const Value* Value::find(std::string_view key) const {
  if (kind() != Kind::kDict && kind() != Kind::kNamespace) return nullptr;
  for (const auto& member : as_dict()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Status Value::set_member(std::string_view key, Value member) {
  if (member.holds_namespace()) {
    return Status(StatusCode::kInvalidArgument, "a namespace's member cannot hold a namespace");
  }
  Dict& members = std::get<std::shared_ptr<Namespace>>(data_)->members;
  for (auto& known : members) {
    if (known.first == key) {
      known.second = std::move(member);
      return {};
    }
  }
  members.emplace_back(std::string(key), std::move(member));
  return {};
}

bool Value::truth() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return std::get<bool>(data_);
    case Kind::kInt:
      return as_int() != 0;
    case Kind::kFloat:
      return as_float() != 0;
    case Kind::kString:
      return !as_string().empty();
    case Kind::kList:
      return !as_list().empty();
    case Kind::kDict:
      return !as_dict().empty();
    default:
      return true;
  }
}

bool Value::holds_namespace() const {
  switch (kind()) {
    case Kind::kNamespace:
      return true;
    case Kind::kList:
      return std::get<std::shared_ptr<const Container<List>>>(data_)->holds_namespace;
    case Kind::kDict:
      return std::get<std::shared_ptr<const Container<Dict>>>(data_)->holds_namespace;
    case Kind::kMethod:
      return as_method().self->holds_namespace();
    default:
      return false;
  }
}

uint32_t Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return std::get<std::shared_ptr<const Container<List>>>(data_)->depth;
    case Kind::kDict:
      return std::get<std::shared_ptr<const Container<Dict>>>(data_)->depth;
    case Kind::kMethod:
      return as_method().self->depth() + 1;
    default:
      return 0;
  }
}

const char* Value::kind_name() const {
  static constexpr const char* kNames[] = {"nothing (undefined)",
                                           "none",
                                           "a boolean",
                                           "an integer",
                                           "a number",
                                           "a string",
                                           "a list",
                                           "a mapping",
                                           "a namespace",
                                           "a loop",
                                           "a macro",
                                           "a function",
                                           "a method"};
  return kNames[data_.index()];
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.kind() != Kind::kFloat && b.kind() != Kind::kFloat) return a.as_int() == b.as_int();
    return a.as_float() == b.as_float();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.as_string() == b.as_string();
    case Kind::kList:
      return a.is_tuple() == b.is_tuple() &&
             std::equal(a.as_list().begin(), a.as_list().end(), b.as_list().begin(),
                        b.as_list().end(), equal);
    case Kind::kDict: {
      if (a.as_dict().size() != b.as_dict().size()) return false;
      for (const auto& member : a.as_dict()) {
        const Value* other = b.find(member.first);
        if (!other || !equal(member.second, *other)) return false;
      }
      return true;
    }
    case Kind::kNamespace:
      return &a.as_dict() == &b.as_dict();
    case Kind::kMacro:
      return a.as_macro() == b.as_macro();
    case Kind::kFunction:
      return a.as_function() == b.as_function();
    default:
      return false;
  }
}

Result<int> compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.kind() != Kind::kFloat && b.kind() != Kind::kFloat) {
      return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
    }
    return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float() ? 1 : 0;
  }
  if (a.is_string() && b.is_string()) {
    const int order = a.as_string().compare(b.as_string());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_list() && b.is_list()) {
    const List& left = a.as_list();
    const List& right = b.as_list();
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (equal(left[i], right[i])) continue;
      return compare(left[i], right[i]);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  return Status(StatusCode::kInvalidArgument,
                std::string("cannot order ") + a.kind_name() + " and " + b.kind_name());
}

}  // namespace forerun::text::jinja
