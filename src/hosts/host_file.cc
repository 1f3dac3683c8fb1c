#include "hosts/host_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr size_t kLongestName = 253;  // the domain name system's limit
constexpr size_t kLongestUser = 32;   // as on Linux
constexpr int32_t kMaxProcesses = 1024;
constexpr int32_t kMaxPorts = 65535;
constexpr std::string_view kBlank = " \t\r";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_part_of_name(char c) { return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_'; }

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && is_letter_or_digit(name.front()) &&
         std::all_of(name.begin(), name.end(), is_part_of_name);
}

// Checks only the characters; the program that connects to the address parses it.
bool is_ipv6_address(std::string_view name) {
  return name.size() <= 45 && std::count(name.begin(), name.end(), ':') >= 2 &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
                  c == ':' || c == '.';
         });
}

bool is_user_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestUser &&
         (is_letter_or_digit(name.front()) || name.front() == '_') &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
}

std::optional<int32_t> number_of(std::string_view text, int32_t min_number, int32_t max_number) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < min_number || number > max_number) return std::nullopt;
  return number;
}

enum class Field : uint8_t { kSlots, kMaxSlots, kPort, kUser };

std::optional<Field> field_of(std::string_view name) {
  constexpr std::pair<std::string_view, Field> kSpellings[] = {
      {"slots", Field::kSlots},        {"slot", Field::kSlots},    {"count", Field::kSlots},
      {"cpu", Field::kSlots},          {"cpus", Field::kSlots},    {"max_slots", Field::kMaxSlots},
      {"max-slots", Field::kMaxSlots}, {"port", Field::kPort},     {"username", Field::kUser},
      {"user_name", Field::kUser},     {"user-name", Field::kUser}};
  for (const auto& [spelling, field] : kSpellings) {
    if (name == spelling) return field;
  }
  return std::nullopt;
}

// Reads one line: a host and the number of its processes.
class LineReader {
 public:
  // `line` must not be empty, and must have no comment and no blanks at its ends.
  explicit LineReader(std::string_view line) : rest_(line) {}

  Status read() {
    FORERUN_RETURN_IF_ERROR(read_host(next_word()));
    while (true) {
      const std::string_view name = next_word();
      if (name.empty()) break;
      if (next_word() != "=") {
        return refuse(name, "a host's name or address, followed by any of " + fields());
      }
      FORERUN_RETURN_IF_ERROR(read_field(name, next_word()));
    }
    if (max_slots_ && *max_slots_ < slots_) {
      return Status(StatusCode::kInvalidArgument,
                    "found slots=" + std::to_string(slots_) + " and max_slots=" +
                        std::to_string(*max_slots_) + "; accepted: max_slots of at least slots");
    }
    return {};
  }
  const HostAddress& host() const { return host_; }
  int32_t slots() const { return slots_; }

 private:
  static std::string fields() { return "slots=, max_slots=, port= and username="; }
  static Status refuse(std::string_view found, const std::string& accepted) {
    return Status(StatusCode::kInvalidArgument,
                  "found '" + std::string(found) + "'; accepted: " + accepted);
  }

  // Returns the next word, which ends before a blank or '='; '=' is a word of its own.
  std::string_view next_word() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlank), rest_.size()));
    size_t end = std::min(rest_.find_first_of(" \t\r="), rest_.size());
    if (end == 0 && !rest_.empty()) end = 1;
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return word;
  }

  Status read_host(std::string_view word) {
    std::string_view name = word;
    if (const size_t at = word.find('@'); at != std::string_view::npos) {
      host_.user = word.substr(0, at);
      name = word.substr(at + 1);
      if (!is_user_name(host_.user)) return refuse(word, "a user's name in front of '@'");
    }
    if (!is_host_name(name) && !is_ipv6_address(name)) {
      return refuse(word, "a host's name or address");
    }
    host_.name = name;
    return {};
  }

  Status read_field(std::string_view name, std::string_view value) {
    const std::optional<Field> field = field_of(name);
    const std::string found = std::string(name) + "=" + std::string(value);
    if (!field) return refuse(found, fields());
    if (std::find(seen_.begin(), seen_.end(), *field) != seen_.end()) {
      return refuse(found, "each field once");
    }
    seen_.push_back(*field);
    if (*field == Field::kUser) {
      if (!is_user_name(value)) return refuse(found, "a user's name");
      host_.user = value;
      return {};
    }
    const int32_t max_number = *field == Field::kPort ? kMaxPorts : kMaxProcesses;
    const auto number = number_of(value, 1, max_number);
    if (!number) return refuse(found, "a number from 1 to " + std::to_string(max_number));
    if (*field == Field::kSlots) slots_ = *number;
    if (*field == Field::kMaxSlots) max_slots_ = *number;
    if (*field == Field::kPort) host_.port = *number;
    return {};
  }

  std::string_view rest_;
  HostAddress host_;
  int32_t slots_ = 1;
  std::optional<int32_t> max_slots_;
  std::vector<Field> seen_;
};

// Returns the line without its comment and the blanks at its ends.
std::string_view content_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  line = line.substr(0, line.find("//"));
  const size_t first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlank) + 1 - first);
}

}  // namespace

std::string HostAddress::line() const {
  return name + " slots=1" + (user.empty() ? "" : " username=" + user) +
         (port == 0 ? "" : " port=" + std::to_string(port)) + "\n";
}

Result<std::vector<HostAddress>> parse_host_file(std::string_view text, const std::string& file) {
  std::vector<HostAddress> hosts;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view content = content_of(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.empty()) continue;
    LineReader reader(content);
    FORERUN_RETURN_IF_ERROR(reader.read().with_context(file + ", line " + std::to_string(line)));
    const HostAddress& host = reader.host();
    const auto before = std::find_if(hosts.begin(), hosts.end(), [&](const HostAddress& other) {
      return other.name == host.name && other != host;
    });
    if (before != hosts.end()) {
      return Status(StatusCode::kInvalidArgument,
                    file + ", line " + std::to_string(line) + ": found '" + host.name +
                        "' with another user or port than before; accepted: one user and one port "
                        "for each host");
    }
    hosts.insert(hosts.end(), static_cast<size_t>(reader.slots()), host);
    if (hosts.size() > static_cast<size_t>(kMaxProcesses)) break;
  }
  if (hosts.size() < 2 || hosts.size() > static_cast<size_t>(kMaxProcesses)) {
    return Status(StatusCode::kInvalidArgument,
                  file + ": found " + std::to_string(hosts.size()) + " hosts; accepted: 2 to " +
                      std::to_string(kMaxProcesses) +
                      ", one for the text and the draft and one for each stage");
  }
  return hosts;
}

}  // namespace forerun
