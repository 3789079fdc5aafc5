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

// Metadata of a call, by the names on the wire.
using CallFields = std::map<std::string, std::string>;

// Returns fields that TestTasks accept.
CallFields GoodFields(int caller, int callee);

// Returns such fields for a call on this host that wants to read memory.
CallFields MemoryRequestFields(int caller, int callee);

grpc::ByteBuffer ToBuffer(const std::string& bytes);

// Makes one unary call from a program that is no task.
grpc::Status CallAs(const std::string& address, const CallFields& fields,
                    const std::string& method, const std::string& message);

// Task that requests bytes over its own stream, and reads nothing until
// ReadFromNowOn().
class StallingPeer final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StallingPeer(const std::string& address, const CallFields& fields);
  ~StallingPeer() override;  // Closes the stream.

  // Blocks until gRPC has taken the message.
  void Write(const std::string& message) ABSL_LOCKS_EXCLUDED(mu_);

  // Call once.
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

// Server in the place of a task. Answers each message of a call with its next
// message, as long as it has one. Ends the call with a status, if there is one.
class FakeServer final : public grpc::CallbackGenericService {
 public:
  struct Answer {
    std::string message;

    // Answers to further messages of the call, in turn.
    std::vector<std::string> more_messages;

    // Offers memory as this task, before the first message.
    std::optional<int> offers_memory_of;
    bool finishes = true;  // Finishes with `status`; else the call stays open.
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

// TCP connection to a port of this host.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address);

  void Write(const std::string& bytes) const;

  // Reads until the other side closes the connection.
  std::string ReadAll() const;

 private:
  const FileDescriptor fd_;
};

// Sends `bytes` to a TCP port of this host, and reads until the connection
// closes.
std::string SendRaw(const std::string& address, const std::string& bytes);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_FAKE_PEERS_H_
