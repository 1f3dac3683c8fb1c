// Makes token constraints from the output formats of requests. Each format is compiled once and
// kept; all formats share one object for token masks.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/loop/grammar_constraint.h"
#include "engine/loop/mask_threads.h"
#include "engine/loop/reasoning_constraint.h"
#include "forerun/output_format.h"
#include "forerun/status.h"
#include "grammar/grammar.h"
#include "grammar/token_masks.h"
#include "step/token_constraint.h"
#include "text/tokenizer.h"

namespace forerun {

class OutputFormats {
 public:
  // `tokenizer` must outlive this object and its constraints. `end_tokens`: tokens that end an
  // output; if there are none, formats are refused.
  OutputFormats(const Tokenizer& tokenizer, std::vector<int32_t> end_tokens);

  // Returns a constraint for one request; null for kAny. Compiles a new format on the calling
  // thread. Error messages begin with "output_format". May be called from any thread.
  Result<std::shared_ptr<const TokenConstraint>> constraint(const OutputFormat& format);
  // Compiles the format and keeps the result, also if that is an error. With `quick`, gives up
  // after about 30 ms: it then keeps nothing and returns false. Otherwise returns true. May be
  // called from any thread.
  bool prepare(const OutputFormat& format, bool quick);

 private:
  struct Kept {
    OutputFormat format;
    Status status;  // not ok: the reason why there is no constraint
    std::shared_ptr<const GrammarConstraint::Format> shared = {};
    // Set if the format holds after reasoning.
    std::shared_ptr<const ReasoningConstraint::Edges> edges = {};
  };
  using KeptPtr = std::shared_ptr<const Kept>;

  // Makes a constraint for one request.
  static Result<std::shared_ptr<const TokenConstraint>> constraint_of(const Kept& kept);
  // Returns null if the format is not kept.
  KeptPtr find(const OutputFormat& format);
  // Compiles the format and keeps the result. Returns null and keeps nothing if `quick` is set and
  // the format takes longer.
  KeptPtr make(const OutputFormat& format, bool quick);
  // Reads the vocabulary when the first format needs it.
  std::shared_ptr<grammar::TokenMasks> masks();
  std::shared_ptr<const ReasoningTokens> reasoning_tokens(const OutputReasoning& tags);

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> end_tokens_;
  std::mutex mutex_;
  std::shared_ptr<grammar::TokenMasks> masks_;
  std::shared_ptr<MaskThreads> threads_;  // made with masks_
  std::list<KeptPtr> kept_;               // the latest first
  // By id; for special tokens their names.
  std::shared_ptr<const std::vector<std::string>> token_bytes_;
  std::vector<std::shared_ptr<const ReasoningTokens>> reasoning_tokens_;
};

}  // namespace forerun
