#include "remote/grpc/fake_peers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/slice.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/proof.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "remote/grpc/wire/control_messages.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

const std::string& Token() {
  static const std::string token = "secret";
  return token;
}

FileDescriptor ConnectTcp(const std::string& address) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(
      static_cast<uint16_t>(std::atoi(SplitAddress(address).port.c_str())));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// Proves, and waits for the other side's proof.
void Prove(int callee, int fd) {
  const ClusterSpec cluster;
  Proof proof = Proof::OfCaller({.cluster = &cluster, .token = &Token()},
                                callee, *DefaultEnvironment().get().random);
  absl::StatusOr<bool> is_done = false;
  while (is_done.ok() && !*is_done) {
    is_done = Continue(proof, fd);
    pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};
    if (is_done.ok() && !*is_done) poll(&readable, 1, /*timeout=*/-1);
  }
  EXPECT_THAT(is_done, IsOk());
}

std::shared_ptr<grpc::Channel> ChannelTo(const Target& target) {
  FileDescriptor fd = target.way == Way::kTcp
                          ? ConnectTcp(target.address)
                          : ConnectOnSameHost(target.address).value();
  Prove(target.task, fd.get());
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomInsecureChannelFromFd("task", fd.Release(),
                                                 arguments);
}

void AddFields(const CallFields& fields, grpc::ClientContext& context) {
  for (const auto& [name, value] : fields) context.AddMetadata(name, value);
}

// Owns itself until OnDone().
class FakeAnswer final : public grpc::ServerGenericBidiReactor {
 public:
  static FakeAnswer* Begin(FakeServer::Answer answer) {
    auto fake = std::make_shared<FakeAnswer>(std::move(answer));
    FakeAnswer* const reactor = fake.get();
    reactor->self_ = std::move(fake);
    reactor->StartRead(&reactor->incoming_);
    return reactor;
  }

  explicit FakeAnswer(FakeServer::Answer answer) : answer_(std::move(answer)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return;
    outgoing_ = ToBuffer(num_read_ == 0 ? answer_.message
                                        : answer_.more_messages[num_read_ - 1]);
    ++num_read_;
    if (!has_more() && answer_.finishes) {
      return StartWriteAndFinish(&outgoing_, grpc::WriteOptions(),
                                 answer_.status);
    }
    StartWrite(&outgoing_);
  }
  void OnWriteDone(bool ok) override {
    if (ok && has_more()) StartRead(&incoming_);
  }
  void OnCancel() override {
    if (!answer_.finishes) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { std::exchange(self_, nullptr).reset(); }

 private:
  bool has_more() const { return num_read_ <= answer_.more_messages.size(); }

  const FakeServer::Answer answer_;
  std::shared_ptr<FakeAnswer> self_;
  size_t num_read_ = 0;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
};

}  // namespace

CallFields GoodFields(int caller, int callee) {
  return {{"tutti-protocol", absl::StrCat(kProtocolVersion)},
          {"tutti-job-bin", "job"},
          {"tutti-caller", absl::StrCat(caller)},
          {"tutti-caller-incarnation", "5"},
          {"tutti-callee", absl::StrCat(callee)},
          {"tutti-callee-incarnation", "0"}};
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Status CallAs(const Target& target, const CallFields& fields,
                    const std::string& method, const std::string& message) {
  grpc::GenericStub stub(ChannelTo(target));
  grpc::ClientContext context;
  AddFields(fields, context);
  const grpc::ByteBuffer request = ToBuffer(message);
  grpc::ByteBuffer reply;
  grpc::Status status;
  BlockingCounter done(1);
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &reply,
                 [&](const grpc::Status& ended) {
                   status = ended;
                   done.DecrementCount();
                 });
  done.Wait();
  return status;
}

StallingPeer::StallingPeer(const Target& target, const CallFields& fields)
    : channel_(ChannelTo(target)) {
  AddFields(fields, context_);
  grpc::GenericStub stub(channel_);
  stub.PrepareBidiStreamingCall(&context_, kTransferMethod, grpc::StubOptions(),
                                this);
  AddHold();  // Held for the writes.
  StartCall();
}

StallingPeer::~StallingPeer() {
  context_.TryCancel();
  RemoveHold();
  MutexLock lock(&mu_);
  while (!is_done_) changed_.Wait(&mu_);
}

void StallingPeer::Write(const std::string& message) {
  MutexLock lock(&mu_);
  const int before = num_written_;
  message_ = ToBuffer(message);
  StartWrite(&message_);
  while (num_written_ == before) changed_.Wait(&mu_);
}

void StallingPeer::OnReadDone(bool ok) {
  if (ok) StartRead(&incoming_);
}

void StallingPeer::OnWriteDone(bool /*ok*/) {
  MutexLock lock(&mu_);
  ++num_written_;
  changed_.SignalAll();
}

void StallingPeer::OnDone(const grpc::Status& /*status*/) {
  MutexLock lock(&mu_);
  is_done_ = true;
  changed_.SignalAll();
}

FakeServer::FakeServer(const std::string& address, Answer answer)
    : answer_(std::move(answer)) {
  const Environment& environment = environment_.get();
  gate_ = ConnectionGate::Listen(
              {.endpoints = {address},
               .same_host_address = answer_.way == Way::kTcp ? "" : address,
               .party = Proof::Party{.cluster = &cluster_, .token = &Token()},
               .clock = environment.clock,
               .random = environment.random})
              .value();
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(this);
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  server_ = builder.BuildAndStart();
  gate_->Start([this](int listener_fd, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        connection;
    connection.listener_fd = listener_fd;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
  });
}

FakeServer::~FakeServer() {
  gate_->Close();
  server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
}

grpc::ServerGenericBidiReactor* FakeServer::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  context->AddInitialMetadata("tutti-incarnation", "77");
  return FakeAnswer::Begin(answer_);
}

RawConnection::RawConnection(const std::string& address)
    : fd_(ConnectTcp(address)) {}

void RawConnection::Write(const std::string& bytes) const {
  send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string RawConnection::Read(size_t num_bytes) const {
  std::string bytes(num_bytes, '\0');
  const ssize_t n = recv(fd_.get(), bytes.data(), num_bytes, MSG_WAITALL);
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return bytes;
}

std::string RawConnection::ReadAll() const {
  std::string all;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = recv(fd_.get(), buffer, sizeof(buffer), 0)) > 0) {
    all.append(buffer, static_cast<size_t>(n));
  }
  return all;
}

std::string SendRaw(const std::string& address, const std::string& bytes) {
  const RawConnection connection(address);
  connection.Write(bytes);
  return connection.ReadAll();
}

}  // namespace tutti
