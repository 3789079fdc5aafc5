#ifndef TUTTI_REMOTE_GRPC_TASKS_TESTING_H_
#define TUTTI_REMOTE_GRPC_TASKS_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/transport.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

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

// More bytes than a socket buffer holds.
inline constexpr size_t kLargeBytes = size_t{64} << 20;

// Tasks that have all been started.
class RunningTasks : public TestTasks {
 public:
  explicit RunningTasks(int num_tasks, Change change = nullptr)
      : TestTasks(num_tasks, std::move(change)) {
    StartAll();
  }
};

// Task `from` calls task `to` and waits for the answer.
inline ControlAnswer Call(TestTasks& tasks, int from, int to,
                          ControlCallOptions options = {}, int64_t step = 1) {
  return CallAndWait(tasks.transport(from).control(), to, CleanupStep(step),
                     std::move(options));
}

// Bytes that task `to` offers under KeyOf(tag).
class OfferedBytes {
 public:
  OfferedBytes(TestTasks& tasks, size_t num_bytes, int tag = 0, int to = 1)
      : bytes_(Pattern(num_bytes)) {
    tasks.table(to).Provide(KeyOf(tag), {.bytes = bytes_, .sender = &sender_});
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Blocks until the bytes are released.
  absl::Status Wait() { return sender_.Wait(); }

 private:
  const std::vector<std::byte> bytes_;
  WaitingSender sender_;
};

// Bytes that task `from` requests of task `to` under KeyOf(tag).
class RequestedBytes : public WaitingReceiver {
 public:
  RequestedBytes(TestTasks& tasks, size_t num_bytes, int tag = 0, int from = 0,
                 int to = 1, DType dtype = DType::kUint8)
      : WaitingReceiver(num_bytes) {
    tasks.Request(from, to, KeyOf(tag), num_bytes, *this, dtype);
  }
};

// Expects that bytes of task `to` arrive at task `from`, and that their sender
// is told. Returns the sizes of their parts.
inline std::vector<size_t> ExpectArrive(TestTasks& tasks, size_t num_bytes,
                                        DType dtype = DType::kUint8,
                                        int tag = 0, int from = 0, int to = 1) {
  SCOPED_TRACE(testing::Message() << num_bytes << " bytes of " << Name(dtype));
  OfferedBytes lent(tasks, num_bytes, tag, to);
  RequestedBytes receiver(tasks, num_bytes, tag, from, to, dtype);
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == lent.bytes());
  return receiver.part_sizes();
}

// Returns the end of a request of task `from` for 4 bytes of task `to`.
inline absl::Status EndOfPull(TestTasks& tasks, int from, int to) {
  return RequestedBytes(tasks, 4, /*tag=*/0, from, to).Wait();
}

// Encodes a struct of the wire.
template <typename Struct>
std::string Bytes(const Struct& value) {
  const auto encoded = Encode(value);
  return std::string(reinterpret_cast<const char*>(encoded.data()),
                     encoded.size());
}

inline std::string RequestRecord(uint64_t id, int tag, size_t num_bytes,
                                 bool may_read_memory = false) {
  return Bytes(TransferRecord{.id = id,
                              .key = KeyOf(tag),
                              .num_bytes = num_bytes,
                              .dtype = DType::kUint8,
                              .may_read_memory = may_read_memory});
}

// Changes a good frame.
using ChangeFrame = std::function<void(FrameHeader& header)>;

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TASKS_TESTING_H_
