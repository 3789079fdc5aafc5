#include "tools/cluster/cluster_flags.h"

#include <array>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace {

// Options of a worker that `tutti launch` sets itself.
constexpr std::array<absl::string_view, 6> kNotOfLaunch = {
    "cluster", "cluster-file", "task", "bind", "port", "insecure"};

struct Flag {
  const char* name;
  const char* value;
  std::string help;
};

void Add(CLI::App* app, ClusterWords* words, const Flag& flag) {
  const std::string name = flag.name;
  app->add_option_function<std::string>(
         absl::StrCat("--", name),
         [words, name](const std::string& value) { (*words)[name] = value; },
         flag.help)
      ->check(NotEmpty())
      ->option_text(flag.value)
      ->group(kClusterGroup);
}

// Options that may differ between tasks.
constexpr std::array<absl::string_view, 4> kOfOneTask = {"--input", "--output",
                                                         "--json", "--rules"};

bool IsShared(const CLI::Option& option) {
  return option.get_group() != kClusterGroup &&
         !absl::c_linear_search(kOfOneTask, option.get_name());
}

}  // namespace

void AddTaskOptions(CLI::App* app, ClusterWords* words) {
  for (const Flag& flag : {
           Flag{"devices-per-task", "D", "devices of each task [default: 1]"},
           Flag{"start-timeout", "SECONDS", HelpOf(RowOfTime("start"))},
           Flag{"detect", "default|fast",
                absl::StrCat(
                    "a silent task is lost after ",
                    absl::ToDoubleSeconds(DefaultTime("silence")), " s, or ",
                    absl::ToDoubleSeconds(DefaultTime("fast silence")), " s")},
           Flag{"transport", "NAME",
                "what connects the tasks [default: gRPC; MPI\n"
                "under mpirun]"},
           Flag{"job", "NAME", "of the cluster [default: worker]"},
           Flag{"tls-cert", "FILE", "PEM; {task} in it is the task's number"},
           Flag{"tls-key", "FILE", "of the certificate; likewise"},
           Flag{"tls-ca", "FILE", "who signs the certificates of all tasks"},
       }) {
    Add(app, words, flag);
  }
}

void AddClusterOptions(CLI::App* app, ClusterWords* words) {
  for (const Flag& flag : {
           Flag{"cluster", "HOST:PORT,...",
                "where each task listens, in order"},
           Flag{"cluster-file", "FILE", "JSON that says so, and more"},
           Flag{"task", "I", "which of the tasks this process is, from 0"},
       }) {
    Add(app, words, flag);
  }
  AddTaskOptions(app, words);
  for (const Flag& flag : {
           Flag{"bind", "ADDRESS",
                "listen there [default: at the loopback\n"
                "address that the task has, or else everywhere]"},
           Flag{"port", "PORT",
                "under Slurm: of the first task on each node\n"
                "[default: 7000]"},
       }) {
    Add(app, words, flag);
  }
  app->add_flag_callback(
         "--insecure", [words] { (*words)["insecure"] = "true"; },
         "go without TLS on a network whose every user\n"
         "may read and change all data")
      ->group(kClusterGroup);
}

absl::Status TakeOwnCluster(const ClusterWords& words,
                            std::optional<ClusterOptions>* cluster) {
  if (words.empty()) {
    if (cluster->has_value()) return absl::OkStatus();
    if (!IsStartedByMpirun(EnvironmentVariable)) {
      return CheckNotStartedByHydra(EnvironmentVariable);
    }
  }
  if (cluster->has_value()) {
    const std::string& option = words.begin()->first;
    const bool is_of_launch = !absl::c_linear_search(kNotOfLaunch, option);
    return UsageError(absl::StrCat(
        "--", option, " goes to the worker",
        is_of_launch ? " or to launch" : "", ", before the --, not after it",
        is_of_launch ? "" : "; launch settles it by itself"));
  }
  ASSIGN_OR_RETURN(*cluster, ResolveClusterOptions(words, EnvironmentVariable));
  return absl::OkStatus();
}

absl::Status CheckOptionsOfCluster(const CLI::App& app,
                                   const std::optional<ClusterOptions>& cluster,
                                   std::initializer_list<const char*> options) {
  if (!cluster.has_value()) return absl::OkStatus();
  for (const char* option : options) {
    if (app[option]->count() == 0) continue;
    return UsageError(absl::StrCat(
        option, " does not go with a cluster, whose number of tasks (",
        cluster->cluster.num_tasks(), ") and --devices-per-task (",
        cluster->devices_per_task, ") say how many ranks there are"));
  }
  return absl::OkStatus();
}

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
