#ifndef TUTTI_REMOTE_GRPC_TEST_TASKS_H_
#define TUTTI_REMOTE_GRPC_TEST_TASKS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/control/control_channel.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "remote/transport.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"

namespace tutti {

// Tasks of one cluster, all in this process, with gRPC between them.
class TestTasks {
 public:
  // Changes the options of a task, given its number, before the task is made.
  using Change = std::function<void(int, GrpcTransportOptions&)>;

  // Creates the cluster. No task runs yet.
  explicit TestTasks(int num_tasks, Change change = nullptr);
  ~TestTasks();
  TestTasks(const TestTasks&) = delete;
  TestTasks& operator=(const TestTasks&) = delete;

  // Creates and starts the transport of a task, with a new incarnation, in the
  // place of its former one. Fails the test on errors.
  void Start(int task);
  void StartAll();

  // Shuts the task down and forgets its transport.
  void Stop(int task);

  GrpcTransportOptions Options(int task) const;
  const ClusterSpec& cluster() const { return cluster_; }
  const std::string& address(int task) const {
    return cluster_.addresses[task];
  }
  Transport& transport(int task) { return *transports_[task]; }
  TableService& table(int task) { return *tables_[task]; }
  uint64_t incarnation(int task) const { return incarnations_[task]; }

  // Sets the service by which all tasks answer. The default answers CleanupStep
  // with a step sequence: the requested step plus the caller's number.
  void set_control(std::unique_ptr<ControlService> control) {
    control_ = std::move(control);
  }

  // Requests the bytes under `key` of task `to` for task `from`.
  void Request(int from, int to, const BufKey& key, size_t num_bytes,
               Receiver& receiver, DType dtype = DType::kUint8);

 private:
  const Change change_;
  const ReservedPorts ports_;
  DefaultEnvironment environment_{2};
  ClusterSpec cluster_;
  std::unique_ptr<ControlService> control_;
  std::vector<std::unique_ptr<TableService>> tables_;
  std::vector<uint64_t> incarnations_;
  std::vector<std::shared_ptr<Transport>> transports_;
};

// Returns a request that the default service answers.
proto::ControlRequest CleanupStep(int64_t step);

// Returns bytes that differ from place to place.
std::vector<std::byte> Pattern(size_t num_bytes);

BufKey KeyOf(int tag);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TEST_TASKS_H_
