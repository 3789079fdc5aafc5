#include "tools/base/option_values.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr char kNoTypeInTheHelp[] = "";

bool ParseDigits(const std::string& text, uint64_t* number) {
  return absl::c_all_of(text, absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, number);
}

}  // namespace

CLI::Validator WholeNumber(uint64_t min, uint64_t max) {
  const auto check = [min, max](std::string& text) -> std::string {
    uint64_t number = 0;
    if (!ParseDigits(text, &number) || number < min || number > max) {
      return absl::StrCat("\"", text, "\" is no whole number from ", min,
                          " to ", max);
    }
    text = absl::StrCat(number);  // CLI11 would take 010 for 8.
    return "";
  };
  return CLI::Validator(check, kNoTypeInTheHelp);
}

CLI::Validator PositiveSeconds() {
  const auto check = [](const std::string& text) -> std::string {
    double seconds = 0;
    const bool has_blanks = absl::c_any_of(text, absl::ascii_isspace);
    if (!has_blanks && absl::SimpleAtod(text, &seconds) && seconds > 0) {
      return "";
    }
    return absl::StrCat("\"", text, "\" is no positive number of seconds");
  };
  return CLI::Validator(check, kNoTypeInTheHelp);
}

std::string HelpOf(const TimeRow& time) {
  return absl::StrCat(time.waits,
                      "\n[default: ", absl::ToDoubleSeconds(time.time), "]");
}

absl::Duration DurationOf(std::optional<double> seconds) {
  return seconds.has_value() ? absl::Seconds(*seconds)
                             : absl::InfiniteDuration();
}

CLI::Validator NotEmpty() {
  const auto check = [](const std::string& text) -> std::string {
    return text.empty() ? "\"\" is no name" : "";
  };
  return CLI::Validator(check, kNoTypeInTheHelp);
}

}  // namespace tutti
