// Filters over lists, mappings and what else can be looped over.
#include <algorithm>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/strings.h"

namespace forerun::text::jinja {
namespace {

// value.a.b or value[0] for a dotted path "a.b".
Result<Value> by_path(const Value& value, const std::string& path, Runtime& runtime) {
  Value current = value;
  for (const std::string& part : split(path, std::string("."), -1, false)) {
    const bool is_index = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string::npos;
    if (current.is_undefined()) return current;
    FORERUN_ASSIGN_OR_RETURN(
        current,
        item(current, is_index ? Value::integer(std::stoll(part)) : Value::string(part), runtime));
  }
  return current;
}

// The value itself, or its attribute if one is named.
Result<Value> key_of(const Value& value, const Value* path, Runtime& runtime) {
  if (!path || path->is_none()) return value;
  return by_path(value, to_text(*path), runtime);
}

// Behind the first `skip` positional arguments.
Arguments rest(const Arguments& args, size_t skip) {
  Arguments out;
  out.named = args.named;
  for (size_t i = skip; i < args.positional.size(); ++i) {
    out.positional.push_back(args.positional[i]);
  }
  return out;
}

// select, reject, selectattr, rejectattr.
Result<Value> chosen(const std::string& name, const Value& value, const Arguments& args,
                     Runtime& runtime) {
  const bool by_attribute = name.ends_with("attr");
  const bool keep = name.starts_with("select");
  const size_t skip = by_attribute ? 1 : 0;
  if (by_attribute && args.positional.empty()) {
    return Status(StatusCode::kInvalidArgument, name + ": accepted: (attribute, test, ...)");
  }
  const bool has_test = args.positional.size() > skip;
  const std::string test = has_test ? to_text(args.positional[skip]) : "";
  const Arguments test_args = rest(args, skip + 1);
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  List out;
  for (const Value& element : items) {
    FORERUN_ASSIGN_OR_RETURN(
        const Value subject,
        key_of(element, by_attribute ? &args.positional[0] : nullptr, runtime));
    bool holds = subject.truth();
    if (has_test) {
      FORERUN_ASSIGN_OR_RETURN(holds, apply_test(test, subject, test_args, runtime));
    }
    if (holds == keep) out.push_back(element);
  }
  return make_list(std::move(out), runtime);
}

Result<Value> mapped(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  const Value* path = args.positional.empty() ? args.get(0, "attribute") : nullptr;
  const Value* fallback = path ? args.get(1, "default") : nullptr;
  if (!path && args.positional.empty()) {
    return Status(StatusCode::kInvalidArgument, "map: accepted: a filter or attribute=");
  }
  const std::string filter = path ? "" : to_text(args.positional[0]);
  const Arguments filter_args = rest(args, 1);
  // A map of a map of a map would nest calls without end.
  if (filter == "map") return Status(StatusCode::kUnsupported, "map: found map as the filter");
  List out;
  for (const Value& element : items) {
    Result<Value> made = path ? by_path(element, to_text(*path), runtime)
                              : apply_filter(filter, element, filter_args, runtime);
    if (!made.ok()) return made;
    out.push_back(made->is_undefined() && fallback ? *fallback : std::move(made).value());
  }
  return make_list(std::move(out), runtime);
}

Result<Value> joined(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* separator = args.get(0, "d");
  const Value* path = args.get(1, "attribute");
  const std::string between = separator ? to_text(*separator) : "";
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += between;
    FORERUN_ASSIGN_OR_RETURN(const Value part, key_of(items[i], path, runtime));
    const size_t before = out.size();
    out += to_text(part);
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(out.size() - before + between.size()));
  }
  return make_text(std::move(out), runtime);
}

Result<List> sorted(List items, const Value* path, bool fold_case, bool descending,
                    Runtime& runtime) {
  std::vector<std::pair<Value, size_t>> keys;
  for (size_t i = 0; i < items.size(); ++i) {
    FORERUN_ASSIGN_OR_RETURN(Value key, key_of(items[i], path, runtime));
    if (fold_case && key.is_string()) key = Value::string(lower(key.as_string()));
    keys.emplace_back(std::move(key), i);
  }
  // Comparable pairs are checked first: a comparator that fails halfway has no order.
  for (size_t i = 1; i < keys.size(); ++i) {
    FORERUN_RETURN_IF_ERROR(compare(keys[0].first, keys[i].first).status());
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(16));
  }
  Status failure;
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    const Result<int> order = compare(a.first, b.first);
    if (!order.ok()) failure = order.status();
    return order.ok() && (descending ? *order > 0 : *order < 0);
  });
  FORERUN_RETURN_IF_ERROR(failure);
  List out;
  for (const auto& key : keys) out.push_back(items[key.second]);
  return out;
}

Result<Value> sort_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* descending = args.get(0, "reverse");
  const Value* exact_case = args.get(1, "case_sensitive");
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  FORERUN_ASSIGN_OR_RETURN(items, sorted(std::move(items), args.get(2, "attribute"),
                                         !(exact_case && exact_case->truth()),
                                         descending && descending->truth(), runtime));
  return make_list(std::move(items), runtime);
}

