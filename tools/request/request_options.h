#ifndef TUTTI_TOOLS_REQUEST_REQUEST_OPTIONS_H_
#define TUTTI_TOOLS_REQUEST_REQUEST_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/base/environment_variables.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Options that fill `words`, which must outlive the parsing.

// Adds COLLECTIVE and --reduction, which do not depend on the ranks.
void AddReductionOptions(CLI::App* app, CollectiveWords* words);

// Adds --root and --permutation, which assign roles to ranks, in a group of at
// most `max_ranks`.
void AddRoleOptions(CLI::App* app, int max_ranks, CollectiveWords* words);

// Adds all four options.
void AddCollectiveOptions(CLI::App* app, CollectiveWords* words);

// Checks the options of a barrier, which has no data. Errors: UsageError if one
// of `options`, which describe data, was given with a barrier.
absl::Status CheckOptionsOfBarrier(const CLI::App& app,
                                   const CollectiveWords& words,
                                   std::initializer_list<const char*> options);

// Command-line options that control the choice of an implementation, apart from
// its name.
struct ChoiceOptions {
  // Lowest level accepted.
  Determinism determinism = Determinism::kNotGuaranteed;
  std::string rules;           // Path of a file, or empty.
  std::vector<int> rank_list;  // As CollImplDetails::rank_list.
  std::string device_type = "CPU";
};

// Adds --device, whose value becomes a device type. `device_type` must outlive
// the parsing.
void AddDeviceOption(CLI::App* app, std::string* device_type);

// Adds --device, --determinism and --rules. `options` must outlive the parsing.
void AddChoiceOptions(CLI::App* app, ChoiceOptions* options);

// Adds --rank-list, for commands that run the chosen implementation.
void AddRankListOption(CLI::App* app, ChoiceOptions* options);

// Rules from the file that --rules names, else from the file that TUTTI_RULES
// names; null if neither is set. Errors: UsageError that describes the mistake
// in the file; the error of a file that cannot be read.
absl::StatusOr<std::shared_ptr<const SelectionRules>> TakeRules(
    const ChoiceOptions& options, const Variables& variables,
    const CollectiveRegistry& registry);

// Parsers of options that describe a group and its data. All are pure. Errors:
// UsageError that names the option and quotes its value.

// Parses the value of `option`, from 1 byte to 1 PiB: the limit keeps later
// arithmetic far from overflow.
absl::StatusOr<int64_t> ParseSize(absl::string_view option,
                                  const std::string& text);

// Parses --layout: "4x2" is 4 tasks with 2 devices each; "3+1+2" lists the
// devices of each task, as GroupLayout::ToString() does. At most `max_ranks` in
// total.
absl::StatusOr<GroupLayout> ParseLayout(const std::string& text, int max_ranks);

// Names of all dtypes, in lines of at most `columns` characters.
std::string DTypeNames(size_t columns);

// Returns a workload without its size. A permute without a permutation sends to
// the next rank. Errors: also for a dtype that the reduction does not support.
absl::StatusOr<Workload> ParseWorkload(const CollectiveWords& words,
                                       const std::string& dtype,
                                       int group_size);

// Errors: UsageError listing the known names.
absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindAlgorithm(
    const CollectiveRegistry& registry, absl::string_view name);

// Errors: those of FindAlgorithm(); also UsageError if the algorithm does not
// run this collective on such devices (the message lists the algorithms that
// do), or if it cannot be built from its parts. An algorithm that leaves the
// collective to a library passes: it runs if the library connects the
// processes.
absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name, CollectiveType type,
                            absl::string_view device_type = "CPU");

// Names of the algorithms that run the collective on such devices without a
// library between processes.
std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       CollectiveType type,
                                       absl::string_view device_type = "CPU");

// Sizes that a command measures, as given on its command line.
struct SweepOptions {
  std::optional<std::string> bytes;  // Measures only this size.
  std::string min_bytes = "4";
  std::string max_bytes;
  int factor = 0;
  std::string dtype = "float32";
};

// Adds --bytes or --min-bytes, --max-bytes and --factor, and --dtype. The help
// shows the values in `options` as defaults. `options` must outlive the
// parsing.
void AddSweepOptions(CLI::App* app, SweepOptions* options);

// Errors: UsageError describing the mistake and the option.
absl::StatusOr<std::vector<int64_t>> SweptSizes(const SweepOptions& options);

// Returns one workload for each size. Sizes with equal numbers of elements give
// one workload.
std::vector<Workload> SweptWorkloads(const Workload& workload,
                                     const std::vector<int64_t>& sizes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_REQUEST_OPTIONS_H_
