#include "tools/cluster/shared_command.h"

#include <array>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tools/cluster/cluster_flags.h"

namespace tutti {
namespace {

// Options that may differ between tasks.
constexpr std::array<absl::string_view, 4> kOfOneTask = {"--input", "--output",
                                                         "--json", "--rules"};

bool IsShared(const CLI::Option& option) {
  return option.get_group() != kClusterGroup &&
         !absl::c_linear_search(kOfOneTask, option.get_name());
}

}  // namespace

std::string SharedCommand(const CLI::App& command) {
  std::vector<std::string> words = {command.get_name()};
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || !IsShared(*option)) continue;
    if (!option->get_positional()) words.push_back(option->get_name());
    const bool is_flag = option->get_items_expected_max() == 0;
    if (!is_flag) words.push_back(absl::StrJoin(option->results(), ","));
  }
  return absl::StrJoin(words, " ");
}

}  // namespace tutti
