#include "tools/cluster_mode.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/blocking_counter.h"
#include "remote/grpc/grpc_transport.h"
#include "remote/grpc/listen_address.h"
#include "runtime/cluster_runtime.h"
#include "tools/cluster_party.h"
#include "tools/exit_status.h"
#include "tools/waiting_note.h"

namespace tutti {
namespace {

GrpcTransportOptions TransportOptions(const Environment& environment,
                                      const ClusterOptions& options,
                                      uint64_t incarnation) {
  GrpcTransportOptions transport{
      .cluster = options.cluster,
      .incarnation = incarnation,
      .environment = environment,
      .job_id = options.cluster.job,
      .token = options.token,
      .bind_address = SplitAddress(options.listen_address).host,
      .insecure = options.insecure,
  };
  if (options.tls.has_value()) {
    transport.tls = {.certificate = options.tls->certificate,
                     .key = options.tls->key,
                     .ca = options.tls->ca};
  }
  return transport;
}

ClusterRuntime::Options RuntimeOptions(const Environment& environment,
                                       const ClusterOptions& options) {
  return {.cluster = options.cluster,
          .environment = environment,
          .devices_per_task = options.devices_per_task,
          .make_transport = [environment, options](uint64_t incarnation)
              -> absl::StatusOr<std::shared_ptr<Transport>> {
            auto transport = CreateGrpcTransport(
                TransportOptions(environment, options, incarnation));
            if (!transport.ok()) return transport.status();
            return std::shared_ptr<Transport>(*std::move(transport));
          },
          .health = options.fast_detection ? HealthProfile::Fast()
                                           : HealthProfile::Default()};
}

absl::Status Join(ClusterRuntime* runtime, const Environment& environment,
                  absl::Duration timeout, const Console& console) {
  const auto note =
      WaitingNote::Create(runtime->cluster(), environment.clock, console);
  BlockingCounter joined(1);
  absl::Status result;
  runtime->Join(
      environment.clock->Now() + timeout,
      [note](const std::vector<int>& missing) { note->SetMissing(missing); },
      [&](absl::Status status) {
        result = std::move(status);
        joined.DecrementCount();
      });
  joined.Wait();
  note->End();
  return result;
}

}  // namespace

int NumRanks(const ClusterOptions& cluster) {
  return cluster.cluster.num_tasks() * cluster.devices_per_task;
}

PartyFactory PartyOf(const Environment& environment,
                     const std::optional<ClusterOptions>& cluster,
                     const std::shared_ptr<const SelectionRules>& rules,
                     const Console& console) {
  if (!cluster.has_value()) return LocalParty(environment, rules);
  return [environment, options = *cluster, rules, &console](
             int num_ranks,
             int /*num_tasks*/) -> absl::StatusOr<std::unique_ptr<Party>> {
    if (num_ranks != NumRanks(options)) {
      return UsageError(
          absl::StrCat(num_ranks, " ranks do not fit the ", NumRanks(options),
                       " devices of the cluster (", options.cluster.num_tasks(),
                       " tasks with ", options.devices_per_task, " each)"));
    }
    ClusterRuntime::Options runtime_options =
        RuntimeOptions(environment, options);
    runtime_options.rules = rules;
    auto runtime = ClusterRuntime::Create(std::move(runtime_options));
    if (!runtime.ok()) return runtime.status();
    const absl::Status joined =
        Join(runtime->get(), environment, options.start_timeout, console);
    if (!joined.ok()) return joined;
    return MakeClusterParty(environment, *std::move(runtime));
  };
}

}  // namespace tutti
