#include "tools/request/request_options.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/layout_text.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/base/text.h"

namespace tutti {
namespace {

CLI::Validator ClassOfDeterminism() {
  const auto check = [](const std::string& text) -> std::string {
    const auto parsed = ParseDeterminism(text);
    return parsed.ok() ? "" : std::string(parsed.status().message());
  };
  return CLI::Validator(check, /*validator_desc=*/"");
}

// Limit per rank: 1 PiB.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

void PermuteToTheNextRank(CollectiveSpec* spec, int group_size) {
  for (int rank = 0; rank < group_size; ++rank) {
    spec->permutation.push_back((rank + 1) % group_size);
  }
}

}  // namespace

void AddReductionOptions(CLI::App* app, CollectiveWords* words) {
  app->add_option("COLLECTIVE", words->collective,
                  "all_reduce, all_gather, reduce_scatter, broadcast,\n"
                  "all_to_all, permute, barrier, reduce, gather, scatter")
      ->required()
      ->option_text(" ");
  app->add_option("--reduction", words->reduction,
                  "sum, prod, min, max, avg, band, bor or bxor\n"
                  "[default: sum]")
      ->check(NotEmpty())
      ->option_text("NAME");
}

void AddRoleOptions(CLI::App* app, int max_ranks, CollectiveWords* words) {
  app->add_option("--root", words->root,
                  "the rank that sends (broadcast, scatter) or\n"
                  "receives (reduce, gather) [default: 0]")
      ->transform(WholeNumber(0, max_ranks - 1))
      ->option_text("RANK");
  app->add_option("--permutation", words->permutation,
                  "of permute: what rank i has goes to the i-th\n"
                  "rank of the list [default, but for run: to the\n"
                  "next rank]")
      ->transform(WholeNumber(0, max_ranks - 1))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("R,R,...");
}

void AddCollectiveOptions(CLI::App* app, CollectiveWords* words) {
  AddReductionOptions(app, words);
  AddRoleOptions(app, kMaxGroupSize, words);
}

absl::Status CheckOptionsOfBarrier(const CLI::App& app,
                                   const CollectiveWords& words,
                                   std::initializer_list<const char*> options) {
  if (words.collective != Name(CollectiveType::kBarrier)) {
    return absl::OkStatus();
  }
  for (const char* option : options) {
    if (app[option]->count() == 0) continue;
    return UsageError(
        absl::StrCat(option, " does not go with barrier, which moves no data"));
  }
  return absl::OkStatus();
}

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

absl::StatusOr<int64_t> ParseSize(absl::string_view option,
                                  const std::string& text) {
  const absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return UsageError(absl::StrCat(option, ": ", bytes.status().message()));
  }
  if (*bytes < 1) {
    return UsageError(
        absl::StrCat(option, " ", text, ": wanted at least 1 byte"));
  }
  if (*bytes > kMaxBytes) {
    return UsageError(absl::StrCat(option, " ", text, ": wanted at most ",
                                   FormatBytes(kMaxBytes)));
  }
  return bytes;
}

absl::StatusOr<GroupLayout> ParseLayout(const std::string& text,
                                        int max_ranks) {
  const auto devices = ParseLayoutText(text, max_ranks);
  if (!devices.ok()) {
    return UsageError(absl::StrCat("--layout: ", devices.status().message()));
  }
  std::vector<int> task_of_rank;
  for (size_t task = 0; task < devices->size(); ++task) {
    task_of_rank.insert(task_of_rank.end(), (*devices)[task],
                        static_cast<int>(task));
  }
  return GroupLayout::Create(task_of_rank);
}

std::string DTypeNames(size_t columns) {
  std::string text;
  size_t line_begin = 0;
  for (const DType dtype : kAllDTypes) {
    const std::string word = absl::StrCat(Name(dtype), ",");
    if (!text.empty()) {
      const bool fits = text.size() - line_begin + 1 + word.size() <= columns;
      text += fits ? ' ' : '\n';
      if (!fits) line_begin = text.size();
    }
    text += word;
  }
  text.pop_back();  // The last comma.
  return text;
}

absl::StatusOr<Workload> ParseWorkload(const CollectiveWords& words,
                                       const std::string& dtype,
                                       int group_size) {
  ASSIGN_OR_RETURN(auto spec, ParseCollectiveSpec(words));
  const auto parsed_dtype = ParseDType(dtype);
  if (!parsed_dtype.ok()) return UsageError(parsed_dtype.status().message());
  if (spec.type == CollectiveType::kPermute && spec.permutation.empty()) {
    PermuteToTheNextRank(&spec, group_size);
  }
  RETURN_IF_ERROR(CheckGroupSize(spec, group_size));
  if (Reduces(spec.type)) {
    const absl::Status supported = spec.merge_op.CheckSupports(*parsed_dtype);
    if (!supported.ok()) return UsageError(supported.message());
  }
  return Workload{.spec = std::move(spec),
                  .dtype = *parsed_dtype,
                  .group_size = group_size};
}

}  // namespace tutti
