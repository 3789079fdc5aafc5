#include "bench/run_task.h"

#include <cstdint>

#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(30);

}  // namespace

absl::Status RunTask(ClusterRuntime::Options options, const TaskWork& work) {
  Clock& clock = *options.environment.clock;
  ASSIGN_OR_RETURN(const auto runtime,
                   ClusterRuntime::Create(std::move(options)));
  absl::Status status = Await([&](StatusCallback done) {
    runtime->Join(clock.Now() + kStartTimeout, /*progress=*/nullptr,
                  std::move(done));
  });
  if (status.ok()) status = work(runtime.get());
  if (!status.ok()) return status;
  return Await([&](StatusCallback done) {
    runtime->Leave(clock.Now() + kLeaveTimeout, std::move(done));
  });
}

absl::Status RunTask(const GrpcTransportOptions& options, int devices_per_task,
                     const TaskWork& work) {
  return RunTask({.cluster = options.cluster,
                  .environment = options.environment,
                  .devices_per_task = devices_per_task,
                  .make_transport =
                      [&](uint64_t incarnation) {
                        GrpcTransportOptions of_process = options;
                        of_process.incarnation = incarnation;
                        return CreateGrpcTransport(std::move(of_process));
                      }},
                 work);
}

}  // namespace tutti
