#ifndef TUTTI_TOOLS_BASE_OPTION_VALUES_H_
#define TUTTI_TOOLS_BASE_OPTION_VALUES_H_

#include <cstdint>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"

namespace tutti {

// What the value of an option may be. Any other is an error that quotes it:
// `--devices: "x" is no whole number from 1 to 65536`.

// In decimal digits, also with leading zeros; for transform(), as what is only
// checked CLI11 reads by itself, 010 as 8.
CLI::Validator WholeNumber(uint64_t min, uint64_t max);

// Infinity is one.
CLI::Validator PositiveSeconds();

// Infinite where none are given.
absl::Duration DurationOf(std::optional<double> seconds);

// Refuses what an unset variable of a shell leaves.
CLI::Validator NotEmpty();

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_OPTION_VALUES_H_
