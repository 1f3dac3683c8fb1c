// Filters of lists, mappings and other iterable values.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"

namespace forerun::text::jinja {
namespace {

// The path in attribute=: an index, or names and indexes separated by dots.
struct Path {
  std::vector<Value> parts;
};

Path path_of(const Value* attribute) {
  Path path;
  if (!attribute || attribute->is_none()) return path;
  if (!attribute->is_string()) {
    path.parts.push_back(*attribute);
    return path;
  }
  for (const std::string& part : split(attribute->as_string(), std::string("."), -1, false)) {
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const std::optional<Value> index = is_index ? integer_of_digits(part, 10, false) : std::nullopt;
    path.parts.push_back(index ? *index : Value::string(part));
  }
  return path;
}

// Returns the value itself if the path is empty. A missing part is replaced by `fallback`, if
// given.
Result<Value> by_path(const Value& value, const Path& path, Runtime& runtime,
                      const Value* fallback = nullptr) {
  Value current = value;
  for (const Value& part : path.parts) {
    FORERUN_ASSIGN_OR_RETURN(current, item(current, part, runtime));
    if (current.is_undefined() && fallback && !fallback->is_none()) current = *fallback;
  }
  return current;
}

// Returns the arguments after the first `skip` positional ones.
Arguments rest(const Arguments& args, size_t skip) {
  Arguments out;
  out.named = args.named;
  for (size_t i = skip; i < args.positional.size(); ++i) {
    out.positional.push_back(args.positional[i]);
  }
  return out;
}

// Implements select, reject, selectattr and rejectattr.
Result<Value> chosen(const std::string& name, const Value& value, const Arguments& args,
                     Runtime& runtime) {
  const bool by_attribute = name.ends_with("attr");
  const bool keep = name.starts_with("select");
  const size_t skip = by_attribute ? 1 : 0;
  if (by_attribute && args.positional.empty()) {
    return Status(StatusCode::kInvalidArgument, name + ": accepted: (attribute, test, ...)");
  }
  // Python returns generators without items.
  if (!value.truth()) return make_generator({}, runtime);
  const bool has_test = args.positional.size() > skip;
  const std::string test = has_test ? to_text(args.positional[skip]) : "";
  const Arguments test_args = rest(args, skip + 1);
  const Path path = path_of(by_attribute ? &args.positional[0] : nullptr);
  if (!has_test && !args.named.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  name + ": found " + args.named[0].first + "= without a test");
  }
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  List out;
  for (const Value& element : items) {
    FORERUN_ASSIGN_OR_RETURN(const Value subject, by_path(element, path, runtime));
    bool holds = subject.truth();
    if (has_test) {
      FORERUN_ASSIGN_OR_RETURN(holds, apply_test(test, subject, test_args, runtime));
    }
    if (holds == keep) out.push_back(element);
  }
  return make_generator(std::move(out), runtime);
}

Result<Value> mapped(const Value& value, const Arguments& args, Runtime& runtime) {
  if (!value.truth()) return make_generator({}, runtime);
  const bool by_attribute = args.positional.empty();
  if (by_attribute) FORERUN_RETURN_IF_ERROR(args.check("map", "attribute, default?"));
  const Path path = path_of(by_attribute ? args.get(0, "attribute") : nullptr);
  const Value* fallback = by_attribute ? args.get(1, "default") : nullptr;
  const std::string filter = by_attribute ? "" : to_text(args.positional[0]);
  const Arguments filter_args = rest(args, 1);
  // A map of a map of a map would nest calls without limit.
  const bool nests = filter == "map" && !filter_args.positional.empty() &&
                     to_text(filter_args.positional[0]) == "map";
  if (nests) {
    return Status(StatusCode::kUnsupported,
                  "map: found map('map', 'map', ...); accepted: one map within a map");
  }
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  List out;
  for (const Value& element : items) {
    Result<Value> made = by_attribute ? by_path(element, path, runtime, fallback)
                                      : apply_filter(filter, element, filter_args, runtime);
    if (!made.ok()) return made;
    out.push_back(std::move(made).value());
  }
  return make_generator(std::move(out), runtime);
}

Result<Value> joined_elements(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* separator = args.get(0, "d");
  const Path path = path_of(args.get(1, "attribute"));
  const std::string between = separator ? to_text(*separator) : "";
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += between;
    FORERUN_ASSIGN_OR_RETURN(const Value part, by_path(items[i], path, runtime));
    const size_t before = out.size();
    out += to_text(part);
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(out.size() - before + between.size()));
  }
  return make_text(std::move(out), runtime);
}

// The comparison of a filter: by a path, by several of them ("a,b"), with or without case folding.
struct Order {
  std::vector<Path> paths;
  bool fold_case = true;
  bool descending = false;
  const Value* fallback = nullptr;
};

Order order_of(const Value* attribute, const Value* case_sensitive) {
  Order order;
  order.paths.push_back(path_of(attribute));
  order.fold_case = !(case_sensitive && case_sensitive->truth());
  return order;
}

