#include "text/detokenizer.h"

#include "text/tokenizer_impl.h"

namespace forerun {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer.impl_.get()), skip_special_(skip_special) {}

std::string Detokenizer::push(int32_t id) {
  std::string out;
  const bool special = id >= 0 && static_cast<size_t>(id) < tokenizer_->special.size() &&
                       tokenizer_->special[static_cast<size_t>(id)] != 0;
  if (!special || !skip_special_) tokenizer_->decoder.push(id, state_, out);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  tokenizer_->decoder.finish(state_, out);
  return out;
}

}  // namespace forerun
