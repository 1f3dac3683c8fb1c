// The tokenizer and the chat template of a checkpoint, whatever its files are.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_file.h"
#include "forerun/status.h"
#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace forerun {

// Fail with the file and the field or key at fault.
Result<Tokenizer> load_tokenizer(const Checkpoint& checkpoint);
// kNotFound where the checkpoint has no template. In a GGUF file tokenizer.chat_template is the
// regular one and tokenizer.chat_template.tool_use the one for tools; other named ones ("rag") are
// not taken, as in a directory.
Result<ChatTemplate> load_chat_template(const Checkpoint& checkpoint);
// The same before it is parsed.
Result<ChatTemplateSources> load_chat_template_sources(const Checkpoint& checkpoint);

// The vocabulary of a GGUF file, whose strings it views.
Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file);

}  // namespace forerun
