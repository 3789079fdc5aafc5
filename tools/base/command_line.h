#ifndef TUTTI_TOOLS_BASE_COMMAND_LINE_H_
#define TUTTI_TOOLS_BASE_COMMAND_LINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Validators of option values. An invalid value is an error that quotes it:
// `--devices: "x" is no whole number from 1 to 65536`.

// Accepts decimal digits, with or without leading zeros. Use it with
// transform(): after check(), CLI11 parses the text itself and reads 010 as 8.
CLI::Validator WholeNumber(uint64_t min, uint64_t max);

// Accepts infinity.
CLI::Validator PositiveSeconds();

// Help of the flag that sets the time: "wait for ...\n[default: 60]".
std::string HelpOf(const TimeRow& time);

// Infinite if `seconds` is not set.
absl::Duration DurationOf(std::optional<double> seconds);

// Refuses an empty value, which an unset shell variable expands to.
CLI::Validator NotEmpty();

// Explains why `app` refused a command line: the words found and the words
// wanted. `app` is the whole program, in the state that parse() left it in when
// it threw `error`. Its sub-commands are the tool's commands.
std::string UsageMessage(const CLI::ParseError& error, const CLI::App& app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_COMMAND_LINE_H_
