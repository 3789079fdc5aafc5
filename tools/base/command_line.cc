#include "tools/base/command_line.h"

#include <functional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tutti {
namespace {

constexpr char kNoTypeInTheHelp[] = "";

bool ParseDigits(const std::string& text, uint64_t* number) {
  return absl::c_all_of(text, absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, number);
}

template <typename T>
std::string JoinNames(const std::vector<const T*>& named) {
  return absl::StrJoin(named, ", ", [](std::string* out, const T* one) {
    absl::StrAppend(out, one->get_name());
  });
}

// The option's help text on one line.
std::string DescriptionOf(const CLI::Option& option) {
  return absl::StrReplaceAll(option.get_description(), {{"\n", " "}});
}

// The command named on the command line; the program itself if none is named.
const CLI::App& CommandOf(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen[0];
}

std::string UnknownWord(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const auto found =
      absl::c_find_if(rest, [](const std::string& one) { return one != "--"; });
  const std::string word = found == rest.end() ? "--" : *found;
  if (absl::StartsWith(word, "-")) {
    return absl::StrCat("unknown option \"", word, "\"");
  }
  const CLI::App& command = CommandOf(app);
  if (&command == &app) {
    return absl::StrCat(
        "unknown command \"", word, "\"; known: ",
        JoinNames(app.get_subcommands(std::function<bool(const CLI::App*)>())));
  }
  const std::string positionals = JoinNames(command.get_options(
      [](const CLI::Option* option) { return option->get_positional(); }));
  return absl::StrCat("unexpected argument \"", word, "\"; wanted ",
                      positionals, positionals.empty() ? "" : " and ",
                      "options only");
}

std::string MissingArgument(const CLI::ParseError& error,
                            const CLI::App& command) {
  const auto missing = command.get_options([](const CLI::Option* option) {
    return option->get_required() && option->count() == 0;
  });
  if (missing.empty()) return error.what();  // Missing after "--".
  const CLI::Option& option = *missing[0];
  return option.get_positional()
             ? absl::StrCat("wanted a ", option.get_name(), ": ",
                            DescriptionOf(option))
             : absl::StrCat(option.get_name(),
                            " is missing: ", DescriptionOf(option));
}

// Option that CLI11's error message names; null if it cannot be found.
const CLI::Option* OptionOf(absl::string_view message,
                            const CLI::App& command) {
  absl::ConsumePrefix(&message, "Could not convert: ");
  const std::string name(message.substr(0, message.find_first_of(": ")));
  const CLI::Option* option = command.get_option_no_throw(name);
  // CLI11 omits the dashes in errors about a flag's value.
  return option != nullptr
             ? option
             : command.get_option_no_throw(absl::StrCat("--", name));
}

std::string WrongNumberOfValues(const CLI::Option& option) {
  const int max = option.get_items_expected_max();
  if (max == 0) return absl::StrCat(option.get_name(), " takes no value");
  if (static_cast<int>(option.count()) > max) {
    return absl::StrCat(option.get_name(), " is given more than once");
  }
  return absl::StrCat(option.get_name(),
                      " needs a value: ", DescriptionOf(option));
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

std::string UsageMessage(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App& command = CommandOf(app);
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return UnknownWord(app);
  if (dynamic_cast<const CLI::RequiredError*>(&error)) {
    return MissingArgument(error, command);
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error)) {
    return absl::StrReplaceAll(error.what(),
                               {{" excludes ", " does not go with "}});
  }
  if (dynamic_cast<const CLI::RequiresError*>(&error)) {
    return absl::StrReplaceAll(error.what(), {{" requires ", " needs "}});
  }
  const bool is_validator_error =
      dynamic_cast<const CLI::ValidationError*>(&error) != nullptr;
  const CLI::Option* option = OptionOf(error.what(), command);
  if (is_validator_error || option == nullptr) return error.what();
  return WrongNumberOfValues(*option);
}

}  // namespace tutti
