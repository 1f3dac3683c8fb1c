// Payloads of the frames with which a stage gets chunks of files from the coordinator.
#pragma once

#include <cstdint>

#include "hosts/file_manifest.h"
#include "wire/bytes.h"

namespace forerun {

struct ChunkAsk {
  ChunkId id;
  bool again = false;       // what came had another digest
  uint64_t left_bytes = 0;  // that the stage still lacks, this chunk's included
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<ChunkAsk> auto& ask) {
  visit("id", ask.id);
  visit("again", ask.again);
  visit("left bytes", ask.left_bytes);
}

struct ChunkAnswer {
  ChunkId id;
  Bytes content;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<ChunkAnswer> auto& answer) {
  visit("id", answer.id);
  visit("content", answer.content);
}

}  // namespace forerun
