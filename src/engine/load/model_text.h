// Loads the tokenizer and the chat template of a checkpoint in any file format.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_file.h"
#include "forerun/status.h"
#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace forerun {

// Fails with a message that names the file and the wrong field or key.
Result<Tokenizer> load_tokenizer(const Checkpoint& checkpoint);
// Fails with kNotFound if the checkpoint has no template. In a GGUF file tokenizer.chat_template is
// the regular template and tokenizer.chat_template.tool_use the one for tools; other named
// templates ("rag") are ignored, as in a directory.
Result<ChatTemplate> load_chat_template(const Checkpoint& checkpoint);
// Returns the source of the template, not parsed.
Result<ChatTemplateSources> load_chat_template_sources(const Checkpoint& checkpoint);

// Reads the vocabulary of a GGUF file; the result refers to the file's strings.
Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file);

}  // namespace forerun
