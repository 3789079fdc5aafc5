#ifndef TUTTI_REMOTE_GRPC_FAKE_PEERS_H_
#define TUTTI_REMOTE_GRPC_FAKE_PEERS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/status.h"
#include "remote/grpc/connection/connection_gate.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Metadata of a call, by the names on the wire.
using CallFields = std::map<std::string, std::string>;

// Returns fields that TestTasks accept.
CallFields GoodFields(int caller, int callee);

grpc::ByteBuffer ToBuffer(const std::string& bytes);

// Task that a fake peer connects to, and how.
enum class Way { kTcp, kUnixSocket };
struct Target {
  std::string address;
  int task = 0;
  Way way = Way::kTcp;
};

// Makes one unary call from a program that is no task but has the token.
grpc::Status CallAs(const Target& target, const CallFields& fields,
                    const std::string& method, const std::string& message);

// Task that requests bytes over its own stream, and reads nothing until
// ReadFromNowOn().
class StallingPeer final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StallingPeer(const Target& target, const CallFields& fields);
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

// Server in the place of task 1, with the token. Answers each message of a call
// with its next message, as long as it has one. Ends the call with a status, if
// there is one.
class FakeServer final : public grpc::CallbackGenericService {
 public:
  struct Answer {
    std::string message;

    // Answers to further messages of the call, in turn.
    std::vector<std::string> more_messages;

    Way way = Way::kTcp;   // Way to the server.
    bool finishes = true;  // Finishes with `status`; else the call stays open.
    grpc::Status status;
  };

  FakeServer(const std::string& address, Answer answer);
  ~FakeServer() override;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const Answer answer_;
  const ClusterSpec cluster_{.this_task = 1};
  const DefaultEnvironment environment_{1};
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

// TCP connection to a port of this host.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address);

  void Write(const std::string& bytes) const;

  // Reads as many bytes, or fewer if the other side closes the connection.
  std::string Read(size_t num_bytes) const;

  // Reads until the other side closes the connection.
  std::string ReadAll() const;

 private:
  FileDescriptor fd_;
};

// Sends `bytes` to a TCP port of this host, and reads until the connection
// closes.
std::string SendRaw(const std::string& address, const std::string& bytes);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_FAKE_PEERS_H_
