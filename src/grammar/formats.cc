#include "grammar/formats.h"

#include <array>
#include <utility>

namespace forerun::grammar {
namespace {

// Days of months, and 29 February in leap years.
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

// Returns a pattern of eight groups, or fewer around one "::".
std::string ipv6() {
  std::string all = "(" + kGroup + ":){7}" + kGroup + "|::";
  for (int before = 0; before <= 7; ++before) {
    // A head of `before` groups and "::", followed by at least one group and at most seven groups
    // in all.
    const int after = 7 - before;
    const std::string head =
        before == 0 ? ":" : "(" + kGroup + ":){" + std::to_string(before) + "}";
    if (before > 0) all += "|" + head + ":";
    if (after > 0) all += "|" + head + "(:" + kGroup + "){1," + std::to_string(after) + "}";
  }
  return all;
}

// Returns a pattern of a URI with `letters` in addition to the reserved characters; the scheme is
// optional if `relative`.
std::string uri(const std::string& letters, bool relative) {
  const std::string escape = "|%[0-9A-Fa-f]{2})";
  const std::string segment = "([" + letters + "._~!$&'()*+,;=:@-]" + escape + "*";
  const std::string first = "([" + letters + "._~!$&'()*+,;=@-]" + escape + "+";  // no colon
  const std::string user = "(([" + letters + "._~!$&'()*+,;=:-]" + escape + "*@)?";
  const std::string host =
      "(([" + letters + "._~!$&'()*+,;=-]" + escape + "*|\\[[0-9A-Fa-f:.]+\\])";
  const std::string more = "([" + letters + "._~!$&'()*+,;=:@/?-]" + escape + "*";
  const std::string tail = "(\\?" + more + ")?(#" + more + ")?";
  const std::string authority = "//" + user + host + "(:[0-9]{1,5})?(/" + segment + ")*";
  // A path that begins with two slashes would be an authority.
  const std::string rooted = "/(" + segment + "(/" + segment + ")*)?";
  const std::string absolute = "[A-Za-z][A-Za-z0-9+.-]*:(" + authority + "|/|/([" + letters +
                               "._~!$&'()*+,;=:@-]" + escape + "+(/" + segment + ")*|([" + letters +
                               "._~!$&'()*+,;=:@-]" + escape + "+(/" + segment + ")*)?" + tail;
  if (!relative) return absolute;
  return absolute + "|(" + authority + "|/|/([" + letters + "._~!$&'()*+,;=:@-]" + escape + "+(/" +
         segment + ")*|" + first + "(/" + segment + ")*)?" + tail;
}

std::string uri_template() {
  const std::string name = "[A-Za-z0-9_]+(\\.[A-Za-z0-9_]+)*(:[1-9][0-9]{0,3}|\\*)?";
  return "([A-Za-z0-9._~!$&()*+,;=:@/?#\\[\\]-]|%[0-9A-Fa-f]{2}|\\{[+#./;?&]?" + name + "(," +
         name + ")*\\})*";
}

// Returns a pattern that matches regular expressions, with groups up to three deep and without
// back-references.
std::string regex() {
  const std::string escape = "\\\\[dDwWsSbBtnrfv0.^$*+?()[\\]{}|/\\\\\"'@:;,_#%&=<>!~`-]";
  // {m,n} where m has at most as many digits as n, so that m is not above n.
  std::string counts = "[0-9]{1,3}|[0-9]{1,3},|[0-9],[1-9][0-9]{1,4}|[0-9]{2},[1-9][0-9]{2,4}";
  for (char low = '0'; low <= '9'; ++low) counts += std::string("|") + low + ",[" + low + "-9]";
  const std::string quantifier = "([*+?]\\??|\\{(" + counts + ")\\}\\?{0,1}){0,1}";
  const std::string member = "([^\\]\\\\[^-]|" + escape + "|0-9|a-z|A-Z|a-f|A-F)";
  const std::string set = "\\[\\^?" + member + "+-?\\]";
  const std::string plain = "[^\\\\*+?()[\\]{}|]|" + escape + "|" + set;
  std::string all = "((" + plain + ")" + quantifier + ")*";
  all += "(\\|" + all + ")*";
  for (int level = 0; level < 3; ++level) {
    const std::string group = "\\((\\?[:=!])?" + all + "\\)";
    const std::string part = "((" + plain + "|" + group + ")" + quantifier + ")*";
    all = part + "(\\|" + part + ")*";
  }
  return all;
}

const std::string kAscii = "A-Za-z0-9";
const std::string kWide = "A-Za-z0-9\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef";

const std::array<std::pair<std::string_view, std::string>, 18>& formats() {
  static const std::array<std::pair<std::string_view, std::string>, 18> table = {{
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
      {"uri", uri(kAscii, false)},
      {"uri-reference", uri(kAscii, true)},
      {"iri", uri(kWide, false)},
      {"iri-reference", uri(kWide, true)},
      {"uri-template", uri_template()},
      {"regex", regex()},
      {"idn-email", "[" + kWide + "!#$%&'*+/=?^_`{|}~.-]+@[" + kWide + ".-]+"},
      {"json-pointer", "(/([^~/]|~[01])*)*"},
      {"relative-json-pointer", "(0|[1-9][0-9]{0,8})(#|(/([^~/]|~[01])*)*)"},
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

}  // namespace forerun::grammar
