// Reads the numeric sampling fields of a request from a JSON object, by the names and ranges of
// forerun/sampling_fields.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "forerun/sampling_fields.h"
#include "json/field_reader.h"

namespace forerun {

// Reads one field. If it is absent or null, `sampling` keeps its value.
template <class Json, class T>
void read_sampling_field(BasicFieldReader<Json>& fields, const SamplingField<T>& field,
                         SamplingOptions& sampling) {
  if constexpr (std::is_integral_v<T>) {
    const auto value = fields.integer(field.name, static_cast<int64_t>(field.min),
                                      static_cast<int64_t>(field.max));
    if (value) sampling.*field.option = static_cast<T>(*value);
  } else if (const auto value = fields.number(field.name, field.min, field.max)) {
    sampling.*field.option = *value;
  }
}

// Reads all fields.
template <class Json>
void read_sampling_fields(BasicFieldReader<Json>& fields, SamplingOptions& sampling) {
  for_each_sampling_field([&](const auto& field) { read_sampling_field(fields, field, sampling); });
}

}  // namespace forerun
