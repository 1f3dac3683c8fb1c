// Operators, parts of values, and checks of arguments.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"

namespace forerun::text::jinja {
namespace {

Status undefined_error(const Value& value, const std::string& doing) {
  const std::string& name = value.undefined_name();
  return Status(StatusCode::kInvalidArgument,
                doing + ": " + (name.empty() ? std::string("the value") : "'" + name + "'") +
                    " is undefined");
}

Value loop_member(const LoopState& loop, const std::string& name) {
  const int64_t index = static_cast<int64_t>(loop.index0);
  const int64_t length = static_cast<int64_t>(loop.items->size());
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(length - index);
  if (name == "revindex0") return Value::integer(length - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == length);
  if (name == "length") return Value::integer(length);
  // Only recursive loops, which are refused, go deeper.
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem" && index > 0) return (*loop.items)[loop.index0 - 1];
  if (name == "nextitem" && index + 1 < length) return (*loop.items)[loop.index0 + 1];
  return Value::undefined("loop." + name);
}

Result<Value> macro_member(const Statement& macro, const std::string& name) {
  if (name == "name") return Value::string(macro.text);
  if (name != "arguments") return Value::undefined(name);
  List names;
  for (const Target& target : macro.targets) names.push_back(Value::string(target.name));
  return Value::list(std::move(names), ListForm::kTuple);
}

Value list_item(const List& list, int64_t index) {
  const int64_t size = static_cast<int64_t>(list.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value::undefined("item " + std::to_string(index));
  return list[static_cast<size_t>(index)];
}

Status bad_operands(const std::string& op, const Value& a, const Value& b) {
  if (a.is_undefined()) return undefined_error(a, op);
  if (b.is_undefined()) return undefined_error(b, op);
  return Status(StatusCode::kInvalidArgument,
                op + ": found " + a.kind_name() + " and " + b.kind_name());
}

constexpr int64_t kMaxInteger = std::numeric_limits<int64_t>::max();

Result<Value> integer_arithmetic(const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &out);
  } else if (op == "**") {
    if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
    const double size = std::pow(std::fabs(static_cast<double>(a)), static_cast<double>(b));
    overflow = !(size < 9.0e18);
    out = 1;
    // Powers of -1, 0 and 1 need no more rounds than this, for any exponent.
    const int64_t rounds = a >= -1 && a <= 1 ? std::min<int64_t>(b, 2 + b % 2) : b;
    for (int64_t i = 0; i < rounds && !overflow; ++i) out *= a;
  } else {
    if (b == 0) return Status(StatusCode::kInvalidArgument, op + ": division by zero");
    overflow = b == -1 && a == -kMaxInteger - 1;
    if (!overflow) {
      const int64_t remainder = a % b;
      const bool floor = remainder != 0 && (remainder < 0) != (b < 0);
      out = op == "%" ? remainder + (floor ? b : 0) : a / b - (floor ? 1 : 0);
    }
  }
  if (overflow) return Status(StatusCode::kUnsupported, op + ": result of more than 64 bits");
  return Value::integer(out);
}

// Literals need 0 - value for integers beyond 64 bits; other arithmetic with them is refused by
// name.
Value negated_big(const std::string& decimal) {
  const bool was_negative = decimal.starts_with('-');
  return *integer_of_digits(std::string_view(decimal).substr(was_negative ? 1 : 0), 10,
                            !was_negative);
}

Result<Value> arithmetic(const std::string& op, const Value& a, const Value& b) {
  const bool whole = a.kind() != Kind::kFloat && b.kind() != Kind::kFloat;
  if (whole && op != "/") return integer_arithmetic(op, a.as_int(), b.as_int());
  const double x = a.as_float();
  const double y = b.as_float();
  if (op == "+") return Value::real(x + y);
  if (op == "-") return Value::real(x - y);
  if (op == "*") return Value::real(x * y);
  if (op == "**") return Value::real(std::pow(x, y));
  if (y == 0) return Status(StatusCode::kInvalidArgument, op + ": division by zero");
  if (op == "/") return Value::real(x / y);
  if (op == "//") return Value::real(std::floor(x / y));
  return Value::real(x - y * std::floor(x / y));
}

Result<Value> repeated(const Value& value, int64_t count, Runtime& runtime) {
  const size_t size = value.is_string() ? value.as_string().size() : value.as_list().size();
  const size_t times = count < 0 ? 0 : static_cast<size_t>(count);
  if (size != 0 && times > Budget::kMaxTextBytes / size) {
    return Status(StatusCode::kResourceExhausted, "*: result of more than 64 MiB");
  }
  if (value.is_string()) {
    std::string out;
    for (size_t i = 0; size != 0 && i < times; ++i) out += value.as_string();
    return make_text_like(std::move(out), value, runtime);
  }
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(4 * size * times));
  List out;
  for (size_t i = 0; size != 0 && i < times; ++i) {
    out.insert(out.end(), value.as_list().begin(), value.as_list().end());
  }
  return Value::list(std::move(out), value.form());
}

}  // namespace

