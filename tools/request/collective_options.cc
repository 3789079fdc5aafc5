#include "tools/request/collective_options.h"

#include "absl/strings/str_cat.h"
#include "tools/base/exit_status.h"
#include "tools/base/option_values.h"
#include "tutti/collective.h"

namespace tutti {

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

}  // namespace tutti
