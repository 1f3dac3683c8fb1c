// Serializes a StageMessage (exec/stages/stage_message.h) without taps: the targets of trained
// heads have no stages in other processes (engine/load/models_to_load.h).
#pragma once

#include "exec/stages/stage_message.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

void write_stage_message(const StageMessage& message, WireWriter& to);

// Fills `message` and reuses its memory. Refuses another version before it reads any other field.
// Call check_stage_message() before the message's KV positions are used. After a failure, which the
// reader holds, the content of the message is undefined.
void read_stage_message(WireReader& from, StageMessage& message);

}  // namespace forerun
