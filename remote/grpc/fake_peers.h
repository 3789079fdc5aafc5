#ifndef TUTTI_REMOTE_GRPC_FAKE_PEERS_H_
#define TUTTI_REMOTE_GRPC_FAKE_PEERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/status.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// What a call says of itself, by the names on the wire.
using CallFields = std::map<std::string, std::string>;

// Those of a call that TestTasks accept.
CallFields GoodFields(int caller, int callee);

// The same, of a call of this host that wants to read memory.
CallFields FieldsThatAskForMemory(int caller, int callee);

grpc::ByteBuffer ToBuffer(const std::string& bytes);

// One unary call of a program that is no task.
grpc::Status CallAs(const std::string& address, const CallFields& fields,
                    const std::string& method, const std::string& message);

// A task that asks for bytes over a stream of its own, and reads nothing until
// it is told to.
class StallingPeer final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StallingPeer(const std::string& address, const CallFields& fields);
  ~StallingPeer() override;  // Closes the stream.

  // Blocks until it is with gRPC.
  void Write(const std::string& message) ABSL_LOCKS_EXCLUDED(mu_);

  // Once.
  void ReadFromNowOn() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer incoming_;
  Mutex mu_;
  CondVar changed_;
  int num_written_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_done_ ABSL_GUARDED_BY(mu_) = false;
};

// A server in the place of a task: answers each message of a call with one, for
// as long as it has some, and at last, if there is one, with a status.
class FakeServer final : public grpc::CallbackGenericService {
 public:
  struct Answer {
    std::string message;

    // In answer to further messages of the call, in turn.
    std::vector<std::string> more_messages;

    // As this task, if there is one: comes before the first message.
    std::optional<int> offers_memory_of;
    bool finishes = true;  // With `status`; else the call stays open.
    grpc::Status status;
  };

  FakeServer(const std::string& address, Answer answer);
  ~FakeServer() override;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const Answer answer_;
  std::unique_ptr<grpc::Server> server_;
};

// A TCP connection to a port of this host.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address);

  void Write(const std::string& bytes) const;

  // Reads until the other side closes it.
  std::string ReadAll() const;

 private:
  const FileDescriptor fd_;
};

// Sends `bytes` to a TCP port of this host, and reads until it is closed.
std::string SendRaw(const std::string& address, const std::string& bytes);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_FAKE_PEERS_H_
