#include "tools/cluster/cluster_mode.h"

#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/listen_address.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/file_descriptors.h"
#include "tools/launch/grpc_preparation.h"
#include "tools/launch/launch_output.h"
#include "tutti/cluster_runtime.h"

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

// Only a note: others may still reach the address through a router that
// translates addresses.
void ReportForeignAddress(const ClusterOptions& options,
                          const Console& console) {
  const ClusterSpec& cluster = options.cluster;
  const std::string own =
      SplitAddress(cluster.addresses[cluster.this_task]).host;
  const bool everywhere = SplitAddress(options.listen_address).host == "::";
  if (!everywhere || !IsAddressOfAnotherMachine(own)) return;
  console.err << "tutti: note: " << own
              << " is no address of this machine; listening everywhere\n"
              << std::flush;
}

// Warns of what the kernel and certificates do not prevent.
void WarnWithoutToken(const ClusterOptions& options, const Console& console) {
  if (!options.token.empty() || options.tls.enabled()) return;
  console.err << "tutti: warning: TUTTI_TOKEN is not set: whoever can connect "
                 "to the tasks, such as every user of their machines, can act "
                 "as one and read and change all data\n"
              << std::flush;
}

// Checked here, since the other tasks would only report that they do not trust
// this one.
absl::Status CheckCertificates(const ClusterOptions& options, Clock* clock) {
  if (!options.tls.enabled()) return absl::OkStatus();
  for (const std::string& path : {options.tls.certificate, options.tls.ca}) {
    RETURN_IF_ERROR(CheckNotExpired(path, clock->Now()));
  }
  return absl::OkStatus();
}

// Checks that MPI agrees with the variables of mpirun, which determine the
// ranks before MPI starts. With the mpirun of another MPI, each process may be
// alone in its job.
absl::Status CheckSame(const ClusterSpec& reported, const ClusterSpec& found) {
  if (reported.num_tasks() == found.num_tasks() &&
      reported.this_task == found.this_task) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the variables of mpirun say that this is process ", reported.this_task,
      " of ", reported.num_tasks(), ", MPI that it is process ",
      found.this_task, " of ", found.num_tasks(),
      ": is it the mpirun of the Open MPI that tutti was linked with?"));
}

// Returns the inherited sockets, for gRPC alone. Other transports listen by
// themselves, at the same address: the sockets are closed.
std::vector<int> TakeListeners(const ClusterOptions& options) {
  if (options.transport == ClusterOptions().transport) return options.listeners;
  for (const int listener : options.listeners) close(listener);
  return {};
}

absl::StatusOr<TaskNetwork> Connect(const Environment& environment,
                                    const ClusterOptions& options,
                                    const Console& console) {
  ASSIGN_OR_RETURN(const auto transport,
                   FindTransport(TransportRegistry::Global(), options));
  if (options.transport != kMpiTransport) {
    RETURN_IF_ERROR(CheckCertificates(options, environment.clock));
    RETURN_IF_ERROR(AllowFileDescriptors(options.cluster.num_tasks()));
    SilenceGrpc(EnvironmentVariable);
    ReportForeignAddress(options, console);
    WarnWithoutToken(options, console);
  }
  auto network = transport.connect(
      {.cluster = options.cluster,
       .environment = environment,
       .token = options.token,
       .bind_address = SplitAddress(options.listen_address).host,
       .listeners = TakeListeners(options),
       .insecure = options.insecure,
       .tls = options.tls});
  if (!network.ok()) return network;
  RETURN_IF_ERROR(CheckSame(options.cluster, network->cluster));
  return network;
}

ClusterRuntime::Options RuntimeOptions(const Environment& environment,
                                       const ClusterOptions& options,
                                       const TaskNetwork& network) {
  return {.cluster = network.cluster,
          .environment = environment,
          .devices_per_task = options.devices_per_task,
          .make_transport = network.make_transport,
          .health = options.fast_detection ? HealthProfile::Fast()
                                           : HealthProfile::Default()};
}

// Errors that waiting cannot fix.
bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

