#include "tools/cluster/cluster_mode.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/listen_address.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/waiting_note.h"
#include "tools/cluster/party.h"
#include "tools/launch/grpc_preparation.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

// Only a note: others may still reach the address through a router that
// translates addresses.
void TellOfForeignAddress(const ClusterOptions& options,
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

absl::StatusOr<TaskNetwork> Connect(const Environment& environment,
                                    const ClusterOptions& options,
                                    const Console& console) {
  ASSIGN_OR_RETURN(const auto transport,
                   FindTransport(TransportRegistry::Global(), options));
  if (options.transport != kMpiTransport) {
    RETURN_IF_ERROR(CheckCertificates(options, environment.clock));
    SilenceGrpc(EnvironmentVariable);
    TellOfForeignAddress(options, console);
  }
  auto network = transport.connect(
      {.cluster = options.cluster,
       .environment = environment,
       .token = options.token,
       .bind_address = SplitAddress(options.listen_address).host,
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
