// The tests that may follow "is".
#include "base/status_macros.h"
#include "text/jinja/runtime.h"
#include "text/unicode_case.h"

namespace forerun::text::jinja {
namespace {

// Returns the relation for a test that is another spelling of it.
std::string relation_of(const std::string& name) {
  if (name == "equalto" || name == "eq" || name == "==") return "==";
  if (name == "ne" || name == "!=") return "!=";
  if (name == "lt" || name == "lessthan" || name == "<") return "<";
  if (name == "le" || name == "<=") return "<=";
  if (name == "gt" || name == "greaterthan" || name == ">") return ">";
  if (name == "ge" || name == ">=") return ">=";
  if (name == "in") return "in";
  return "";
}

constexpr std::string_view kTests[] = {
    "boolean", "callable", "defined",  "divisibleby", "escaped", "even",      "false",  "filter",
    "float",   "integer",  "iterable", "lower",       "mapping", "none",      "number", "odd",
    "sameas",  "sequence", "string",   "test",        "true",    "undefined", "upper"};

bool is_known_test(std::string_view name) {
  for (const std::string_view known : kTests) {
    if (known == name) return true;
  }
  return !relation_of(std::string(name)).empty();
}

}  // namespace

Result<bool> apply_test(const std::string& name, const Value& value, const Arguments& args,
                        Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1));
  const std::string relation_name = relation_of(name);
  if (!is_known_test(name)) {
    return Status(StatusCode::kUnsupported, "test: found " + name + ", which is not supported");
  }
  const bool takes_other = !relation_name.empty() || name == "sameas";
  FORERUN_RETURN_IF_ERROR(args.check(name, takes_other             ? "other"
                                           : name == "divisibleby" ? "num"
                                                                   : ""));
  const Kind kind = value.kind();
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_dict();
  const bool is_container =
      value.is_list() || value.is_string() || value.is_dict() || value.is_undefined();
  if (name == "iterable") return is_container || value.is_generator();
  if (name == "sequence") {
    const bool is_view = value.is_list() && value.form() != ListForm::kList && !value.is_tuple() &&
                         value.form() != ListForm::kRange;
    return is_container && !is_view;
  }
  if (name == "number") return value.is_number() || kind == Kind::kBigInt;
  if (name == "integer") return kind == Kind::kInt || kind == Kind::kBigInt;
  if (name == "escaped") return value.is_string() && value.is_markup();
  if (name == "sameas") return value.is_same_object(*args.get(0, "other"));
  if (name == "float") return kind == Kind::kFloat;
  if (name == "boolean") return kind == Kind::kBool;
  if (name == "true") return kind == Kind::kBool && value.truth();
  if (name == "false") return kind == Kind::kBool && !value.truth();
  if (name == "callable") {
    return kind == Kind::kMacro || kind == Kind::kFunction || kind == Kind::kMethod;
  }
  if (name == "upper" || name == "lower") {
    const std::string text = to_text(value);
    return name == "upper" ? python_isupper(text) : python_islower(text);
  }
  if (name == "filter") return value.is_string() && is_known_filter(value.as_string());
  if (name == "test") return value.is_string() && is_known_test(value.as_string());
  if (name == "odd" || name == "even" || name == "divisibleby") {
    const Value* by = args.get(0, "num");
    const Value divisor = name == "divisibleby" && by ? *by : Value::integer(2);
    FORERUN_ASSIGN_OR_RETURN(const Value remainder, binary("%", value, divisor, runtime));
    return remainder.truth() == (name == "odd");
  }
  return relation(relation_name, value, *args.get(0, "other"));
}

}  // namespace forerun::text::jinja
