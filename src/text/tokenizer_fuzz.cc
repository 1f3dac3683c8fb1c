// Fuzzes tokenizer.json with any bytes: they are refused or loaded, and encoding and decoding must
// then be consistent.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = forerun::Tokenizer::from_json(bytes);
  if (!tokenizer.ok()) return 0;
  const std::string texts[] = {"Hello,  w\xc3\xb6rld 123 \xe6\xbc\xa2\xe5\xad\x97\n\n",
                               "\xff\xf0\x9f", std::string(bytes.substr(0, 512))};
  for (const std::string& text : texts) {
    const auto ids = tokenizer->encode(text);
    if (!ids.ok()) continue;
    forerun::Detokenizer stream(*tokenizer);
    std::string streamed;
    for (const int32_t id : *ids) streamed += stream.push(id);
    streamed += stream.finish();
    if (streamed != tokenizer->decode(*ids)) std::abort();
    for (const size_t most : {ids->size() / 2, ids->size()}) {
      const auto within = tokenizer->encode_within(text, most);
      if (!within.ok()) continue;
      if (within->has_value() != (ids->size() <= most)) std::abort();
      if (within->has_value() && **within != *ids) std::abort();
    }
  }
  return 0;
}
