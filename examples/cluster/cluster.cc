// Runs all-reduces as one task of a cluster. Start one process for each
// address, each with its own number:
//
//   cluster 127.0.0.1:7000,127.0.0.1:7001 0 &
//   cluster 127.0.0.1:7000,127.0.0.1:7001 1
//
// With two tasks each prints "3 30 300".

#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/tutti.h"

namespace {

absl::Status Run(const tutti::Environment& environment,
                 const tutti::ClusterSpec& cluster) {
  const auto runtime = tutti::ClusterRuntime::Create(
      {.cluster = cluster,
       .environment = environment,
       .make_transport = [&](uint64_t incarnation) {
         return tutti::CreateGrpcTransport({.cluster = cluster,
                                            .incarnation = incarnation,
                                            .environment = environment});
       }});
  if (!runtime.ok()) return runtime.status();
  const auto in_a_minute = [&] {
    return environment.clock->Now() + absl::Seconds(60);
  };
  absl::Status status = tutti::Await([&](tutti::StatusCallback done) {
    (*runtime)->Join(in_a_minute(), /*progress=*/nullptr, std::move(done));
  });
  if (!status.ok()) return status;

  const float mine = static_cast<float>(cluster.this_task + 1);
  float data[] = {mine, 10 * mine, 100 * mine};
  tutti::CollectiveRequest request;
  request.group_size = cluster.num_tasks();
  request.op = tutti::AllReduce();
  request.shape = tutti::TensorShape::Vector(3);
  tutti::Tensor tensor =
      *tutti::Tensor::Wrap(request.dtype, request.shape, data);
  status = tutti::Await([&](tutti::StatusCallback done) {
    (*runtime)
        ->manager()
        .FindOrCreate(/*step_id=*/1)
        ->ExecuteAsync(
            {.device = (*runtime)->devices()[0],
             .request =
                 std::make_shared<const tutti::CollectiveRequest>(request),
             .input = tensor,
             .output = &tensor,
             .deadline = in_a_minute()},
            std::move(done));
  });
  if (!status.ok()) return status;
  std::cout << data[0] << ' ' << data[1] << ' ' << data[2] << '\n';
  return tutti::Await([&](tutti::StatusCallback done) {
    (*runtime)->Leave(in_a_minute(), std::move(done));
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: cluster HOST:PORT,... TASK\n";
    return 2;
  }
  const tutti::DefaultEnvironment environment;
  const absl::Status status =
      Run(environment.get(), {.addresses = absl::StrSplit(argv[1], ','),
                              .this_task = std::atoi(argv[2])});
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
