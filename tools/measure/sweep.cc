#include "tools/measure/sweep.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/base/text.h"
#include "tools/request/request_options.h"

namespace tutti {

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
