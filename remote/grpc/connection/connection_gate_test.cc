#include "remote/grpc/connection/connection_gate.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace connection_gate_test {

// Gate with its accepted connections.
class ConnectionGateTest : public testing::Test {
 protected:
  void SetUp() override {
    auto gate = ConnectionGate::Listen(
        {.endpoints = {absl::StrCat("127.0.0.1:", port_)},
         .same_host_address = SameHostAddress(),
         .max_unknown = 2,
         .unknown_limit = absl::Seconds(10),
         .max_refusals = 3,
         .clock = simulated_.get().clock});
    ASSERT_THAT(gate, IsOk());
    gate_ = *std::move(gate);
    gate_->Start([this](int /*listener*/, int fd) {
      MutexLock lock(&mu_);
      accepted_.emplace_back(fd);
      changed_.SignalAll();
    });
  }

  static FileDescriptor MakeSocket() {
    return FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }

  FileDescriptor Connect() {
    FileDescriptor fd = MakeSocket();
    Connect(fd);
    return fd;
  }

  void Connect(const FileDescriptor& fd) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port_));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)),
              0);
  }

  std::string SameHostAddress() const {
    return absl::StrCat("connection-gate-test:", port_);
  }

  void WaitForAccepted(size_t count) {
    MutexLock lock(&mu_);
    while (accepted_.size() < count) changed_.Wait(&mu_);
  }

  // Returns whether the other side has closed `fd`. Without MSG_DONTWAIT,
  // blocks until it has.
  static bool IsClosed(const FileDescriptor& fd, int flags = 0) {
    char byte = 0;
    const ssize_t size = recv(fd.get(), &byte, 1, flags);
    return size == 0 || (size < 0 && errno != EAGAIN);
  }

  // Returns gRPC's name for the other side of `fd`.
  static std::string NameOf(const FileDescriptor& fd) {
    sockaddr_in own = {};
    socklen_t size = sizeof(own);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port));
  }

  std::string accepted_name(size_t index) {
    MutexLock lock(&mu_);
    return PeerNameOf(accepted_[index].get());
  }

  const ReservedPorts ports_ = *ReservedPorts::Create(1);
  const int port_ = ports_.get()[0];
  SimulatedEnvironment simulated_{/*seed=*/1};
  Mutex mu_;
  CondVar changed_;
  std::vector<FileDescriptor> accepted_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ConnectionGate> gate_;
};

TEST_F(ConnectionGateTest, ConnectionsBeyondTheBoundWaitForRoom) {
  constexpr size_t kNumConnections = 20;
  std::vector<FileDescriptor> fds;
  for (size_t i = 0; i < kNumConnections; ++i) {
    fds.push_back(i % 2 == 0 ? Connect()
                             : ConnectOnSameHost(SameHostAddress()));
  }
  for (size_t i = 0; i < kNumConnections; ++i) {
    WaitForAccepted(i + 1);
    EXPECT_LE(gate_->num_unknown(), 2);
    gate_->Vouch(accepted_name(i));
  }
  for (const FileDescriptor& fd : fds) {
    EXPECT_FALSE(IsClosed(fd, MSG_DONTWAIT));
  }
}

TEST_F(ConnectionGateTest, TheEndOfConnectionsMakesRoomForOthers) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  const FileDescriptor third = Connect(), fourth = Connect();
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosed(first));
  EXPECT_TRUE(IsClosed(second));
  WaitForAccepted(4);
  EXPECT_FALSE(IsClosed(third, MSG_DONTWAIT));
  EXPECT_FALSE(IsClosed(fourth, MSG_DONTWAIT));
}

TEST_F(ConnectionGateTest, VouchingMakesRoomForOthers) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  gate_->Vouch(NameOf(first));
  gate_->Vouch("ipv4:127.0.0.1:1");
  EXPECT_EQ(gate_->num_unknown(), 1);
  const FileDescriptor third = Connect();
  WaitForAccepted(3);
}

TEST_F(ConnectionGateTest, ConnectionsThatNobodyVouchesForEndInTime) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosed(second));
  EXPECT_EQ(simulated_.num_alarms(), 0);
  gate_->Break(NameOf(first));
  EXPECT_TRUE(IsClosed(first));
}

TEST_F(ConnectionGateTest, ConnectionsOfManyRefusedCallsEnd) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(IsClosed(second, MSG_DONTWAIT));
    gate_->CountRefusal(NameOf(first));
    gate_->CountRefusal(NameOf(second));
  }
  EXPECT_TRUE(IsClosed(second));
  EXPECT_FALSE(IsClosed(first, MSG_DONTWAIT));
  gate_->CountRefusal("ipv4:127.0.0.1:1");
}

// Keeps the process from opening more file descriptors, while the object lives.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = FileDescriptor(dup(0)).get();  // First free one.
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(ConnectionGateTest, WithoutADescriptorConnectionsWait) {
  const FileDescriptor fd = MakeSocket();
  {
    const NoMoreDescriptors none;
    Connect(fd);
    while (simulated_.num_alarms() == 0) std::this_thread::yield();
  }
  EXPECT_EQ(gate_->num_unknown(), 0);
  simulated_.Advance(absl::Milliseconds(100));
  WaitForAccepted(1);
  EXPECT_FALSE(IsClosed(fd, MSG_DONTWAIT));
}

TEST_F(ConnectionGateTest, AListenerThatCannotBeWatchedAfterARestRestsAgain) {
  const FileDescriptor fd = MakeSocket();
  {
    const NoMoreDescriptors none;
    Connect(fd);
    while (simulated_.num_alarms() == 0) std::this_thread::yield();
  }
  bool is_forbidden = false;
  std::thread rings([&] {
    is_forbidden = ForbidSystemCall(SYS_epoll_ctl);
    simulated_.Advance(absl::Milliseconds(100));
  });
  rings.join();
  simulated_.Advance(absl::Milliseconds(100));
  WaitForAccepted(1);
  if (!is_forbidden) GTEST_SKIP() << "this system does not forbid it";
}

TEST_F(ConnectionGateTest, CloseBreaksWhatIsOpen) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  gate_->Close();
  EXPECT_TRUE(IsClosed(first));
  EXPECT_TRUE(IsClosed(second));
  EXPECT_EQ(simulated_.num_alarms(), 0);
}

TEST_F(ConnectionGateTest, KnowsConnectionsOfTheSameHost) {
  const FileDescriptor first = ConnectOnSameHost(SameHostAddress());
  WaitForAccepted(1);
  const FileDescriptor second = ConnectOnSameHost(SameHostAddress());
  WaitForAccepted(2);
  gate_->Vouch(accepted_name(0));
  EXPECT_EQ(gate_->num_unknown(), 1);
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosedByPeer(second.get()));
  EXPECT_FALSE(IsClosedByPeer(first.get()));
  gate_->Break(accepted_name(0));
  EXPECT_TRUE(IsClosedByPeer(first.get()));
}

TEST_F(ConnectionGateTest, ATakenPortIsAnError) {
  EXPECT_THAT(
      ConnectionGate::Listen({.endpoints = {absl::StrCat("127.0.0.1:", port_)},
                              .clock = simulated_.get().clock})
          .status(),
      IsUnavailable("address in use"));
}

}  // namespace connection_gate_test
}  // namespace tutti
