#include "tools/request/request_options.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/names.h"
#include "framework/base/status_macros.h"
#include "framework/choice/why_not.h"
#include "framework/collective/layout_text.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/base/text.h"

namespace tutti {
namespace {

// Limit per rank: 1 PiB.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

void PermuteToTheNextRank(CollectiveSpec* spec, int group_size) {
  for (int rank = 0; rank < group_size; ++rank) {
    spec->permutation.push_back((rank + 1) % group_size);
  }
}

// Whether the algorithm can run the collective if `delegate` connects the
// processes.
bool Serves(const CollectiveRegistry& registry, absl::string_view name,
            CollectiveType type, absl::string_view device_type,
            const std::string& delegate = "") {
  const GroupLayout layout = GroupLayout::Uniform(1, 1);
  return SelectImplementation(registry,
                              {.type = type,
                               .layout = layout,
                               .device_type = std::string(device_type),
                               .one_process = true,
                               .delegate = delegate,
                               .implementation = std::string(name)})
      .ok();
}

}  // namespace

void AddReductionOptions(CLI::App* app, CollectiveWords* words) {
  app->add_option("COLLECTIVE", words->collective,
                  "all_reduce, all_gather, reduce_scatter, broadcast,\n"
                  "all_to_all, permute, barrier, reduce, gather, scatter,\n"
                  "scan, exscan")
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
  const auto check = [](const std::string& text) {
    return std::string(ParseDeterminism(text).status().message());
  };
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
      ->check(CLI::Validator(check, /*validator_desc=*/""))
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

absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindAlgorithm(
    const CollectiveRegistry& registry, absl::string_view name) {
  auto factory = registry.Find(name);
  if (factory.ok()) return factory;
  std::vector<std::string> known;
  for (const auto& entry : registry.List()) known.push_back(entry.name);
  return UsageError(absl::StrCat("unknown algorithm \"", name, "\"",
                                 DidYouMeanOrKnown(name, known)));
}

absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name, CollectiveType type,
                            absl::string_view device_type) {
  ASSIGN_OR_RETURN(const auto factory, FindAlgorithm(registry, name));
  const ImplementationTraits& traits = factory->traits();
  if (Serves(registry, name, type, device_type, traits.delegate)) {
    return absl::OkStatus();
  }
  const std::string why_not = WhyNotOfParts(traits);
  if (!why_not.empty() && absl::c_linear_search(traits.collectives, type)) {
    return UsageError(absl::StrCat(name, " ", why_not));
  }
  const std::vector<std::string> others =
      AlgorithmsFor(registry, type, device_type);
  return UsageError(
      absl::StrCat(name, " does not do ", Name(type), " on ", device_type,
                   " devices; these do: ",
                   others.empty() ? "none" : absl::StrJoin(others, ", ")));
}

std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       CollectiveType type,
                                       absl::string_view device_type) {
  std::vector<std::string> names;
  for (const CollectiveRegistry::Entry& entry : registry.List()) {
    if (Serves(registry, entry.name, type, device_type)) {
      names.push_back(entry.name);
    }
  }
  return names;
}

void AddSweepOptions(CLI::App* app, SweepOptions* options) {
  CLI::Option* const bytes =  // An empty text counts as given.
      app->add_option_function<std::string>(
             "--bytes",
             [options](const std::string& text) { options->bytes = text; },
             "this size alone; K, M and G are powers of 1024")
          ->option_text("SIZE");
  app->add_option(
         "--min-bytes", options->min_bytes,
         absl::StrCat("smallest size [default: ", options->min_bytes, "]"))
      ->excludes(bytes)
      ->option_text("SIZE");
  app->add_option(
         "--max-bytes", options->max_bytes,
         absl::StrCat("largest size [default: ", options->max_bytes, "]"))
      ->excludes(bytes)
      ->option_text("SIZE");
  app->add_option("--factor", options->factor,
                  absl::StrCat("from one size to the next [default: ",
                               options->factor, "]"))
      ->transform(WholeNumber(2, 1 << 30))
      ->excludes(bytes)
      ->option_text("N");
  app->add_option(
         "--dtype", options->dtype,
         absl::StrCat(DTypeNames(42), " [default: ", options->dtype, "]"))
      ->option_text("NAME");
}

absl::StatusOr<std::vector<int64_t>> SweptSizes(const SweepOptions& options) {
  if (options.bytes.has_value()) {
    ASSIGN_OR_RETURN(const auto bytes, ParseSize("--bytes", *options.bytes));
    return std::vector<int64_t>{bytes};
  }
  ASSIGN_OR_RETURN(const auto min_bytes,
                   ParseSize("--min-bytes", options.min_bytes));
  ASSIGN_OR_RETURN(const auto max_bytes,
                   ParseSize("--max-bytes", options.max_bytes));
  if (min_bytes > max_bytes) {
    return UsageError(absl::StrCat("--min-bytes ", options.min_bytes,
                                   " is more than --max-bytes ",
                                   options.max_bytes));
  }
  return GeometricSizes(min_bytes, max_bytes, options.factor);
}

std::vector<Workload> SweptWorkloads(const Workload& workload,
                                     const std::vector<int64_t>& sizes) {
  std::vector<Workload> workloads;
  for (int64_t bytes : sizes) {
    const int64_t count = CountFor(workload.spec.type, workload.dtype,
                                   workload.group_size, bytes);
    if (!workloads.empty() && workloads.back().count == count) continue;
    workloads.push_back(workload);
    workloads.back().count = count;
  }
  return workloads;
}

}  // namespace tutti
