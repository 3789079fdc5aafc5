#include "tools/choice_options.h"

#include <string>

namespace tutti {
namespace {

CLI::Validator ClassOfDeterminism() {
  const auto check = [](const std::string& text) -> std::string {
    const auto parsed = ParseDeterminism(text);
    return parsed.ok() ? "" : std::string(parsed.status().message());
  };
  return CLI::Validator(check, /*validator_desc=*/"");
}

}  // namespace

void AddChoiceOptions(CLI::App* app, ChoiceOptions* options) {
  app->add_option_function<std::string>(
         "--determinism",
         [options](const std::string& text) {
           const auto parsed = ParseDeterminism(text);
           if (parsed.ok()) options->determinism = *parsed;
         },
         "what the algorithm must promise at least: the same\n"
         "bits by_rank_order, for a fixed_layout, or\n"
         "not_guaranteed [default: not_guaranteed]")
      ->check(ClassOfDeterminism())
      ->option_text("CLASS");
}

}  // namespace tutti
