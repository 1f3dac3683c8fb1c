// A StageMessage as bytes (exec/stages/stage_message.h).
#pragma once

#include "exec/stages/stage_message.h"
#include "hosts/bytes.h"

namespace forerun {

void write_stage_message(const StageMessage& message, ByteWriter& to);

// Fills `message`, whose memory is used again. What the bytes say of KV is to be checked by
// check_stage_message() before it is believed. On failure, which the reader tells, the message is
// in pieces. Another version is refused before anything else is read.
void read_stage_message(ByteReader& from, StageMessage& message);

}  // namespace forerun