Result<Value> key_of(const Value& element, const Order& order, Runtime& runtime) {
  List keys;
  for (const Path& path : order.paths) {
    FORERUN_ASSIGN_OR_RETURN(Value key, by_path(element, path, runtime, order.fallback));
    if (order.fold_case && key.is_string()) key = Value::string(lower(key.as_string()));
    keys.push_back(std::move(key));
  }
  if (keys.size() == 1) return std::move(keys[0]);
  return make_list(std::move(keys), runtime);
}

Result<List> sorted(List items, const Order& order, Runtime& runtime) {
  std::vector<std::pair<Value, size_t>> keys;
  for (size_t i = 0; i < items.size(); ++i) {
    FORERUN_ASSIGN_OR_RETURN(Value key, key_of(items[i], order, runtime));
    keys.emplace_back(std::move(key), i);
  }
  // Comparable pairs are checked first, since a comparator that fails halfway has no order.
  for (size_t i = 1; i < keys.size(); ++i) {
    FORERUN_RETURN_IF_ERROR(compare(keys[0].first, keys[i].first).status());
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(16));
  }
  Status failure;
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    const Result<int> compared = compare(a.first, b.first);
    if (!compared.ok()) failure = compared.status();
    return compared.ok() && (order.descending ? *compared > 0 : *compared < 0);
  });
  FORERUN_RETURN_IF_ERROR(failure);
  List out;
  for (const auto& key : keys) out.push_back(items[key.second]);
  return out;
}

Result<Value> sort_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* descending = args.get(0, "reverse");
  Order order = order_of(nullptr, args.get(1, "case_sensitive"));
  order.descending = descending && descending->truth();
  const Value* attribute = args.get(2, "attribute");
  if (attribute && attribute->is_string()) {
    order.paths.clear();
    for (const std::string& part : split(attribute->as_string(), std::string(","), -1, false)) {
      const Value name = Value::string(part);
      order.paths.push_back(path_of(&name));
    }
  } else if (attribute) {
    order.paths[0] = path_of(attribute);
  }
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  FORERUN_ASSIGN_OR_RETURN(items, sorted(std::move(items), order, runtime));
  return make_list(std::move(items), runtime);
}

Result<Value> extreme(const std::string& name, const Value& value, const Arguments& args,
                      Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  if (items.empty()) return Value::undefined(name + " of nothing");
  Order order = order_of(args.get(1, "attribute"), args.get(0, "case_sensitive"));
  order.descending = name == "max";
  FORERUN_ASSIGN_OR_RETURN(items, sorted(std::move(items), order, runtime));
  return items.front();
}

Result<Value> unique(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  const Order order = order_of(args.get(1, "attribute"), args.get(0, "case_sensitive"));
  List seen, out;
  for (const Value& element : items) {
    FORERUN_ASSIGN_OR_RETURN(Value key, key_of(element, order, runtime));
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(seen.size()));
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&](const Value& other) { return equal(key, other); });
    if (known) continue;
    seen.push_back(std::move(key));
    out.push_back(element);
  }
  return make_generator(std::move(out), runtime);
}

Result<Value> total(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  const Path path = path_of(args.get(0, "attribute"));
  const Value* start = args.get(1, "start");
  Value out = start ? *start : Value::integer(0);
  for (const Value& element : items) {
    FORERUN_ASSIGN_OR_RETURN(const Value part, by_path(element, path, runtime));
    FORERUN_ASSIGN_OR_RETURN(out, binary("+", out, part, runtime));
  }
  return out;
}

// Returns a mapping's (key, value) pairs.
Result<List> pairs_of(const std::string& name, const Value& value, Runtime& runtime) {
  if (!value.is_dict()) return bad_value(name, value, "a mapping");
  List out;
  for (const auto& member : value.as_dict()) {
    FORERUN_ASSIGN_OR_RETURN(Value pair,
                             make_list({member.first, member.second}, runtime, ListForm::kTuple));
    out.push_back(std::move(pair));
  }
  return out;
}

Result<Value> items_filter(const Value& value, Runtime& runtime) {
  if (value.is_undefined()) return make_generator({}, runtime);
  FORERUN_ASSIGN_OR_RETURN(List pairs, pairs_of("items", value, runtime));
  return make_generator(std::move(pairs), runtime);
}

Result<Value> sorted_pairs(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* by = args.get(1, "by");
  const std::string side = by ? to_text(*by) : "key";
  if (side != "key" && side != "value") {
    return Status(StatusCode::kInvalidArgument,
                  "dictsort: found by=" + side + "; accepted: key, value");
  }
  const Value place = Value::integer(side == "key" ? 0 : 1);
  const Value* descending = args.get(2, "reverse");
  Order order = order_of(&place, args.get(0, "case_sensitive"));
  order.descending = descending && descending->truth();
  FORERUN_ASSIGN_OR_RETURN(List pairs, pairs_of("dictsort", value, runtime));
  FORERUN_ASSIGN_OR_RETURN(pairs, sorted(std::move(pairs), order, runtime));
  return make_list(std::move(pairs), runtime);
}

