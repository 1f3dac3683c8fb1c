#include "tree_view.h"

#include <string_view>
#include <vector>

#include "terminal.h"

namespace forerun::app {
namespace {

// Returns a token on one line: control characters visible, spaces kept.
std::string visible(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "⏎";
    } else if (c == '\t') {
      out += "⇥";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "·";
    } else {
      out += c;
    }
  }
  return out.empty() ? "∅" : out;
}

}  // namespace

std::string format_round(const SpeculationRound& round, const Engine& engine, std::FILE* stream) {
  // Without colours (a pipe, NO_COLOR) marks replace them: +accepted -rejected =target's own.
  const bool marks = paint(stream, Colour::kGreen, "x") == "x";
  const auto show = [&](int32_t token, Colour colour, std::string_view mark) {
    const std::string text = visible(engine.detokenize({token}));
    return marks ? std::string(mark) + text : paint(stream, colour, text);
  };

  std::string path;
  for (size_t idx = 1; idx < round.nodes.size(); ++idx) {
    if (!round.nodes[idx].accepted) continue;
    path += (path.empty() ? "" : "│") + show(round.nodes[idx].token, Colour::kGreen, "+");
  }
  path += (path.empty() ? "" : "│") + show(round.bonus, Colour::kBold, "=");

  // Lists the rejected draft tokens, grouped by their parent node.
  std::string rejected;
  for (size_t parent = 0; parent < round.nodes.size(); ++parent) {
    std::string siblings;
    for (size_t idx = 1; idx < round.nodes.size(); ++idx) {
      const SpeculationRound::Node& node = round.nodes[idx];
      if (node.accepted || node.parent != static_cast<int32_t>(parent)) continue;
      siblings += (siblings.empty() ? "" : "│") + show(node.token, Colour::kRed, "-");
    }
    if (siblings.empty()) continue;
    rejected += (rejected.empty() ? "" : "  ") + siblings;
  }
  std::string line = "  " + path;
  if (!rejected.empty()) line += paint(stream, Colour::kDim, "    ✗ ") + rejected;
  return line + "\n";
}

}  // namespace forerun::app
