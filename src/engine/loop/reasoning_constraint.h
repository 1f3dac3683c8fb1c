// ReasoningConstraint applies an output format to the answer of a model that reasons first: the
// format holds only after the reasoning.
//
// Up to the first closing tag any token may come, with two exceptions: tokens that would end the
// output, since the formatted part is still missing, and tokens that contain the end of the tag
// followed by text that the format cannot begin with. Two line breaks may follow the tag, as models
// are trained to write them; then the format's own constraint decides. If the output opens its
// reasoning itself, its first bytes may be those of the opening tag or of the format; a complete
// opening tag starts the reasoning.
//
// Tags are matched in the bytes of tokens, at any token boundary, and in the names of special
// tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/loop/grammar_constraint.h"
#include "forerun/output_format.h"
#include "step/token_constraint.h"

namespace forerun {

// The tokens that contain or border the tags, found once for all formats.
class ReasoningTokens {
 public:
  // `bytes` are the bytes of every token, by id; for special tokens their names; empty if an id has
  // no token.
  ReasoningTokens(OutputReasoning tags, std::shared_ptr<const std::vector<std::string>> bytes);

  const OutputReasoning& tags() const { return tags_; }
  std::string_view bytes(TokenId token) const {
    const auto idx = static_cast<size_t>(token);
    return token >= 0 && idx < bytes_->size() ? std::string_view((*bytes_)[idx])
                                              : std::string_view();
  }
  // Returns how many bytes of the closing tag the text ends with after `byte`, if it ended with
  // `matched` bytes of it before.
  size_t match_close(size_t matched, char byte) const;

  // Returns the tokens that complete the closing tag after `matched` bytes of it.
  std::span<const TokenId> closing(size_t matched) const { return closing_[matched]; }
  // Returns the tokens that continue or complete the opening tag after `matched` bytes of it.
  std::span<const TokenId> opening(size_t matched) const { return opening_[matched]; }
  // Returns the tokens that begin with a line break.
  std::span<const TokenId> line_breaks() const { return line_breaks_; }

 private:
  void sort_in(TokenId token, std::string_view bytes);

  const OutputReasoning tags_;
  const std::shared_ptr<const std::vector<std::string>> bytes_;
  std::vector<size_t> shorter_;  // for each length of a prefix of the tag, its longest border
  // Indexed by the number of bytes matched before.
  std::vector<std::vector<TokenId>> closing_, opening_;
  std::vector<TokenId> line_breaks_;
};

class ReasoningConstraint : public TokenConstraint {
 public:
  // The tokens that may follow at the transitions between kinds of text. Computed once per format,
  // since masks are read within Steps.
  struct Edges {
    std::shared_ptr<const ReasoningTokens> tokens;
    std::vector<TokenId> end_tokens;                // tokens that end an output
    std::vector<std::vector<TokenId>> not_closing;  // by bytes matched: tokens that may not follow
    std::vector<std::vector<TokenId>> opening;      // by bytes matched: tokens that may follow
    // Tokens that may follow, indexed by the line breaks so far.
    std::vector<std::vector<TokenId>> led_by_a_break;
  };
  static std::shared_ptr<const Edges> find_edges(std::shared_ptr<const ReasoningTokens> tokens,
                                                 const GrammarConstraint& format,
                                                 std::vector<TokenId> end_tokens);

  // `format` is the request's own constraint; `edges` are those of the same format.
  ReasoningConstraint(std::shared_ptr<const Edges> edges,
                      std::shared_ptr<const GrammarConstraint> format);

  State start() const override;
  State after(const State& state, TokenId token) const override;
  void allow(const State& state, std::span<uint32_t> words) const override;
  MaskState prepare(const State& state, int64_t& steps) const override;
  bool is_late(const State& state) const override;
  Status error(const State& state) const override;

 private:
  enum class Place : uint8_t { kOpening, kReasoning, kBehind, kFormat };
  struct At {
    Place place = Place::kReasoning;
    size_t matched = 0;  // bytes of a tag; in kBehind, number of line breaks
    State format = {};   // the format's state in kFormat, and in kOpening while the text may still
                         // belong to the format
  };

  static const At& of(const State& state) { return *static_cast<const At*>(state.get()); }
  // Returns the state after `token` with the bytes `bytes` (not empty); null if no output continues
  // with it.
  State step(const At& at, TokenId token, std::string_view bytes) const;
  State open(size_t matched, std::string_view bytes, State format) const;
  State reason(size_t matched, std::string_view bytes) const;
  State leave(size_t line_breaks, std::string_view bytes) const;
  // Returns the state of the format that provides the mask at `at`; null if none does.
  State counting(const At& at) const;
  // Selects from `tokens`: if `leading`, those that an output may continue with at `at`; otherwise
  // the others.
  std::vector<TokenId> select(const At& at, std::span<const TokenId> tokens, bool leading) const;

  const std::shared_ptr<const Edges> edges_;
  const std::shared_ptr<const GrammarConstraint> format_;
  const State format_start_;
};

}  // namespace forerun