// Returns [[e, e, ...], ...]: columns of nearly equal length.
Result<Value> sliced(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const int64_t count, int_argument("slice", args.get(0, "slices"), 1));
  const Value* fill = args.get(1, "fill_with");
  FORERUN_ASSIGN_OR_RETURN(const List items, iterate(value, runtime));
  const int64_t size = static_cast<int64_t>(items.size());
  if (count < 1 || count > 65'536) {
    return Status(StatusCode::kInvalidArgument,
                  "slice: found " + std::to_string(count) + " slices; accepted: 1 to 65536");
  }
  List out;
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool is_longer = i < size % count;
    const size_t len = static_cast<size_t>(size / count + (is_longer ? 1 : 0));
    List column(items.begin() + static_cast<std::ptrdiff_t>(at),
                items.begin() + static_cast<std::ptrdiff_t>(at + len));
    at += len;
    if (fill && !fill->is_none() && !is_longer) column.push_back(*fill);
    FORERUN_ASSIGN_OR_RETURN(Value made, make_list(std::move(column), runtime));
    out.push_back(std::move(made));
  }
  return make_generator(std::move(out), runtime);
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
    const Value* fill = args.get(1, "fill_with");
    if (fill && !fill->is_none()) {
      FORERUN_RETURN_IF_ERROR(runtime.budget.spend(static_cast<uint64_t>(width->as_int())));
      row.resize(static_cast<size_t>(width->as_int()), *fill);
    }
    FORERUN_ASSIGN_OR_RETURN(Value made, make_list(std::move(row), runtime));
    out.push_back(std::move(made));
  }
  return make_generator(std::move(out), runtime);
}

// Returns [(key, [elements]), ...] in order of the key; each key is spelled as in the first of its
// elements.
Result<Value> group_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  Order order = order_of(args.get(0, "attribute"), args.get(2, "case_sensitive"));
  order.fallback = args.get(1, "default");
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  FORERUN_ASSIGN_OR_RETURN(items, sorted(std::move(items), order, runtime));
  List out;
  for (size_t i = 0; i < items.size();) {
    FORERUN_ASSIGN_OR_RETURN(const Value key, key_of(items[i], order, runtime));
    FORERUN_ASSIGN_OR_RETURN(const Value shown,
                             by_path(items[i], order.paths[0], runtime, order.fallback));
    List group;
    for (; i < items.size(); ++i) {
      FORERUN_ASSIGN_OR_RETURN(const Value other, key_of(items[i], order, runtime));
      if (!equal(key, other)) break;
      group.push_back(items[i]);
    }
    FORERUN_ASSIGN_OR_RETURN(Value members, make_list(std::move(group), runtime));
    FORERUN_ASSIGN_OR_RETURN(Value pair,
                             make_list({shown, std::move(members)}, runtime, ListForm::kTuple));
    out.push_back(std::move(pair));
  }
  return make_list(std::move(out), runtime);
}

Result<Value> first_filter(const Value& value, Runtime& runtime) {
  List items;
  if (value.is_generator()) {
    items = value.take(1);
  } else {
    FORERUN_ASSIGN_OR_RETURN(items, iterate(value, runtime));
  }
  return items.empty() ? Value::undefined("first of nothing") : std::move(items.front());
}

Result<Value> last_filter(const Value& value, Runtime& runtime) {
  if (value.is_generator()) return bad_value("last", value, "a list, a mapping, a string");
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  return items.empty() ? Value::undefined("last of nothing") : std::move(items.back());
}

Result<Value> reversed(const Value& value, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
  std::reverse(items.begin(), items.end());
  if (!value.is_string()) return make_generator(std::move(items), runtime);
  std::string text;
  for (const Value& character : items) text += character.as_string();
  return make_text(std::move(text), runtime);
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
    made = joined_elements(value, args, runtime);
  } else if (name == "sort") {
    made = sort_filter(value, args, runtime);
  } else if (name == "unique") {
    made = unique(value, args, runtime);
  } else if (name == "sum") {
    made = total(value, args, runtime);
  } else if (name == "min" || name == "max") {
    made = extreme(name, value, args, runtime);
  } else if (name == "items") {
    made = items_filter(value, runtime);
  } else if (name == "dictsort") {
    made = sorted_pairs(value, args, runtime);
  } else if (name == "slice") {
    made = sliced(value, args, runtime);
  } else if (name == "batch") {
    made = batched(value, args, runtime);
  } else if (name == "groupby") {
    made = group_filter(value, args, runtime);
  } else if (name == "first") {
    made = first_filter(value, runtime);
  } else if (name == "last") {
    made = last_filter(value, runtime);
  } else if (name == "reverse") {
    made = reversed(value, runtime);
  } else if (name == "list") {
    FORERUN_ASSIGN_OR_RETURN(List items, iterate(value, runtime));
    made = make_list(std::move(items), runtime);
  } else {
    return std::optional<Value>();
  }
  if (!made.ok()) return made.status();
  return std::optional<Value>(std::move(made).value());
}

}  // namespace forerun::text::jinja