Result<Value> extreme(const std::string& name, const Value& value, const Arguments& args,
                      Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  if (items.empty()) return Value::undefined(name + " of nothing");
  FORERUN_ASSIGN_OR_RETURN(
      items, sorted(std::move(items), args.get(1, "attribute"), true, name == "max", runtime));
  return items.front();
}

Result<Value> unique(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  List seen, out;
  for (const Value& element : items) {
    FORERUN_ASSIGN_OR_RETURN(Value key, key_of(element, args.get(1, "attribute"), runtime));
    if (key.is_string()) key = Value::string(lower(key.as_string()));
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(seen.size()));
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&](const Value& other) { return equal(key, other); });
    if (known) continue;
    seen.push_back(std::move(key));
    out.push_back(element);
  }
  return make_list(std::move(out), runtime);
}

Result<Value> total(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  const Value* start = args.get(1, "start");
  Value out = start ? *start : Value::integer(0);
  for (const Value& element : items) {
    FORERUN_ASSIGN_OR_RETURN(const Value part, key_of(element, args.get(0, "attribute"), runtime));
    FORERUN_ASSIGN_OR_RETURN(out, binary("+", out, part, runtime));
  }
  return out;
}

Result<Value> pairs_of(const Value& value, bool by_key, Runtime& runtime) {
  if (value.is_undefined()) return make_list({}, runtime);
  if (!value.is_dict()) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("items: found ") + value.kind_name() + "; accepted: a mapping");
  }
  List out;
  for (const auto& member : value.as_dict()) {
    FORERUN_ASSIGN_OR_RETURN(
        Value pair, make_list({Value::string(member.first), member.second}, runtime, true));
    out.push_back(std::move(pair));
  }
  if (by_key) {
    const Value first = Value::string("0");
    FORERUN_ASSIGN_OR_RETURN(out, sorted(std::move(out), &first, true, false, runtime));
  }
  return make_list(std::move(out), runtime);
}

Result<Value> batched(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* width = args.get(0, "linecount");
  if (!width || width->kind() != Kind::kInt || width->as_int() <= 0) {
    return Status(StatusCode::kInvalidArgument, "batch: accepted: a count of at least 1");
  }
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  List out, row;
  for (const Value& element : items) {
    row.push_back(element);
    if (static_cast<int64_t>(row.size()) < width->as_int()) continue;
    FORERUN_ASSIGN_OR_RETURN(Value made, make_list(std::move(row), runtime));
    out.push_back(std::move(made));
    row = List();
  }
  if (!row.empty()) {
    FORERUN_ASSIGN_OR_RETURN(Value made, make_list(std::move(row), runtime));
    out.push_back(std::move(made));
  }
  return make_list(std::move(out), runtime);
}

// [(key, [elements]), ...] in order of the key.
Result<Value> grouped(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* path = args.get(0, "attribute");
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  FORERUN_ASSIGN_OR_RETURN(items, sorted(std::move(items), path, true, false, runtime));
  List out;
  for (size_t i = 0; i < items.size();) {
    FORERUN_ASSIGN_OR_RETURN(const Value key, key_of(items[i], path, runtime));
    List group;
    for (; i < items.size(); ++i) {
      FORERUN_ASSIGN_OR_RETURN(const Value other, key_of(items[i], path, runtime));
      if (!equal(key, other)) break;
      group.push_back(items[i]);
    }
    FORERUN_ASSIGN_OR_RETURN(Value members, make_list(std::move(group), runtime));
    FORERUN_ASSIGN_OR_RETURN(Value pair, make_list({key, std::move(members)}, runtime, true));
    out.push_back(std::move(pair));
  }
  return make_list(std::move(out), runtime);
}

}  // namespace

Result<std::optional<Value>> apply_sequence_filter(const std::string& name, const Value& value,
                                                   const Arguments& args, Runtime& runtime) {
  Result<Value> made = Value();
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
    made = chosen(name, value, args, runtime);
  } else if (name == "map") {
    made = mapped(value, args, runtime);
  } else if (name == "join") {
    made = joined(value, args, runtime);
  } else if (name == "sort") {
    made = sort_filter(value, args, runtime);
  } else if (name == "unique") {
    made = unique(value, args, runtime);
  } else if (name == "sum") {
    made = total(value, args, runtime);
  } else if (name == "min" || name == "max") {
    made = extreme(name, value, args, runtime);
  } else if (name == "items" || name == "dictsort") {
    made = pairs_of(value, name == "dictsort", runtime);
  } else if (name == "batch") {
    made = batched(value, args, runtime);
  } else if (name == "groupby") {
    made = grouped(value, args, runtime);
  } else if (name == "list" || name == "first" || name == "last" || name == "reverse") {
    FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
    if (name == "first" || name == "last") {
      if (items.empty()) return std::optional<Value>(Value::undefined(name + " of nothing"));
      return std::optional<Value>(name == "first" ? items.front() : items.back());
    }
    if (name == "reverse") std::reverse(items.begin(), items.end());
    if (name == "reverse" && value.is_string()) {
      std::string text;
      for (const Value& character : items) text += character.as_string();
      made = make_text(std::move(text), runtime);
    } else {
      made = make_list(std::move(items), runtime);
    }
  } else {
    return std::optional<Value>();
  }
  if (!made.ok()) return made.status();
  return std::optional<Value>(std::move(made).value());
}

}  // namespace forerun::text::jinja
