// ReasoningConstraint applies an output format to the answer of a model that reasons first: the
// format holds only behind the reasoning.
//
// Up to the first closing tag any token may come, except those that would end the output, since the
// format is still owed, and those that contain the end of the tag and then text that the format
// cannot begin with. Two line breaks may follow the tag, as models are trained to write them; then
// the format's own constraint decides. Where the output opens its reasoning itself, its first bytes
// may be those of the opening tag or of the format; a complete opening tag is reasoning.
//
// Tags are found in the bytes of tokens, wherever tokens cut a tag, and in the names of special
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

// The tokens that matter to a pair of tags, found once for all formats.
class ReasoningTokens {
 public:
  // `bytes`: those of every token by id, for special tokens their names; empty where an id has no
  // token.
  ReasoningTokens(OutputReasoning tags, std::shared_ptr<const std::vector<std::string>> bytes);

  const OutputReasoning& tags() const { return tags_; }
  std::string_view bytes(TokenId token) const {
    const auto idx = static_cast<size_t>(token);
    return token >= 0 && idx < bytes_->size() ? std::string_view((*bytes_)[idx])
                                              : std::string_view();
  }
  // How many bytes of the closing tag the text ends with after `byte`, where it ended with
  // `matched` before.
  size_t match_close(size_t matched, char byte) const;

  // Tokens that complete the closing tag after `matched` bytes of it.
  std::span<const TokenId> closing(size_t matched) const { return closing_[matched]; }
  // Tokens that continue or complete the opening tag after `matched` bytes of it.
  std::span<const TokenId> opening(size_t matched) const { return opening_[matched]; }
  // Tokens that begin with a line break.
  std::span<const TokenId> line_breaks() const { return line_breaks_; }

 private:
  void sort_in(TokenId token, std::string_view bytes);

  const OutputReasoning tags_;
  const std::shared_ptr<const std::vector<std::string>> bytes_;
  std::vector<size_t> shorter_;  // by length of a prefix of the tag: its longest border
  std::vector<std::vector<TokenId>> closing_, opening_;  // by bytes matched before
  std::vector<TokenId> line_breaks_;
};

class ReasoningConstraint : public TokenConstraint {
 public:
  // The tokens that may follow where text of one kind gives way to text of another. Computed once
  // for a format, since masks are read within Steps.
  struct Edges {
    std::shared_ptr<const ReasoningTokens> tokens;
    std::vector<TokenId> end_tokens;                // those that end an output
    std::vector<std::vector<TokenId>> not_closing;  // by bytes matched: tokens that may not follow
    std::vector<std::vector<TokenId>> opening;      // by bytes matched: tokens that may follow
    // Tokens that may follow, indexed by the line breaks so far.
    std::vector<std::vector<TokenId>> led_by_a_break;
  };
  static std::shared_ptr<const Edges> find_edges(std::shared_ptr<const ReasoningTokens> tokens,
                                                 const GrammarConstraint& format,
                                                 std::vector<TokenId> end_tokens);

  // `format`: the request's own constraint. `edges`: those of the same format.
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
    size_t matched = 0;  // bytes of a tag; in kBehind, line breaks
    State format = {};   // the format's state in kFormat; in kOpening too, where its text may still
                         // be the format's
  };

  static const At& of(const State& state) { return *static_cast<const At*>(state.get()); }
  // The state after `token`, whose bytes are `bytes` (not empty); null where no output continues
  // with it.
  State step(const At& at, TokenId token, std::string_view bytes) const;
  State open(size_t matched, std::string_view bytes, State format) const;
  State reason(size_t matched, std::string_view bytes) const;
  State leave(size_t line_breaks, std::string_view bytes) const;
  // The state of the format whose mask decides at `at`; null where none does.
  State counting(const At& at) const;
  // `leading`: those of `tokens` that an output may continue with at `at`; otherwise the others.
  std::vector<TokenId> select(const At& at, std::span<const TokenId> tokens, bool leading) const;

  const std::shared_ptr<const Edges> edges_;
  const std::shared_ptr<const GrammarConstraint> format_;
  const State format_start_;
};

}  // namespace forerun
