#ifndef TUTTI_REMOTE_GRPC_RUNNING_TASKS_TESTING_H_
#define TUTTI_REMOTE_GRPC_RUNNING_TASKS_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "remote/fake_services.h"
#include "remote/grpc/test_tasks.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/grpc_transport.h"
#include "tutti/tensor.h"

namespace tutti {

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
class LentBytes {
 public:
  LentBytes(TestTasks& tasks, size_t num_bytes, int tag = 0, int to = 1)
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

// Expects that bytes of task `to` arrive at task `from`, and that their sender
// is told. Returns the sizes of their parts.
inline std::vector<size_t> ExpectArrive(TestTasks& tasks, size_t num_bytes,
                                        DType dtype = DType::kUint8,
                                        int tag = 0, int from = 0, int to = 1) {
  SCOPED_TRACE(testing::Message() << num_bytes << " bytes of " << Name(dtype));
  LentBytes lent(tasks, num_bytes, tag, to);
  WaitingReceiver receiver(num_bytes);
  tasks.Request(from, to, KeyOf(tag), num_bytes, receiver, dtype);
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(lent.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == lent.bytes());
  return receiver.part_sizes();
}

// Returns the end of a request of task `from` for 4 bytes of task `to`.
inline absl::Status EndOfPull(TestTasks& tasks, int from, int to) {
  WaitingReceiver receiver(4);
  tasks.Request(from, to, KeyOf(0), 4, receiver);
  return receiver.Wait();
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

#endif  // TUTTI_REMOTE_GRPC_RUNNING_TASKS_TESTING_H_