// Waits, so that the other tasks, which retry, are refused too instead of
// waiting for a task that is gone.
void StayForOthers(Clock* clock) {
  BlockingCounter over(1);
  clock->CallAt(clock->Now() + DefaultTime("refused"),
                [&over] { over.DecrementCount(); });
  over.Wait();
}

// Names TUTTI_TOKEN in an error about the token.
absl::Status NameToken(const absl::Status& status) {
  if (!absl::IsUnauthenticated(status) ||
      !absl::StrContains(status.message(), "token")) {
    return status;
  }
  return absl::UnauthenticatedError(absl::StrCat(
      status.message(), "; TUTTI_TOKEN must be the same for all tasks"));
}

absl::Status Join(ClusterRuntime* runtime, const Environment& environment,
                  absl::Duration timeout, const Console& console) {
  const auto note = WaitingNote::Create(runtime->cluster(), timeout,
                                        environment.clock, console);
  const absl::Status result = Await([&](StatusCallback done) {
    runtime->Join(
        environment.clock->Now() + timeout,
        [note](const std::vector<int>& missing) { note->SetMissing(missing); },
        std::move(done));
  });
  note->End();
  if (IsRefusal(result)) StayForOthers(environment.clock);
  return NameToken(result);
}

// The command, extended by cluster options that must be the same on all tasks.
std::string CommandOf(const PartyOptions& options) {
  const int devices = options.cluster->devices_per_task;
  if (devices == 1) return options.command;
  return absl::StrCat(options.command, " --devices-per-task ", devices);
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

absl::StatusOr<TransportRegistry::Entry> FindTransport(
    const TransportRegistry& registry, const ClusterOptions& options) {
  auto found = registry.Find(options.transport);
  if (found.ok()) return found;
  if (options.transport != kMpiTransport) {
    return UsageError(found.status().message());
  }
  return absl::UnimplementedError(
      "mpirun has started this process, but Tutti was built without MPI: "
      "install libopenmpi-dev and openmpi-bin and build it again, or say by "
      "--cluster who takes part");
}

int NumRanks(const ClusterOptions& cluster) {
  return cluster.cluster.num_tasks() * cluster.devices_per_task;
}

PartyFactory PartyOf(const Environment& environment, PartyOptions options,
                     const Console& console) {
  if (!options.cluster.has_value()) {
    return LocalParty(environment, std::move(options.rules),
                      std::move(options.make_devices));
  }
  return [environment, options = std::move(options), &console](
             int num_ranks,
             int /*num_tasks*/) -> absl::StatusOr<std::unique_ptr<Party>> {
    const ClusterOptions& cluster = *options.cluster;
    if (num_ranks != NumRanks(cluster)) {
      return UsageError(
          absl::StrCat(num_ranks, " ranks do not fit the ", NumRanks(cluster),
                       " devices of the cluster (", cluster.cluster.num_tasks(),
                       " tasks with ", cluster.devices_per_task, " each)"));
    }
    ASSIGN_OR_RETURN(const auto network,
                     Connect(environment, cluster, console));
    ClusterRuntime::Options runtime_options =
        RuntimeOptions(environment, cluster, network);
    runtime_options.rules = options.rules;
    if (options.make_devices != nullptr) {
      runtime_options.make_devices = [make_devices = options.make_devices,
                                      cluster](uint64_t incarnation) {
        const int task = cluster.cluster.this_task;
        const int num_devices = cluster.devices_per_task;
        return WithMessenger(make_devices, {.job = cluster.cluster.job,
                                            .task = task,
                                            .first_rank = task * num_devices,
                                            .num_devices = num_devices,
                                            .incarnation = incarnation});
      };
    }
    ASSIGN_OR_RETURN(auto runtime,
                     ClusterRuntime::Create(std::move(runtime_options)));
    RETURN_IF_ERROR(
        Join(runtime.get(), environment, cluster.start_timeout, console));
    return MakeClusterParty(environment, std::move(runtime),
                            CommandOf(options));
  };
}

}  // namespace tutti
