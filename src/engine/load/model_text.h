// The tokenizer and the chat template of a checkpoint, whatever its files are.
#pragma once

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace forerun {

// Fail with the file and the field or key at fault.
Result<Tokenizer> load_tokenizer(const Checkpoint& checkpoint);
// kNotFound where the checkpoint has no template.
Result<ChatTemplate> load_chat_template(const Checkpoint& checkpoint);

}  // namespace forerun
