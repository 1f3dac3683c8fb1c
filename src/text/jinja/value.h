// Values of a chat template. They behave like Jinja's Python objects as far as templates use them.
//
// Strings, lists and dicts are immutable and shared; only a namespace changes, and a generator,
// which reading uses up. Containers track their nesting, so that no value that a template builds
// can exhaust the stack when it is printed or freed. Not thread-safe within one render; different
// renders share nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
using Dict = std::vector<std::pair<Value, Value>>;  // in order of insertion, keys unique
using Names = std::vector<std::pair<std::string, Value>>;

// Maximum nesting of lists and dicts.
constexpr uint32_t kMaxValueDepth = 64;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits
  kFloat,
  kString,
  kList,
  kDict,
  kGenerator,  // result of map, select and similar: read once, without a length
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
};

// Built-in functions.
enum class Function : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

// The Python type of a list. Keys, values and items are a mapping's views: they have a length and
// can be looped over, but can neither be indexed nor written as JSON. A range can be indexed.
enum class ListForm : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems };

struct LoopState {
  const List* items = nullptr;  // items of the running loop
  size_t index0 = 0;
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
  // A macro, or the body of a call block, and the scope for its names: the evaluator's scope at
  // `scope_index`, as long as it is still the one numbered `scope_id`.
  struct Macro {
    const Statement* definition = nullptr;
    size_t scope_index = 0;
    uint64_t scope_id = 0;
  };
  template <class Items>
  struct Container {
    Items items;
    uint32_t depth = 1;
    bool holds_namespace = false;
    ListForm form = ListForm::kList;
    std::string shown;  // a range's text
  };
  struct Namespace {
    Names members;
  };

  Value() : data_(Undefined{}) {}  // undefined, unnamed
  static Value undefined(std::string name);
  static Value none();
  static Value boolean(bool flag);
  static Value integer(int64_t number);
  static Value real(double number);
  // Makes an integer beyond 64 bits from its decimal: digits without leading zeros, "-" before them
  // if negative.
  static Value big_integer(std::string decimal);
  static Value string(std::string text);
  // Makes a string marked as escaped (Markup in Python): strings added to it are escaped.
  static Value markup(std::string text);
  // Makes a string with the mark of `like`.
  static Value string_like(std::string text, const Value& like);
  static Value function(Function which);
  static Value macro(Macro macro);
  static Value loop(std::shared_ptr<const LoopState> state);
  static Value method(Value self, std::string name);
  static Value new_namespace();
  // Fail with kResourceExhausted above kMaxValueDepth.
  static Result<Value> list(List items, ListForm form = ListForm::kList);
  // Makes a range; `shown` is Python's spelling of it.
  static Result<Value> range(List numbers, std::string shown);
  static Result<Value> dict(Dict items);
  static Result<Value> dict(const Names& items);
  static Result<Value> generator(List items);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_generator() const { return kind() == Kind::kGenerator; }
  // Returns whether arithmetic accepts the number: integers beyond 64 bits are only shown and
  // compared.
  bool is_number() const {
    return kind() == Kind::kInt || kind() == Kind::kFloat || kind() == Kind::kBool;
  }

  // Each may only be called for its kind; as_int also accepts booleans, and as_float every number.
  const std::string& as_string() const;
  bool is_markup() const;
  const std::string& as_big() const;  // in decimal
  const List& as_list() const;
  const Dict& as_dict() const;
  ListForm form() const;             // of a list
  const std::string& shown() const;  // of a range
  bool is_tuple() const { return is_list() && form() == ListForm::kTuple; }
  // Takes up to `count` of a generator's remaining items.
  List take(size_t count) const;
  size_t remaining() const;  // number of a generator's remaining items
  int64_t as_int() const;
  double as_float() const;
  Function as_function() const { return std::get<Function>(data_); }
  const Macro& as_macro() const { return std::get<Macro>(data_); }
  const LoopState& as_loop() const;
  const Method& as_method() const;
  const std::string& undefined_name() const;

  // Returns a member of a dict or namespace; null if there is none.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  // Returns false for values that cannot be a key: lists, mappings, and values that contain one of
  // them.
  bool is_hashable() const;
  // Sets a namespace's member. Fails if `member` contains a namespace, which could contain itself.
  Status set_member(std::string_view key, Value member);