Result<Value> attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) return undefined_error(value, "." + name);
  if (value.kind() == Kind::kLoop) {
    if (name == "cycle") return Value::method(value, name);
    return loop_member(value.as_loop(), name);
  }
  if (has_method(value, name)) return Value::method(value, name);
  if (value.kind() == Kind::kMacro) return macro_member(*value.as_macro().definition, name);
  if (const Value* member = value.find(name)) return *member;
  return Value::undefined(name);
}

Result<Value> item(const Value& value, const Value& key, Runtime& runtime) {
  if (value.is_undefined())
    return undefined_error(value, std::string("[").append(to_repr(key)).append("]"));
  const bool is_index = key.kind() == Kind::kInt || key.kind() == Kind::kBool;
  const bool is_indexed = value.is_list() && (value.form() == ListForm::kList || value.is_tuple() ||
                                              value.form() == ListForm::kRange);
  if (is_indexed && is_index) return list_item(value.as_list(), key.as_int());
  if (value.is_string() && is_index) {
    FORERUN_ASSIGN_OR_RETURN(const List chars, iterate(value, runtime));
    return list_item(chars, key.as_int());
  }
  if (const Value* member = value.find(key)) return *member;
  if (key.is_string()) return attribute(value, key.as_string());
  return Value::undefined(to_text(key));
}

Result<Value> slice(const Value& value, const Value* from, const Value* to, const Value* step,
                    Runtime& runtime) {
  const bool is_view = value.is_list() && value.form() != ListForm::kList && !value.is_tuple();
  if ((!value.is_string() && !value.is_list()) || is_view) {
    if (value.is_undefined()) return undefined_error(value, "slice");
    return Status(StatusCode::kInvalidArgument, std::string("slice: found ") + value.kind_name() +
                                                    "; accepted: a list, a string");
  }
  const auto bound = [](const Value* given, int64_t fallback) -> Result<int64_t> {
    if (!given || given->is_none()) return fallback;
    if (given->kind() == Kind::kInt) return given->as_int();
    return Status(StatusCode::kInvalidArgument,
                  std::string("slice: found ") + given->kind_name() + "; accepted: integers");
  };
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  const int64_t size = static_cast<int64_t>(items.size());
  FORERUN_ASSIGN_OR_RETURN(int64_t stride, bound(step, 1));
  if (stride == 0) return Status(StatusCode::kInvalidArgument, "slice: step 0");
  // Strides longer than the sequence pick a single element.
  stride = std::clamp(stride, -size - 1, size + 1);
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? size : size - 1;
  FORERUN_ASSIGN_OR_RETURN(int64_t begin, bound(from, stride > 0 ? low : high));
  FORERUN_ASSIGN_OR_RETURN(int64_t end, bound(to, stride > 0 ? high : -size - 1));
  const auto clip = [&](int64_t at) {
    return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, low, high);
  };
  begin = clip(begin);
  end = clip(end);
  List out;
  for (int64_t at = begin; stride > 0 ? at < end : at > end; at += stride) {
    out.push_back(items[static_cast<size_t>(at)]);
  }
  if (value.is_list()) return make_list(std::move(out), runtime, value.form());
  std::string text;
  for (const Value& character : out) text += character.as_string();
  return make_text_like(std::move(text), value, runtime);
}

Result<List> iterate(const Value& value, Runtime& runtime) {
  List out;
  switch (value.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kList:
      FORERUN_RETURN_IF_ERROR(runtime.budget.spend(value.as_list().size()));
      return value.as_list();
    case Kind::kDict:
      FORERUN_RETURN_IF_ERROR(runtime.budget.spend(4 * value.as_dict().size()));
      for (const auto& member : value.as_dict()) out.push_back(member.first);
      return out;
    case Kind::kGenerator:
      FORERUN_RETURN_IF_ERROR(runtime.budget.spend(value.remaining()));
      return value.take(value.remaining());
    case Kind::kString:
      FORERUN_RETURN_IF_ERROR(runtime.budget.spend(4 * value.as_string().size()));
      for (const std::string_view character : characters(value.as_string())) {
        out.push_back(Value::string_like(std::string(character), value));
      }
      return out;
    default:
      return Status(StatusCode::kInvalidArgument, std::string("loop over ") + value.kind_name() +
                                                      "; accepted: a list, a mapping, a string");
  }
}

