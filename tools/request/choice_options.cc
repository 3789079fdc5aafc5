#include "tools/request/choice_options.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/base/exit_status.h"
#include "tools/base/option_values.h"
#include "tutti/collective.h"
#include "tutti/selection.h"

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

void AddDeviceOption(CLI::App* app, std::string* device_type) {
  const auto to_type = [](std::string& text) -> std::string {
    if (text != "cpu" && text != "gpu") {
      return absl::StrCat("\"", text, "\" is neither cpu nor gpu");
    }
    absl::AsciiStrToUpper(&text);
    return "";
  };
  app->add_option("--device", *device_type,
                  "cpu, or gpu: NVIDIA GPUs, which ranks share if\n"
                  "they are fewer [default: cpu]")
      ->transform(CLI::Validator(to_type, /*validator_desc=*/""))
      ->option_text("cpu|gpu");
}

void AddChoiceOptions(CLI::App* app, ChoiceOptions* options) {
  AddDeviceOption(app, &options->device_type);
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
  app->add_option("--rules", options->rules,
                  "a file of rules that choose algorithms\n"
                  "[default: that of TUTTI_RULES, if it is set]")
      ->check(NotEmpty())
      ->option_text("FILE");
}

void AddRankListOption(CLI::App* app, ChoiceOptions* options) {
  app->add_option("--rank-list", options->rank_list,
                  "ranks in the order in which the algorithm is to\n"
                  "use them: all around a ring, or those that each\n"
                  "reduce a piece (`tutti info`) [default: its own]")
      ->transform(WholeNumber(0, kMaxGroupSize - 1))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("R,R,...");
}

absl::StatusOr<std::shared_ptr<const SelectionRules>> TakeRules(
    const ChoiceOptions& options, const Variables& variables,
    const CollectiveRegistry& registry) {
  std::string path = options.rules;
  if (path.empty()) path = variables("TUTTI_RULES").value_or("");
  if (path.empty()) return nullptr;
  auto rules = ReadRulesFile(path, registry);
  if (absl::IsInvalidArgument(rules.status())) {
    return UsageError(rules.status().message());
  }
  return rules;
}

}  // namespace tutti
