#include "supervisor/message.h"

#include <string>

#include "base/status_macros.h"
#include "supervisor/message_fields.h"
#include "wire/frame.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

template <class T>
Bytes write(const T& message) {
  Bytes frame = begin_frame({.kind = static_cast<uint8_t>(message.kind)});
  WireWriter to(&frame);
  visit_fields(to, message);
  end_frame(frame);
  return frame;
}

template <class T>
Result<T> read(std::span<const std::byte> frame) {
  FORERUN_ASSIGN_OR_RETURN(const FrameHeader header,
                           read_frame(frame, static_cast<uint8_t>(T::kLastKind)));
  WireReader from(frame.subspan(kFrameHeaderBytes));
  if (header.generation != 0) {
    from.fail("generation", "found " + std::to_string(header.generation) + "; accepted: 0");
  }
  T message;
  message.kind = static_cast<typename T::Kind>(header.kind);
  visit_fields(from, message);
  FORERUN_RETURN_IF_ERROR(from.finish());
  return message;
}

}  // namespace

Bytes write_message(const DownMessage& message) { return write(message); }
Bytes write_message(const UpMessage& message) { return write(message); }

Result<DownMessage> read_down_message(std::span<const std::byte> frame) {
  return read<DownMessage>(frame);
}

Result<UpMessage> read_up_message(std::span<const std::byte> frame) {
  return read<UpMessage>(frame);
}

Bytes write_options(const EngineOptions& options) {
  Bytes bytes;
  WireWriter to(&bytes);
  visit_build(to);
  to("options", options);
  return bytes;
}

Result<EngineOptions> read_options(std::span<const std::byte> bytes) {
  WireReader from(bytes);
  visit_build(from);
  auto options = from.get<EngineOptions>("options");
  FORERUN_RETURN_IF_ERROR(from.finish());
  return options;
}

}  // namespace forerun