Result<Value> binary(const std::string& op, const Value& a, const Value& b, Runtime& runtime) {
  if (op == "~") return make_text(to_text(a) + to_text(b), runtime);
  if (op == "+" && a.is_string() && b.is_string()) {
    if (a.is_markup() == b.is_markup()) {
      return make_text_like(a.as_string() + b.as_string(), a, runtime);
    }
    // A string marked as escaped stays unchanged, and the plain string beside it is escaped.
    FORERUN_RETURN_IF_ERROR(
        runtime.budget.spend_text(6 * (a.is_markup() ? b : a).as_string().size()));
    return make_text_like(escaped(a).as_string() + escaped(b).as_string(), escaped(a), runtime);
  }
  const auto is_sequence = [](const Value& value) {
    return value.is_list() && (value.form() == ListForm::kList || value.is_tuple());
  };
  if (op == "+" && is_sequence(a) && is_sequence(b) && a.form() == b.form()) {
    List out = a.as_list();
    out.insert(out.end(), b.as_list().begin(), b.as_list().end());
    return make_list(std::move(out), runtime, a.form());
  }
  if (op == "*") {
    const auto is_count = [](const Value& value) {
      return value.kind() == Kind::kInt || value.kind() == Kind::kBool;
    };
    if ((a.is_string() || is_sequence(a)) && is_count(b)) return repeated(a, b.as_int(), runtime);
    if ((b.is_string() || is_sequence(b)) && is_count(a)) return repeated(b, a.as_int(), runtime);
  }
  if (op == "%" && a.is_string()) return percent_format(a, b, runtime);
  if (op == "-" && a.kind() == Kind::kInt && a.as_int() == 0 && b.kind() == Kind::kBigInt) {
    return negated_big(b.as_big());
  }
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  return bad_operands(op, a, b);
}

Result<bool> relation(const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b);
  if (op == "!=") return !equal(a, b);
  if (op == "in" || op == "not in") {
    bool found = false;
    if (b.is_string()) {
      if (!a.is_string()) return bad_operands(op, a, b);
      found = b.as_string().find(a.as_string()) != std::string::npos;
    } else if (b.is_list()) {
      found = std::any_of(b.as_list().begin(), b.as_list().end(),
                          [&](const Value& element) { return equal(a, element); });
    } else if (b.is_dict()) {
      found = b.find(a) != nullptr;
    } else if (b.is_generator()) {
      while (!found && b.remaining() > 0) found = equal(a, b.take(1).front());
    } else if (!b.is_undefined()) {
      return bad_operands(op, a, b);
    }
    return found == (op == "in");
  }
  if (a.is_undefined() || b.is_undefined()) return bad_operands(op, a, b);
  FORERUN_ASSIGN_OR_RETURN(const int order, compare(a, b));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

Status Arguments::check(const std::string& what, std::string_view parameters) const {
  const auto refused = [&](const std::string& found) {
    return Status(StatusCode::kInvalidArgument,
                  what + ": found " + found + "; accepted: (" + std::string(parameters) + ")");
  };
  std::vector<std::string> names;
  if (!parameters.empty()) names = split(parameters, std::string(", "), -1, false);
  if (positional.size() > names.size()) {
    return refused(std::to_string(positional.size()) + " arguments");
  }
  std::set<std::string_view> given;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool optional = names[i].ends_with('?');
    if (optional) names[i].pop_back();
    const bool is_named = std::any_of(named.begin(), named.end(), [&](const auto& argument) {
      return argument.first == names[i];
    });
    if (is_named && i < positional.size()) return refused(names[i] + " twice");
    if (!is_named && i >= positional.size() && !optional) return refused("no " + names[i]);
    given.insert(names[i]);
  }
  for (const auto& argument : named) {
    if (!given.contains(argument.first)) return refused(argument.first + "=");
  }
  return {};
}

Status bad_value(const std::string& what, const Value& found, const std::string& accepted) {
  return Status(StatusCode::kInvalidArgument,
                what + ": found " + found.kind_name() + "; accepted: " + accepted);
}

Result<int64_t> int_argument(const std::string& filter, const Value* given, int64_t fallback) {
  if (!given) return fallback;
  if (given->kind() != Kind::kInt && given->kind() != Kind::kBool) {
    return bad_value(filter, *given, "an integer");
  }
  return given->as_int();
}

}  // namespace forerun::text::jinja
