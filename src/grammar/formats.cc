#include "grammar/formats.h"

#include <array>
#include <utility>

namespace forerun::grammar {
namespace {

// Days of months, and 29 February in the years that have it.
const std::string kDate =
    "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
    "|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
    "|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)";
const std::string kClock = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?";
const std::string kZone = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kLabel = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?";
const std::string kHost = kLabel + "(\\." + kLabel + ")*";
const std::string kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const std::string kByte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kIpv4 = kByte + "(\\." + kByte + "){3}";
const std::string kGroup = "[0-9A-Fa-f]{1,4}";

// Eight groups, or fewer around one "::".
std::string ipv6() {
  std::string all = "(" + kGroup + ":){7}" + kGroup + "|::";
  for (int before = 0; before <= 7; ++before) {
    // `before` groups, "::", then at least one group and at most seven in all.
    const int after = 7 - before;
    const std::string head =
        before == 0 ? ":" : "(" + kGroup + ":){" + std::to_string(before) + "}";
    if (before > 0) all += "|" + head + ":";
    if (after > 0) all += "|" + head + "(:" + kGroup + "){1," + std::to_string(after) + "}";
  }
  return all;
}

const std::array<std::pair<std::string_view, std::string>, 11>& formats() {
  static const std::array<std::pair<std::string_view, std::string>, 11> table = {{
      {"date-time", kDate + "T" + kClock + kZone},
      {"date", kDate},
      {"time", kClock + kZone},
      {"duration",
       "P([0-9]{1,9}W|(([0-9]{1,9}Y)?[0-9]{1,9}M)?[0-9]{1,9}D|[0-9]{1,9}Y([0-9]{1,9}M)?|[0-9]{1,9}M"
       "|([0-9]{1,9}D)?T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?"
       "|[0-9]{1,9}S))"},
      {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"email", kAtom + "(\\." + kAtom + ")*@" + kHost},
      {"hostname", kHost},
      {"ipv4", kIpv4},
      {"ipv6", ipv6()},
      {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(//" + kHost +
                  "(:[0-9]{1,5})?)?(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*"
                  "(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
                  "(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"},
      {"json-pointer", "(/([^~/]|~[01])*)*"},
  }};
  return table;
}

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
  for (const auto& [name, pattern] : formats()) {
    if (name == format) return "^(" + pattern + ")$";
  }
  return std::nullopt;
}

std::string known_formats() {
  std::string names;
  for (const auto& [name, pattern] : formats()) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace forerun::grammar
