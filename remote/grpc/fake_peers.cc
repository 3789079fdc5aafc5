#include "remote/grpc/fake_peers.h"

#include <arpa/inet.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/slice.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/wire/control_messages.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

void AddFields(const CallFields& fields, grpc::ClientContext& context) {
  for (const auto& [name, value] : fields) context.AddMetadata(name, value);
}

std::string Concatenate(absl::Span<const std::byte> a,
                        absl::Span<const std::byte> b) {
  std::string bytes(reinterpret_cast<const char*>(a.data()), a.size());
  bytes.append(reinterpret_cast<const char*>(b.data()), b.size());
  return bytes;
}

// Owns itself until OnDone().
class FakeAnswer final : public grpc::ServerGenericBidiReactor {
 public:
  static FakeAnswer* Begin(FakeServer::Answer answer,
                           const grpc::CallbackServerContext& context) {
    auto fake = std::make_shared<FakeAnswer>(std::move(answer));
    FakeAnswer* const reactor = fake.get();
    reactor->Offer(context);
    reactor->self_ = std::move(fake);
    reactor->StartRead(&reactor->incoming_);
    return reactor;
  }

  explicit FakeAnswer(FakeServer::Answer answer) : answer_(std::move(answer)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return;
    outgoing_ = ToBuffer(num_read_ == 0 ? offer_ + answer_.message
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
  void Offer(const grpc::CallbackServerContext& context) {
    if (!answer_.offers_memory_of) return;
    const auto recv = FindMemoryRequest(context.client_metadata());
    const auto challenge = DecodeChallenge(recv ? recv->challenge : "");
    if (!challenge) return;
    proof_ = MemoryProof(*challenge, *answer_.offers_memory_of);
    offer_ = Concatenate(
        Encode(FrameHeader{.length = kMemoryOfferBytes,
                           .kind = FrameKind::kOffer}),
        Encode(MemoryOffer{.pid = static_cast<uint64_t>(getpid()),
                           .address = reinterpret_cast<uintptr_t>(&proof_)}));
  }

  bool has_more() const { return num_read_ <= answer_.more_messages.size(); }

  const FakeServer::Answer answer_;
  MemoryProof proof_;
  std::string offer_;
  std::shared_ptr<FakeAnswer> self_;
  size_t num_read_ = 0;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
};

}  // namespace

CallFields GoodFields(int caller, int callee) {
  return {{"tutti-protocol", absl::StrCat(kProtocolVersion)},
          {"tutti-job-bin", "job"},
          {"tutti-token-bin", "secret"},
          {"tutti-caller", absl::StrCat(caller)},
          {"tutti-caller-incarnation", "5"},
          {"tutti-callee", absl::StrCat(callee)},
          {"tutti-callee-incarnation", "0"}};
}

CallFields MemoryRequestFields(int caller, int callee) {
  CallFields fields = GoodFields(caller, callee);
  fields["tutti-host"] = NameOfHost();
  fields["tutti-challenge-bin"] = Encode(MemoryChallenge{1, 2});
  return fields;
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Status CallAs(const std::string& address, const CallFields& fields,
                    const std::string& method, const std::string& message) {
  grpc::GenericStub stub(ChannelTo(address));
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

StallingPeer::StallingPeer(const std::string& address, const CallFields& fields)
    : channel_(ChannelTo(address)) {
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
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(this);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
}

grpc::ServerGenericBidiReactor* FakeServer::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  context->AddInitialMetadata("tutti-incarnation", "77");
  return FakeAnswer::Begin(answer_, *context);
}

RawConnection::RawConnection(const std::string& address)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(
      static_cast<uint16_t>(std::atoi(SplitAddress(address).port.c_str())));
  EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)),
            0);
}

void RawConnection::Write(const std::string& bytes) const {
  send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
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
