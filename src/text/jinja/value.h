// Values of a chat template, which behave like the Python objects of Jinja as far as templates use
// them.
//
// Strings, lists and dicts are immutable and shared; only a namespace changes, and a generator,
// which is used up by reading it. Containers know how deep they nest, so that nothing a template
// builds can exhaust the stack when it is printed or freed. Not thread-safe across one render; a
// render shares nothing with another.
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

// Deepest nesting of lists and dicts.
constexpr uint32_t kMaxValueDepth = 64;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,  // past 64 bits
  kFloat,
  kString,
  kList,
  kDict,
  kGenerator,  // what map, select and their like give: read once, without a length
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
  const List* items = nullptr;  // items of the loop that is running
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
  // A macro, or the body of a call block, and the scope that its names are looked up in: the
  // evaluator's scope at `scope_index`, as long as that is still the one numbered `scope_id`.
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
  // An integer past 64 bits, in decimal: digits without leading zeros, "-" before them if negative.
  static Value big_integer(std::string decimal);
  static Value string(std::string text);
  // A string that is taken for escaped (Markup in Python): what is added to it gets escaped.
  static Value markup(std::string text);
  // A string that is marked as `like` is.
  static Value string_like(std::string text, const Value& like);
  static Value function(Function which);
  static Value macro(Macro macro);
  static Value loop(std::shared_ptr<const LoopState> state);
  static Value method(Value self, std::string name);
  static Value new_namespace();
  // Fail with kResourceExhausted past kMaxValueDepth.
  static Result<Value> list(List items, ListForm form = ListForm::kList);
  // A range; `shown` is how Python prints it.
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
  // A number that arithmetic can be done with: integers past 64 bits are only shown and compared.
  bool is_number() const {
    return kind() == Kind::kInt || kind() == Kind::kFloat || kind() == Kind::kBool;
  }

  // Each may only be called for its kind; as_int takes booleans, too, and as_float every number.
  const std::string& as_string() const;
  bool is_markup() const;
  const std::string& as_big() const;  // its decimal
  const List& as_list() const;
  const Dict& as_dict() const;
  ListForm form() const;             // a list's
  const std::string& shown() const;  // a range's
  bool is_tuple() const { return is_list() && form() == ListForm::kTuple; }
  // Takes up to `count` of what a generator still has.
  List take(size_t count) const;
  size_t remaining() const;  // items that a generator still has
  int64_t as_int() const;
  double as_float() const;
  Function as_function() const { return std::get<Function>(data_); }
  const Macro& as_macro() const { return std::get<Macro>(data_); }
  const LoopState& as_loop() const;
  const Method& as_method() const;
  const std::string& undefined_name() const;

  // A member of a dict or namespace; null if there is none.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  // False for what cannot be a key: lists, mappings, and what holds one of them.
  bool is_hashable() const;
  // Sets a namespace's member. Fails where `member` holds a namespace: it could hold itself.
  Status set_member(std::string_view key, Value member);

  // Python's "is": for values that cannot change and are no containers, whether kind and value
  // agree.
  bool is_same_object(const Value& other) const;
  // Whether Python takes the value for true.
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
// -1, 0 or 1 as Python orders numbers, strings and lists; kInvalidArgument for other pairs.
Result<int> compare(const Value& a, const Value& b);

// Python's str() and repr().
std::string to_text(const Value& value);
std::string to_repr(const Value& value);

// Numbers from texts, as Python reads them (strings.cc).

// The integer that `digits` spell to `base` (2 to 36), without a sign; nothing where one of them is
// no digit of the base, and for more than 4,300 of them.
std::optional<Value> integer_of_digits(std::string_view digits, unsigned base, bool negative);

// Python's int(text, base): white space around it, a sign, 0x, 0o, 0b, underscores between digits.
std::optional<Value> parsed_integer(std::string_view text, int64_t base);

// Python's float(text).
std::optional<double> parsed_real(std::string_view text);

// Python's int(number); nothing for infinities and what is no number.
std::optional<Value> integer_of(double number);

// Python's string operations over UTF-8 (strings.cc).

// The characters, each as its own view of `text`.
std::vector<std::string_view> characters(std::string_view text);

// The text without white space, or without the characters of `chars`, at the chosen ends.
std::string_view stripped(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
// str.title: every run of letters; and the filter's: every word behind white space or -([{<.
std::string titled(std::string_view text);
std::string titled_words(std::string_view text);

// Pads the text with `fill`, one character, up to `width` characters, at most kMaxWidth.
enum class Align : uint8_t { kLeft, kCenter, kRight };
constexpr int64_t kMaxWidth = 65'536;
std::string padded(std::string_view text, int64_t width, std::string_view fill, Align align);
// str.center, which puts the odd one of what is missing to the left where the width is odd, too.
std::string centered(std::string_view text, int64_t width, std::string_view fill);

// Replaces `pattern` at most `count` times; -1: always. An empty pattern matches before every
// character and at the end.
std::string replaced(std::string_view text, std::string_view pattern, std::string_view with,
                     int64_t count);

// Splits at `separator` (not empty) or, without one, at runs of white space; at most `count` cuts.
std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator,
                               int64_t count, bool from_right);

// JSON text to values and back (json.cc).

// `what` names the text in messages. Order of keys is kept; of a repeated key the last value holds.
Result<Value> parse_json(std::string_view json, const std::string& what);

struct JsonStyle {
  std::optional<int64_t> indent;      // spaces a level; none: one line
  std::string item_separator = ", ";  // Python's defaults; "," with an indent
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

// The JSON text that Python's json.dumps writes; kInvalidArgument for values without a JSON form.
Result<std::string> to_json(const Value& value, const JsonStyle& style);

}  // namespace forerun::text::jinja
