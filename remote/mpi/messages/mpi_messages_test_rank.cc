// Tests of messages between processes of a job; mpirun_test.py starts them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_messages.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

using testing::ElementsAre;

// More bytes than MPI has memory for before they are received.
constexpr size_t kManyBytes = size_t{4} << 20;

// Runs `work` on MPI's thread, which calls nothing of MPI otherwise.
void OnMpiThread(MpiEngine& runtime, const std::function<void()>& work) {
  BlockingCounter done(1);
  runtime.Post([&] {
    work();
    done.DecrementCount();
  });
  done.Wait();
}

// Sender and first word of a message; long messages continue with repeated "x".
using Message = std::pair<int, std::string>;

std::string Long(const std::string& word) {
  return word + std::string(kManyBytes, 'x');
}

// Messages of a process, with those received so far, for one waiting thread.
class Party {
 public:
  explicit Party(MpiEngine* runtime)
      : runtime_(*runtime), messages_(runtime, 2 * kManyBytes) {
    OnMpiThread(runtime_, [this] {
      messages_.Open([this](int task, absl::string_view message) {
        const std::string word(message.substr(0, message.find('x')));
        MutexLock lock(&mu_);
        received_.emplace_back(task, word);
        changed_.SignalAll();
      });
    });
  }

  void Send(int task, const std::string& message) {
    OnMpiThread(runtime_, [&] { messages_.Send(task, message); });
  }

  // For MPI's thread only.
  MpiMessages& messages() { return messages_; }

  // Returns the next message.
  Message ReceiveFirst() {
    MutexLock lock(&mu_);
    while (received_.empty()) changed_.Wait(&mu_);
    Message first = std::move(received_.front());
    received_.pop_front();
    return first;
  }

  // Returns the next messages, up to `last`.
  std::vector<Message> ReceiveUntil(const Message& last) {
    std::vector<Message> messages;
    do {
      messages.push_back(ReceiveFirst());
    } while (messages.back() != last);
    return messages;
  }

 private:
  MpiEngine& runtime_;
  MpiMessages messages_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Message> received_ ABSL_GUARDED_BY(mu_);
};

// MPI of this process, which can be started once.
MpiEngine* mpi = nullptr;

// Creates a party on all processes; tests do this in the same order. Parties
// live until MPI has ended.
Party& NewParty() {
  static auto& parties = *new std::vector<std::unique_ptr<Party>>;
  return *parties.emplace_back(std::make_unique<Party>(mpi));
}

void AwaitSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  int signal = 0;
  sigwait(&signals, &signal);
}

// MPI's thread of rank 1 stands still in the middle of a long message to rank
// 0. Rank 0 signals it after two messages of rank 2.
TEST(MpiMessagesTest, ASenderThatStandsStillKeepsBackItsOwnMessagesAlone) {
  if ((*mpi->world())->size < 3) GTEST_SKIP() << "It takes three processes.";
  Party& party = NewParty();
  switch ((*mpi->world())->rank) {
    case 0: {
      // Keep the order: rank 2 must send after rank 1 has begun.
      const auto [task, pid] = party.ReceiveFirst();
      EXPECT_EQ(task, 1);
      party.Send(2, "begin");
      EXPECT_THAT(party.ReceiveUntil({2, "two"}),
                  ElementsAre(Message(2, "one"), Message(2, "two")));
      kill(static_cast<pid_t>(std::stoi(pid)), SIGUSR1);
      EXPECT_THAT(party.ReceiveUntil({1, "short"}),
                  ElementsAre(Message(1, "long"), Message(1, "short")));
      party.Send(1, "end");
      break;
    }
    case 1:
      OnMpiThread(*mpi, [&] {
        party.messages().Send(0, absl::StrCat(getpid()));
        party.messages().Send(0, Long("long"));
        party.messages().Send(0, "short");
        AwaitSignal();
      });
      party.ReceiveUntil({0, "end"});
      break;
    case 2:
      party.ReceiveUntil({0, "begin"});
      party.Send(0, "one");
      party.Send(0, "two");
      break;
    default:
      break;
  }
}

// Rank 1 stands still before it has received anything. Rank 0 sends it more
// than MPI has memory for, and goes on with rank 2.
TEST(MpiMessagesTest, AReceiverThatStandsStillKeepsBackWhatGoesToItAlone) {
  constexpr int kNumMessages = 1000;
  const std::string word(1000, 'w');  // Too long to go without MPI's memory.
  if ((*mpi->world())->size < 3) GTEST_SKIP() << "It takes three processes.";
  Party& party = NewParty();
  switch ((*mpi->world())->rank) {
    case 0: {
      const auto [task, pid] = party.ReceiveFirst();
      EXPECT_EQ(task, 1);
      OnMpiThread(*mpi, [&] {
        party.messages().Send(1, Long("long"));
        for (int i = 0; i < kNumMessages; ++i) party.messages().Send(1, word);
      });
      for (int i = 0; i < 10; ++i) {
        party.Send(2, word);
        EXPECT_EQ(party.ReceiveFirst(), Message(2, word));
      }
      kill(static_cast<pid_t>(std::stoi(pid)), SIGUSR1);
      EXPECT_EQ(party.ReceiveFirst(), Message(1, "end"));
      party.Send(2, "end");
      break;
    }
    case 1:
      OnMpiThread(*mpi, [&] {
        party.messages().Send(0, absl::StrCat(getpid()));
        AwaitSignal();
      });
      EXPECT_EQ(party.ReceiveFirst(), Message(0, "long"));
      for (int i = 0; i < kNumMessages; ++i) {
        ASSERT_EQ(party.ReceiveFirst(), Message(0, word)) << i;
      }
      party.Send(0, "end");
      break;
    case 2:
      for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(party.ReceiveFirst(), Message(0, word));
        party.Send(0, word);
      }
      EXPECT_EQ(party.ReceiveFirst(), Message(0, "end"));
      break;
    default:
      break;
  }
}

// Many messages: most come before a receive is posted for them.
TEST(MpiMessagesTest, MessagesOfAllLengthsComeInOrderFromAll) {
  constexpr int kNumMessages = 300;
  const auto message_of = [](int sender, int index) {
    return std::string(static_cast<size_t>(index * index % 5000), 'x')
        .insert(0, absl::StrCat(sender, ".", index));
  };
  const int size = (*mpi->world())->size, rank = (*mpi->world())->rank;
  Party& party = NewParty();
  OnMpiThread(*mpi, [&] {
    for (int index = 0; index < kNumMessages; ++index) {
      for (int other = 0; other < size; ++other) {
        if (other != rank) {
          party.messages().Send(other, message_of(rank, index));
        }
      }
    }
  });
  std::vector<std::vector<std::string>> received(static_cast<size_t>(size));
  for (int i = 0; i < (size - 1) * kNumMessages; ++i) {
    const auto [task, word] = party.ReceiveFirst();
    received[static_cast<size_t>(task)].push_back(word);
  }
  for (int other = 0; other < size; ++other) {
    std::vector<std::string> sent;
    for (int index = 0; index < kNumMessages && other != rank; ++index) {
      sent.push_back(absl::StrCat(other, ".", index));
    }
    EXPECT_EQ(received[static_cast<size_t>(other)], sent) << other;
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  testing::InitGoogleTest(&argc, argv);
  const tutti::DefaultEnvironment environment(1);
  tutti::MpiEngine runtime({.environment = environment.get()});
  const absl::Status status = runtime.Start();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  tutti::mpi = &runtime;
  return RUN_ALL_TESTS();
}
