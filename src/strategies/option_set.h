// Sets of speculation options: those that a strategy uses, or those that are set.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "forerun/speculation_fields.h"
#include "forerun/status.h"

namespace forerun {

// The fields of SpeculationOptions other than the strategy's name, in the order of
// kSpeculationFields.
enum class SpeculationOption : uint8_t {
  kSource,
  kShape,
  kAccept,
  kVerifyTokens,
  kDraftWidth,
  kDraftDepth,
  kSharedNoise,
  kExtraDraftSteps,
  kChildrenPerLeaf,
  kView,
  kViewBudget,
};
inline constexpr int32_t kNumSpeculationOptions = 11;

class OptionSet {
 public:
  constexpr OptionSet() = default;
  constexpr OptionSet(std::initializer_list<SpeculationOption> options) {
    for (const SpeculationOption option : options) bits_ |= bit(option);
  }
  constexpr bool has(SpeculationOption option) const { return (bits_ & bit(option)) != 0; }
  constexpr OptionSet operator|(OptionSet other) const {
    other.bits_ |= bits_;
    return other;
  }

 private:
  static constexpr uint32_t bit(SpeculationOption option) {
    return uint32_t{1} << static_cast<uint32_t>(option);
  }
  uint32_t bits_ = 0;
};

// Returns the name of the field in SpeculationOptions, such as "draft_width".
const char* option_name(SpeculationOption option);
// Returns a list for messages: "source, shape, accept"; "no options" if the set is empty.
std::string option_names(OptionSet options);
// Returns the option's value, for messages; nothing if it is not set.
std::optional<std::string> option_value(const SpeculationOptions& options,
                                        SpeculationOption option);
// Resets the option to its default.
void clear_option(SpeculationOptions& options, SpeculationOption option);

// `option` must be numeric.
OptionRange range_of(SpeculationOption option);
// Fails with kInvalidArgument if a number that is set is out of its range.
Status check_ranges(const SpeculationOptions& options);
// Returns the option's value, or its fallback.
int32_t number_of(const SpeculationOptions& options, SpeculationOption option);

}  // namespace forerun