  // Python's "is": for immutable values that are not containers, whether kind and value agree.
  bool is_same_object(const Value& other) const;
  // Returns whether the value is true in Python.
  bool truth() const;
  bool holds_namespace() const;
  uint32_t depth() const;

  // Returns the name of the kind in messages, e.g. "a string".
  const char* kind_name() const;

 private:
  template <class T>
  explicit Value(std::in_place_t, T data) : data_(std::move(data)) {}
  template <class T>
  static Value make(T data) {
    return Value(std::in_place, std::move(data));
  }

  struct Text {
    std::string text;
    bool is_markup = false;
  };
  struct Big {
    std::shared_ptr<const std::string> decimal;
  };
  struct Generator {
    List items;
    size_t taken = 0;
    uint32_t depth = 1;
    bool holds_namespace = false;
  };
  // Alternatives in the order of Kind.
  std::variant<Undefined, std::monostate, bool, int64_t, Big, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Container<List>>, std::shared_ptr<const Container<Dict>>,
               std::shared_ptr<Generator>, std::shared_ptr<Namespace>,
               std::shared_ptr<const LoopState>, Macro, Function, std::shared_ptr<const Method>>
      data_;
};

// Python's ==.
bool equal(const Value& a, const Value& b);
// Returns -1, 0 or 1 in Python's order of numbers, strings and lists; kInvalidArgument for other
// pairs.
Result<int> compare(const Value& a, const Value& b);

// Python's str() and repr().
std::string to_text(const Value& value);
std::string to_repr(const Value& value);

// Conversion of texts to numbers, as in Python (strings.cc).

// Returns the integer of `digits` in base `base` (2 to 36), without a sign; nothing if one of them
// is not a digit of the base, or if there are more than 4,300.
std::optional<Value> integer_of_digits(std::string_view digits, unsigned base, bool negative);

// Python's int(text, base): white space around it, a sign, 0x, 0o, 0b, underscores between digits.
std::optional<Value> parsed_integer(std::string_view text, int64_t base);

// Python's float(text).
std::optional<double> parsed_real(std::string_view text);

// Python's int(number); nothing for infinities and NaN.
std::optional<Value> integer_of(double number);

// Python's string operations over UTF-8 (strings.cc).

// Returns the characters, each as a view of `text`.
std::vector<std::string_view> characters(std::string_view text);

// Returns the text without white space, or without the characters of `chars`, at the chosen ends.
std::string_view stripped(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
// titled() is str.title, for every run of letters; titled_words() is the filter, for every word
// after white space or -([{<.
std::string titled(std::string_view text);
std::string titled_words(std::string_view text);

// The side of the padding with `fill`, one character, up to `width` characters, at most kMaxWidth.
enum class Align : uint8_t { kLeft, kCenter, kRight };
constexpr int64_t kMaxWidth = 65'536;
std::string padded(std::string_view text, int64_t width, std::string_view fill, Align align);
// str.center, which puts an odd padding character to the left if the width is odd, too.
std::string centered(std::string_view text, int64_t width, std::string_view fill);

// Replaces `pattern` at most `count` times; -1: always. An empty pattern matches before every
// character and at the end.
std::string replaced(std::string_view text, std::string_view pattern, std::string_view with,
                     int64_t count);

// Splits at `separator` (not empty) or, without one, at runs of white space; at most `count` cuts.
std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator,
                               int64_t count, bool from_right);

// Conversion of JSON text to values and back (json.cc).

// `what` is the name of the text in messages. The order of keys is kept; of a repeated key, the
// last value counts.
Result<Value> parse_json(std::string_view json, const std::string& what);

struct JsonStyle {
  std::optional<int64_t> indent;      // spaces per level; unset: one line
  std::string item_separator = ", ";  // Python's defaults; "," with an indent
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

// Returns the JSON text that Python's json.dumps writes; kInvalidArgument for values without a JSON
// form.
Result<std::string> to_json(const Value& value, const JsonStyle& style);

}  // namespace forerun::text::jinja
