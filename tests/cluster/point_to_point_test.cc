// Messages between two members of a group, in one process and between tasks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/collective/group_resources.h"
#include "framework/peer/local_peer_access.h"
#include "framework/peer/message_key.h"
#include "tests/cluster/named_tensor_job.h"
#include "tests/doubles/forwarding_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/parts_peer_access.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace point_to_point_test {

constexpr GroupKey kGroup = 7;
constexpr int kAny = PointToPointArgs::kAnyPeer;

// Places of the members: one process, whose bytes may come in parts, or a task
// each.
enum class Place { kProcess, kProcessInParts, kTasks };

// Send or receive, and its result.
struct Side {
  Tensor tensor;
  std::optional<absl::Status> status;
  int num_done = 0;
  int sender = -9;  // Only of a receive from any.

  bool pending() const { return num_done == 0; }
  friend absl::Status EndOf(const Side& side) {
    return side.num_done == 1 ? *side.status
                              : absl::UnknownError("not ended once");
  }
};

// A tensor of different bytes for each `seed`.
Tensor TensorOf(int64_t num_elements, int seed = 1,
                DType dtype = DType::kFloat32) {
  Tensor tensor = *Tensor::Allocate(dtype, TensorShape::Vector(num_elements));
  for (size_t i = 0; i < tensor.size_bytes(); ++i) {
    tensor.mutable_data()[i] =
        static_cast<std::byte>((i * 7 + static_cast<size_t>(seed) * 31) % 251);
  }
  return tensor;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return std::equal(a.data(), a.data() + a.size_bytes(), b.data(),
                    b.data() + b.size_bytes());
}

class PointToPointTest : public testing::TestWithParam<Place> {
 protected:
  using Change = std::function<void(PointToPointArgs&)>;
  using MakePeers =
      std::function<std::unique_ptr<PeerAccessInterface>(int64_t step)>;

  ~PointToPointTest() override { End(); }

  // Makes the members, and forms their group.
  void Begin(int size, uint64_t seed = 1, MakePeers make_peers = nullptr) {
    End();
    size_ = size;
    if (GetParam() == Place::kTasks) {
      environment_ = std::make_unique<SimulatedEnvironment>(seed);
      tasks_ = std::make_unique<NamedTensorJob>(size, environment_->get(),
                                                CoordinatorSettings{});
      tasks_->Join();
      environment_->RunAll();
    } else {
      if (GetParam() == Place::kProcessInParts) {
        make_peers = [](int64_t) {
          return std::make_unique<PartsPeerAccess>(
              std::make_unique<LocalPeerAccess>());
        };
      }
      process_ = std::make_unique<LocalJob>(
          LocalJob::Options{.devices_per_task = size,
                            .seed = seed,
                            .make_peer_access = std::move(make_peers)});
    }
    FormGroup();
  }

  void FormGroup() {
    groups_.assign(static_cast<size_t>(size_), nullptr);
    for (int rank = 0; rank < size_; ++rank) {
      resolver(rank).CompleteGroupAsync(
          device(rank)->attributes(),
          {.group_key = kGroup, .group_size = size_, .rank = rank}, nullptr,
          [this, rank](auto group) {
            ASSERT_THAT(group, IsOk());
            groups_[static_cast<size_t>(rank)] = *std::move(group);
          });
    }
    environment().RunAll();
    for (const auto& group : groups_) ASSERT_NE(group, nullptr);
  }

  void End() {
    if (tasks_ != nullptr) {
      for (int rank = 0; rank < size_; ++rank) tasks_->Destroy(rank);
      environment_->RunAll();
    }
    tasks_ = nullptr;
    process_ = nullptr;
    sides_.clear();  // Calls that waited have ended.
  }

  SimulatedEnvironment& environment() {
    return process_ != nullptr ? process_->environment() : *environment_;
  }
  CollectiveExecutorMgrInterface& manager(int rank) {
    if (process_ != nullptr) return process_->manager();
    return tasks_->runtime(rank).manager();
  }
  ParamResolverInterface& resolver(int rank) {
    return manager(rank).param_resolver();
  }
  Device* device(int rank) {
    return process_ != nullptr ? process_->devices()[static_cast<size_t>(rank)]
                               : tasks_->runtime(rank).devices()[0];
  }
  std::shared_ptr<CollectiveExecutor> executor(int rank) {
    return manager(rank).FindOrCreate(step_);
  }

  PointToPointArgs Args(int rank, int peer, int tag, Tensor tensor) {
    return {.device = device(rank),
            .group = groups_[static_cast<size_t>(rank)],
            .peer = peer,
            .tag = tag,
            .tensor = std::move(tensor)};
  }
  const Side& Send(int from, int to, int tag, const Tensor& tensor,
                   const Change& change = nullptr) {
    Side& side = sides_.emplace_back(Side{.tensor = tensor});
    PointToPointArgs args = Args(from, to, tag, tensor);
    if (change) change(args);
    executor(from)->SendAsync(std::move(args), Done(side));
    return side;
  }
  const Side& Recv(int from, int to, int tag, const Tensor& place,
                   const Change& change = nullptr) {
    Side& side = sides_.emplace_back(Side{.tensor = place});
    PointToPointArgs args = Args(to, from, tag, place);
    args.sender = &side.sender;
    if (change) change(args);
    executor(to)->RecvAsync(std::move(args), Done(side));
    return side;
  }
  static StatusCallback Done(Side& side) {
    return [&side](absl::Status status) {
      side.status = std::move(status);
      ++side.num_done;
    };
  }

  // Sends and receives, and expects that the bytes arrive.
  void ExpectArrives(int from, int to, int tag, int seed = 1) {
    const Side& sent = Send(from, to, tag, TensorOf(7, seed));
    const Side& received = Recv(from, to, tag, TensorOf(7, seed + 1));
    environment().RunAll();
    ExpectEnds({&sent, &received}, IsOk());
    EXPECT_TRUE(SameBytes(sent.tensor, received.tensor));
  }

  Change Within(absl::Duration duration) {
    return [this, duration](PointToPointArgs& args) {
      args.deadline = environment().get().clock->Now() + duration;
    };
  }

  int size_ = 0;
  int64_t step_ = 1;
  std::deque<Side> sides_;
  std::unique_ptr<SimulatedEnvironment> environment_;
  std::unique_ptr<NamedTensorJob> tasks_;
  std::unique_ptr<LocalJob> process_;
  std::vector<std::shared_ptr<const CollGroupParams>> groups_;
};

INSTANTIATE_TEST_SUITE_P(Places, PointToPointTest,
                         testing::Values(Place::kProcess,
                                         Place::kProcessInParts,
                                         Place::kTasks));

TEST_P(PointToPointTest, AllDtypesAndLengthsArriveWhoeverComesFirst) {
  Begin(2);
  for (const DType dtype : kAllDTypes) {
    for (const int64_t length : {0, 1, 7, 1001, 300'000}) {
      if (length > 1001 && dtype != DType::kFloat32) continue;
      for (const bool sends_first : {true, false}) {
        SCOPED_TRACE(absl::StrCat(Name(dtype), " ", length, " ", sends_first));
        const Tensor bytes = TensorOf(length, 1, dtype);
        const Tensor place = TensorOf(length, 2, dtype);
        const Side* sent = sends_first ? &Send(1, 0, 3, bytes) : nullptr;
        environment().RunAll();
        const Side& received = Recv(1, 0, 3, place);
        environment().RunAll();
        if (sent == nullptr) sent = &Send(1, 0, 3, bytes);
        environment().RunAll();
        ExpectEnds({sent, &received}, IsOk());
        EXPECT_TRUE(SameBytes(bytes, place));
      }
    }
  }
}

// Sees the addresses of all bytes that are posted and requested.
class Watching : public ForwardingPeerAccess {
 public:
  explicit Watching(std::vector<const std::byte*>* seen)
      : ForwardingPeerAccess(std::make_unique<LocalPeerAccess>()),
        seen_(*seen) {}

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    seen_.push_back(offer.bytes.data());
    target().PostToPeer(peer, key, offer);
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    seen_.push_back(recv.into.data());
    target().RecvFromPeer(peer, key, recv);
  }

 private:
  std::vector<const std::byte*>& seen_;
};

TEST_P(PointToPointTest, BytesAreCopiedOnceFromTensorToTensor) {
  if (GetParam() != Place::kProcess) return;
  std::vector<const std::byte*> seen;
  Begin(2, 1, [&seen](int64_t) { return std::make_unique<Watching>(&seen); });
  const Side& sent = Send(0, 1, 0, TensorOf(7));
  const Side& received = Recv(0, 1, 0, TensorOf(7, 2));
  environment().RunAll();
  EXPECT_THAT(seen,
              testing::ElementsAre(sent.tensor.data(), received.tensor.data()));
}

TEST_P(PointToPointTest, ManyMessagesOfAPathArriveInTheOrderOfTheCalls) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Begin(5, seed);
    std::mt19937_64 draw(seed);
    struct Path {
      std::vector<const Side*> sends, recvs;
    };
    std::map<std::tuple<int, int, int>, Path> paths;
    std::vector<std::pair<std::tuple<int, int, int>, bool>> calls;
    for (int i = 0; i < 200; ++i) {
      const int from = static_cast<int>(draw() % 5);
      const int to = (from + 1 + static_cast<int>(draw() % 4)) % 5;
      const int tag = draw() % 2 == 0 ? 0 : INT32_MAX;
      for (const bool sends : {true, false}) {
        calls.push_back({{from, to, tag}, sends});
      }
    }
    std::shuffle(calls.begin(), calls.end(), draw);
    for (const auto& [path, sends] : calls) {
      const auto [from, to, tag] = path;
      Path& of = paths[path];
      if (sends) {
        of.sends.push_back(
            &Send(from, to, tag, TensorOf(9, static_cast<int>(draw() % 200))));
      } else {
        of.recvs.push_back(&Recv(from, to, tag, TensorOf(9, 250)));
      }
      if (draw() % 4 == 0) environment().RunSome(3);
    }
    environment().RunAll();
    for (const auto& [path, of] : paths) {
      for (size_t i = 0; i < of.sends.size(); ++i) {
        ExpectEnds({of.sends[i], of.recvs[i]}, IsOk());
        EXPECT_TRUE(SameBytes(of.sends[i]->tensor, of.recvs[i]->tensor));
      }
    }
  }
}

TEST_P(PointToPointTest, ACollectiveWhoseKeyIsThatOfAPathIsAnother) {
  Begin(2);
  const Side& sent = Send(0, 1, 5, TensorOf(4));
  std::vector<absl::Status> ended;
  std::vector<Tensor> outputs(2);
  for (int rank : {0, 1}) {
    auto request = std::make_shared<CollectiveRequest>(
        CollectiveRequest{.group_key = kGroup,
                          .group_size = 2,
                          .rank = rank,
                          .instance_key = KeyOf(MessagePath{0, 1, 5}),
                          .op = AllReduce{},
                          .shape = TensorShape::Vector(4)});
    executor(rank)->ExecuteAsync(
        {.device = device(rank),
         .request = std::move(request),
         .input = TensorOf(4),
         .output = &outputs[static_cast<size_t>(rank)]},
        [&ended](absl::Status status) { ended.push_back(std::move(status)); });
  }
  environment().RunAll();
  EXPECT_THAT(ended, testing::ElementsAre(IsOk(), IsOk()));
  EXPECT_TRUE(sent.pending());
  const Side& received = Recv(0, 1, 5, TensorOf(4, 2));
  environment().RunAll();
  ExpectEnds({&sent, &received}, IsOk());
  EXPECT_TRUE(SameBytes(sent.tensor, received.tensor));
}

TEST_P(PointToPointTest, ADeadlineNamesTheMissingSideAndEndsBoth) {
  Begin(3);
  ExpectArrives(2, 0, 8);
  const Side& recv = Recv(2, 0, 7, TensorOf(4), Within(absl::Seconds(5)));
  const Side& send = Send(0, 1, 7, TensorOf(4), Within(absl::Seconds(5)));
  const Side& second = Recv(2, 0, 8, TensorOf(4), Within(absl::Seconds(5)));
  environment().Advance(absl::Seconds(4));
  EXPECT_TRUE(recv.pending() && send.pending() && second.pending());
  environment().Advance(absl::Seconds(1));
  ExpectEnds({&recv},
             IsDeadlineExceeded("recv from rank 2, tag 7 of group 7, called by",
                                "the deadline passed after 5s, rank 2 (/job:",
                                ") had sent nothing with this tag"));
  ExpectEnds({&send}, IsDeadlineExceeded("send to rank 1, tag 7 of group 7",
                                         "rank 1 (/job:",
                                         ") had received nothing with this "));
  ExpectEnds({&second}, IsDeadlineExceeded(
                            "had sent message 0 with this tag and not the"));
  const Side& late_send = Send(2, 0, 7, TensorOf(4));
  const Side& late_recv = Recv(0, 1, 7, TensorOf(4));
  environment().RunAll();
  ExpectEnds({&late_send}, IsDeadlineExceeded("recv from rank 2, tag 7"));
  ExpectEnds({&late_recv}, IsDeadlineExceeded("send to rank 1, tag 7"));
  ExpectArrives(2, 0, 7);
  ExpectArrives(0, 1, 7);
}

TEST_P(PointToPointTest, APastDeadlineAndACancellationCountForBothSides) {
  Begin(2);
  const auto token = std::make_shared<Cancellation>();
  const Side& past = Send(0, 1, 1, TensorOf(4), Within(absl::ZeroDuration()));
  const Side& cancelled = Send(0, 1, 1, TensorOf(4),
                               [&](auto& args) { args.cancellation = token; });
  const Side& good = Send(0, 1, 1, TensorOf(4));
  token->Cancel(absl::CancelledError("no more"));
  environment().RunAll();
  ExpectEnds({&past}, IsDeadlineExceeded("send to rank 1"));
  ExpectEnds({&cancelled}, IsCancelled("no more (/job:"));
  const Side& first = Recv(0, 1, 1, TensorOf(4));
  const Side& second = Recv(0, 1, 1, TensorOf(4));
  const Side& third = Recv(0, 1, 1, TensorOf(4, 2));
  environment().RunAll();
  ExpectEnds({&first}, IsDeadlineExceeded("send to rank 1"));
  ExpectEnds({&second}, IsCancelled("no more"));
  ExpectEnds({&good, &third}, IsOk());
  EXPECT_TRUE(SameBytes(good.tensor, third.tensor));
}

TEST_P(PointToPointTest, OtherSizesOrDtypesAreAnErrorOfBothThatNamesBoth) {
  Begin(2);
  const std::tuple<Tensor, Tensor, std::string, std::string> cases[] = {
      {TensorOf(4), TensorOf(5), "16 bytes of float32", "20 bytes of float32"},
      {TensorOf(4), TensorOf(4, 1, DType::kInt32), "16 bytes of float32",
       "16 bytes of int32"},
      {TensorOf(0), TensorOf(4), " 0 bytes of float32", "16 bytes of float32"},
      {TensorOf(4), TensorOf(0), "16 bytes of float32", " 0 bytes of float32"}};
  for (const auto& [sent, place, offered, wanted] : cases) {
    for (const bool sends_first : {true, false}) {
      const Side& first =
          sends_first ? Send(0, 1, 4, sent) : Recv(0, 1, 4, place);
      environment().RunAll();
      const Side& second =
          sends_first ? Recv(0, 1, 4, place) : Send(0, 1, 4, sent);
      environment().RunAll();
      ExpectEnds({&first, &second},
                 IsInvalidArgument("rank 0 to rank 1, tag 4", offered, wanted));
      ExpectArrives(0, 1, 4);
    }
  }
}

TEST_P(PointToPointTest, WrongArgumentsAreAnErrorOfThatCallAlone) {
  Begin(2);
  const std::pair<Change, std::string> cases[] = {
      {[](auto& args) { args.device = nullptr; }, "without a device"},
      {[](auto& args) { args.group = nullptr; }, "without a group"},
      {[](auto& args) { args.peer = -2; }, "rank -2 of group 7, which has 2"},
      {[](auto& args) { args.peer = 2; }, "rank 2 of group 7, which has 2"},
      {[](auto& args) { args.tag = -1; }, "tag -1; wanted 0 or more"},
      {[](auto& args) { args.tensor = Tensor(); }, "without a tensor"},
      {[](auto& args) { args.peer = 1 - args.peer; }, "with itself"},
      {[](auto& args) {
         auto group = std::make_shared<CollGroupParams>(*args.group);
         for (auto& member : group->members) ++member.device.incarnation;
         group->resources = std::make_shared<GroupResources>();
         args.group = std::move(group);
       },
       "in a group without it"}};
  for (const auto& [change, error] : cases) {
    ExpectEnds({&Send(0, 1, 0, TensorOf(4), change),
                &Recv(0, 1, 0, TensorOf(4), change)},
               IsInvalidArgument(error));
  }
  ExpectEnds({&Send(0, kAny, 0, TensorOf(4))},
             IsInvalidArgument("rank -1 of group 7, which has 2"));
  ExpectArrives(0, 1, 0);
}

TEST_P(PointToPointTest, TheEndOfTheStepEndsWhatWaitsAndWhatComes) {
  Begin(2);
  const Side& send = Send(0, 1, 0, TensorOf(4));
  const Side& recv = Recv(1, 0, 0, TensorOf(4));
  environment().RunAll();
  executor(0)->StartAbort(absl::AbortedError("stop"));
  environment().RunAll();
  ExpectEnds({&send, &recv, &Send(0, 1, 0, TensorOf(4))}, IsAborted("stop"));
  const Side& late = Recv(0, 1, 0, TensorOf(4));
  environment().RunAll();
  ExpectEnds({&late}, IsAborted("stop"));
  for (int rank : {0, 1}) manager(rank).Cleanup(step_);
  ++step_;
  ExpectArrives(0, 1, 0);
}

TEST_P(PointToPointTest, TheEndOfTheGroupEndsItAndAnotherStepGoesOn) {
  Begin(3);
  ExpectArrives(0, 1, 0);
  const Side& send = Send(0, 1, 0, TensorOf(4));
  const Side& recv = Recv(2, 0, 0, TensorOf(4));
  environment().RunAll();
  resolver(0).EndGroup(kGroup, absl::AbortedError("over"));
  environment().RunAll();
  ExpectEnds({&send, &recv}, IsAborted("over"));
  ExpectEnds({&Send(1, 2, 0, TensorOf(4)), &Recv(0, 1, 0, TensorOf(4))},
             IsAborted("over"));
  FormGroup();
  if (GetParam() == Place::kTasks) {
    // Not all tasks may have called equally often in the ended generation.
    const auto needs_another_step =
        IsFailedPrecondition("the message of rank 0 to rank 1, tag 0",
                             "it needs another step than 1");
    ExpectEnds({&Recv(kAny, 1, 0, TensorOf(4))}, needs_another_step);
    ExpectEnds({&Send(0, 1, 0, TensorOf(4))}, needs_another_step);
    environment().RunAll();
    FormGroup();
    ++step_;
  }
  ExpectArrives(0, 1, 0);
}

TEST_P(PointToPointTest, ACallInAnEndedGenerationLeavesTheNextOneAlone) {
  Begin(2);
  const auto ended = groups_;
  resolver(0).EndGroup(kGroup, absl::AbortedError("over"));
  environment().RunAll();
  FormGroup();
  ExpectArrives(0, 1, 0);
  const Side& late = Send(0, 1, 0, TensorOf(4), [&](PointToPointArgs& args) {
    args.group = ended[0];
  });
  environment().RunAll();
  ExpectEnds({&late}, testing::Not(IsOk()));
  ExpectArrives(1, 0, 0);  // The group lives on.
}

TEST_P(PointToPointTest, SendRecvShiftsAroundARingOfAnySize) {
  for (int size = 2; size <= 9; ++size) {
    Begin(size);
    for (int round = 0; round < 2; ++round) {
      std::vector<Side*> received;
      for (int rank = 0; rank < size; ++rank) {
        Side& side = sides_.emplace_back(Side{.tensor = TensorOf(7, 100)});
        received.push_back(&side);
        executor(rank)->SendRecvAsync(
            Args(rank, (rank + 1) % size, 0, TensorOf(7, rank)),
            Args(rank, (rank + size - 1) % size, 0, side.tensor), Done(side));
      }
      environment().RunAll();
      for (int rank = 0; rank < size; ++rank) {
        const Side& side = *received[static_cast<size_t>(rank)];
        ExpectEnds({&side}, IsOk());
        EXPECT_TRUE(
            SameBytes(side.tensor, TensorOf(7, (rank + size - 1) % size)));
      }
    }
  }
}

TEST_P(PointToPointTest, SendRecvEndsOnceWithItsFirstErrorAfterBoth) {
  Begin(2);
  const Tensor both = TensorOf(7);
  Side& overlap = sides_.emplace_back();
  executor(0)->SendRecvAsync(Args(0, 1, 0, both), Args(0, 1, 0, both),
                             Done(overlap));
  ExpectEnds({&overlap}, IsInvalidArgument("overlap"));
  Side& side = sides_.emplace_back();
  PointToPointArgs recv = Args(0, 1, 0, TensorOf(7));
  Within(absl::Seconds(1))(recv);
  executor(0)->SendRecvAsync(Args(0, 1, 0, both), std::move(recv), Done(side));
  environment().Advance(absl::Seconds(2));
  EXPECT_TRUE(side.pending());
  const Side& received = Recv(0, 1, 0, TensorOf(7));
  environment().RunAll();
  ExpectEnds({&received}, IsOk());
  ExpectEnds({&side}, IsDeadlineExceeded("recv from rank 1"));
}

TEST_P(PointToPointTest, AChainOfMessagesDoesNotDeepenTheStack) {
  if (GetParam() == Place::kTasks) return;
  Begin(2);
  const Tensor bytes = TensorOf(3), place = TensorOf(3, 2);
  int num_sends_left = 20'000, num_recvs_left = 20'000;
  std::function<void()> send, recv;
  send = [&] {
    if (num_sends_left-- == 0) return;
    executor(0)->SendAsync(Args(0, 1, 0, bytes), [&](absl::Status status) {
      EXPECT_THAT(status, IsOk());
      send();
    });
  };
  recv = [&] {
    if (num_recvs_left-- == 0) return;
    executor(1)->RecvAsync(Args(1, 0, 0, place), [&](absl::Status status) {
      EXPECT_THAT(status, IsOk());
      recv();
    });
  };
  send();
  recv();
  environment().RunAll();
  EXPECT_EQ(num_sends_left, -1);
  EXPECT_EQ(num_recvs_left, -1);
}

TEST_P(PointToPointTest, AReceiveFromAnyGetsTheMessageOfWhoeverSends) {
  for (int size = 2; size <= 9; ++size) {
    Begin(size);
    const int to = size / 2;
    for (const int64_t length : {0, 1, 7, 1001, 300'000}) {
      if (length > 1001 && size != 3) continue;
      for (const bool sends_first : {true, false}) {
        std::vector<const Side*> sent, received;
        for (const bool sends : {sends_first, !sends_first}) {
          for (int from = size - 1; from >= 0; --from) {
            if (from == to) continue;
            if (sends) {
              sent.push_back(&Send(from, to, 3, TensorOf(length, from)));
            } else {
              received.push_back(&Recv(kAny, to, 3, TensorOf(length, 100)));
            }
          }
          environment().RunAll();
        }
        std::vector<int> came(static_cast<size_t>(size));
        for (size_t i = 0; i < sent.size(); ++i) {
          ExpectEnds({sent[i], received[i]}, IsOk());
          const int from = received[i]->sender;
          ASSERT_TRUE(from >= 0 && from < size && from != to) << from;
          EXPECT_EQ(came[static_cast<size_t>(from)]++, 0);
          EXPECT_TRUE(SameBytes(received[i]->tensor, TensorOf(length, from)));
        }
      }
    }
  }
}

TEST_P(PointToPointTest, ReceivesFromAnyAreServedInTheOrderOfTheirCalls) {
  Begin(4);
  std::vector<const Side*> received;
  for (int i = 0; i < 30; ++i) {
    received.push_back(&Recv(kAny, 1, 0, TensorOf(4, 200)));
  }
  for (int i = 0; i < 30; ++i) {
    const int from = std::array{0, 3, 2, 2, 0}[static_cast<size_t>(i % 5)];
    Send(from, 1, 0, TensorOf(4, i));
    environment().RunAll();
    ExpectEnds({received[static_cast<size_t>(i)]}, IsOk());
    EXPECT_EQ(received[static_cast<size_t>(i)]->sender, from);
    EXPECT_TRUE(
        SameBytes(received[static_cast<size_t>(i)]->tensor, TensorOf(4, i)));
  }
}

TEST_P(PointToPointTest, AReceiveFromAGivenMemberOvertakesOneFromAny) {
  Begin(3);
  const Side& any = Recv(kAny, 0, 0, TensorOf(4, 200));
  const Side& given = Recv(1, 0, 0, TensorOf(4, 201));
  const Side& limited = Recv(2, 0, 0, TensorOf(4), Within(absl::Seconds(1)));
  environment().Advance(absl::Seconds(2));
  ExpectEnds({&limited}, IsDeadlineExceeded("recv from rank 2, tag 0"));
  ExpectEnds({&Send(2, 0, 0, TensorOf(4))}, IsDeadlineExceeded("from rank 2"));
  environment().RunAll();
  EXPECT_TRUE(any.pending() && given.pending());
  Send(1, 0, 0, TensorOf(4, 1));
  environment().RunAll();
  ExpectEnds({&given}, IsOk());
  EXPECT_TRUE(any.pending() && SameBytes(given.tensor, TensorOf(4, 1)));
  Send(1, 0, 0, TensorOf(4, 2));
  environment().RunAll();
  ExpectEnds({&any}, IsOk());
  EXPECT_TRUE(any.sender == 1 && SameBytes(any.tensor, TensorOf(4, 2)));
}

TEST_P(PointToPointTest, AMessageThatFailsIsThatOfAReceiveFromAny) {
  Begin(3);
  const Side& first = Recv(kAny, 0, 2, TensorOf(4));
  const Side& second = Recv(kAny, 0, 2, TensorOf(5));
  const Side& third = Recv(kAny, 0, 2, TensorOf(4, 9));
  environment().RunAll();
  const Side& late = Send(1, 0, 2, TensorOf(4), Within(absl::ZeroDuration()));
  environment().RunAll();
  ExpectEnds({&late, &first}, IsDeadlineExceeded("send to rank 0, tag 2"));
  EXPECT_EQ(first.sender, 1);
  const Side& differs = Send(2, 0, 2, TensorOf(4));
  environment().RunAll();
  ExpectEnds({&differs, &second},
             IsInvalidArgument("rank 2 to rank 0, tag 2", "16 bytes", "20"));
  const Side& good = Send(1, 0, 2, TensorOf(4));
  environment().RunAll();
  ExpectEnds({&good, &third}, IsOk());
  EXPECT_TRUE(SameBytes(good.tensor, third.tensor));
}

TEST_P(PointToPointTest, EndsOfAReceiveFromAnyNameItAndTheTimeWaited) {
  Begin(3);
  const auto token = std::make_shared<Cancellation>();
  const Side& late = Recv(kAny, 0, 3, TensorOf(4), Within(absl::Seconds(5)));
  const Side& cancelled = Recv(kAny, 0, 3, TensorOf(4),
                               [&](auto& args) { args.cancellation = token; });
  const Side& ended = Recv(kAny, 0, 3, TensorOf(4));
  const Side& other_tag = Recv(kAny, 2, 4, TensorOf(4));
  const Side& past = Recv(kAny, 0, 3, TensorOf(4), Within(absl::Seconds(-1)));
  environment().Advance(absl::Seconds(5));
  ExpectEnds(
      {&past, &late},
      IsDeadlineExceeded("recv from any member of group 7, tag 3, called "
                         "by /job:",
                         "no member had sent a message for it"));
  ExpectEnds({&late}, IsDeadlineExceeded("the deadline passed after 5s"));
  token->Cancel(absl::CancelledError("no more"));
  environment().RunAll();
  ExpectEnds({&cancelled},
             IsCancelled("no more (/job:",
                         "; recv from any member of group 7, tag 3, called by "
                         "/job:",
                         ", had waited 5s"));
  const Side& unaffected = Send(1, 2, 4, TensorOf(4, 7));
  environment().RunAll();
  ExpectEnds({&other_tag, &unaffected}, IsOk());
  resolver(0).EndGroup(kGroup, absl::AbortedError("over"));
  environment().RunAll();
  ExpectEnds({&ended, &Recv(kAny, 0, 3, TensorOf(4))},
             IsAborted("over", "recv from any member of group 7, tag 3"));
  FormGroup();
  ++step_;
  const Side& aborted = Recv(kAny, 0, 3, TensorOf(4));
  environment().RunAll();
  executor(0)->StartAbort(absl::AbortedError("stop"));
  environment().RunAll();
  ExpectEnds({&aborted, &Recv(kAny, 0, 3, TensorOf(4))},
             IsAborted("stop", "recv from any member of group 7, tag 3"));
}

TEST_P(PointToPointTest, TheLossOfATaskEndsAReceiveFromAny) {
  if (GetParam() != Place::kTasks) return;
  Begin(3);
  const Side& any = Recv(kAny, 0, 3, TensorOf(4));
  environment().RunAll();
  tasks_->Destroy(2);
  environment().Advance(absl::Minutes(2));
  ExpectEnds({&any}, testing::Not(IsOk()));
  EXPECT_THAT(any.status->message(),
              testing::HasSubstr("recv from any member of group 7, tag 3"));
}

// Counts announcements that are requested and not answered. Loses requests that
// it puts into `lost`, if that is not null.
class Announcements : public ForwardingPeerAccess {
 public:
  Announcements(int* num_open, int* num_requested,
                std::vector<RecvRequest>** lost = nullptr)
      : ForwardingPeerAccess(std::make_unique<LocalPeerAccess>()),
        num_open_(*num_open),
        num_requested_(*num_requested),
        lost_(lost) {}

  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    if (!IsAnnouncement(key)) return target().RecvFromPeer(peer, key, recv);
    if (lost_ != nullptr && *lost_ != nullptr) return (*lost_)->push_back(recv);
    RecvRequest counted = recv;
    counted.receiver = new Counted(recv, &num_open_);
    ++num_open_;
    ++num_requested_;
    target().RecvFromPeer(peer, key, counted);
  }

 private:
  struct Counted final : Receiver {
    Counted(const RecvRequest& recv, int* num_open)
        : recv(recv), num_open(*num_open) {}
    void OnDelivery(int32_t, absl::Status status, Delivery delivery) override {
      const std::unique_ptr<Counted> self(this);
      --num_open;
      recv.receiver->OnDelivery(recv.id, std::move(status), delivery);
    }
    const RecvRequest recv;
    int& num_open;
  };

  int& num_open_;
  int& num_requested_;
  std::vector<RecvRequest>** const lost_;
};

TEST_P(PointToPointTest, NoAnnouncementOutlivesGroupOrStep) {
  if (GetParam() != Place::kProcess) return;
  int num_open = 0, num_requested = 0;
  Begin(4, 1, [&](int64_t) {
    return std::make_unique<Announcements>(&num_open, &num_requested);
  });
  ExpectArrives(0, 1, 0);
  EXPECT_EQ(num_requested, 0);
  const Side& any = Recv(kAny, 1, 0, TensorOf(7));
  EXPECT_EQ(num_open, 3);
  Send(2, 1, 0, TensorOf(7));
  ExpectEnds({&any}, IsOk());
  EXPECT_EQ(num_open, 2);  // Those stay, for the next receive from any.
  Recv(kAny, 1, 0, TensorOf(7), Within(absl::Seconds(1)));
  environment().Advance(absl::Seconds(1));
  EXPECT_EQ(num_open, 3);
  EXPECT_EQ(num_requested, 4);
  resolver(0).EndGroup(kGroup, absl::AbortedError("over"));
  environment().RunAll();
  EXPECT_EQ(num_open, 0);
  FormGroup();
  Recv(kAny, 1, 0, TensorOf(7), Within(absl::Seconds(1)));
  environment().Advance(absl::Seconds(1));
  EXPECT_EQ(num_open, 3);
  manager(1).Cleanup(step_);
  environment().RunAll();
  EXPECT_EQ(num_open, 0);
}

// A connection that breaks while no receive from any is open fails none later.
TEST_P(PointToPointTest, ARequestThatBreaksUnusedFailsNoLaterMessage) {
  if (GetParam() != Place::kProcess) return;
  int num_open = 0, num_requested = 0;
  std::vector<RecvRequest> requests;
  std::vector<RecvRequest>* lost = &requests;
  Begin(3, 1, [&](int64_t) {
    return std::make_unique<Announcements>(&num_open, &num_requested, &lost);
  });
  Recv(kAny, 1, 0, TensorOf(7), Within(absl::Seconds(1)));
  environment().Advance(absl::Seconds(1));
  ASSERT_EQ(requests.size(), 2u);
  lost = nullptr;
  for (const RecvRequest& request : requests) {
    request.receiver->OnDelivery(
        request.id, absl::UnavailableError("connection closed"), Delivery{});
  }
  const Side& any = Recv(kAny, 1, 0, TensorOf(7));
  const Side& sent = Send(2, 1, 0, TensorOf(7));
  environment().RunAll();
  ExpectEnds({&any, &sent}, IsOk());
}

// A message that says which it is: the n-th of its sender.
Tensor Numbered(int sender, int n) {
  Tensor tensor = TensorOf(1, 0, DType::kInt32);
  *reinterpret_cast<int32_t*>(tensor.mutable_data()) = sender * 1000 + n;
  return tensor;
}

// Expects that nothing is lost or given twice: the messages of each sender up
// to the last one received, those of receives from any in order.
void ExpectShared(const std::vector<std::pair<int, const Side*>>& received) {
  std::map<int, std::vector<int>> numbers;
  std::map<int, int> last_of_any;
  for (const auto& [peer, side] : received) {
    const int id = *reinterpret_cast<const int32_t*>(side->tensor.data());
    const int sender = id / 1000;
    numbers[sender].push_back(id % 1000);
    EXPECT_EQ(sender, peer == kAny ? side->sender : peer);
    if (peer != kAny) continue;
    EXPECT_LE(last_of_any[sender], id % 1000);
    last_of_any[sender] = id % 1000;
  }
  for (auto& [sender, of] : numbers) {
    std::sort(of.begin(), of.end());
    for (size_t i = 0; i < of.size(); ++i) ASSERT_EQ(of[i], i) << sender;
  }
}

TEST_P(PointToPointTest, ReceivesFromAnyAndFromGivenMembersShareTheMessages) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Begin(4, seed);
    std::mt19937_64 draw(seed);
    std::vector<int> num_sent(4), num_given(4);
    std::vector<std::pair<int, const Side*>> received;
    const auto send = [&](int from) {
      Send(from, 0, 0, Numbered(from, num_sent[from]++));
    };
    for (int num_sends = 0, num_recvs = 0;
         num_sends < 100 || num_recvs < 100;) {
      const int from = 1 + static_cast<int>(draw() % 3);
      if (draw() % 2 == 0 && num_sends++ < 100) {
        send(from);
      } else if (num_recvs++ < 100) {
        const int peer = draw() % 2 == 0 ? kAny : from;
        if (peer != kAny) ++num_given[from];
        received.push_back({peer, &Recv(peer, 0, 0, Numbered(0, 0))});
      }
      if (draw() % 3 == 0) environment().RunSome(static_cast<int>(draw() % 9));
    }
    environment().RunAll();
    // Receives from any may have taken what those from a given member need.
    for (int from = 1; from < 4; ++from) {
      for (int i = 0; i < num_given[from]; ++i) send(from);
    }
    environment().RunAll();
    for (const auto& [peer, side] : received) ExpectEnds({side}, IsOk());
    ExpectShared(received);
  }
}

// Ends of all kinds at random moments: each call ends once, and what arrives is
// right. With the later seeds a third of the receives is from any member: then
// nobody knows which message a receive gets.
TEST_P(PointToPointTest, RandomEndsLeaveNothingWaitingAndNothingWrong) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const bool from_any = seed > 20;
    Begin(3, seed);
    std::mt19937_64 draw(seed);
    std::map<std::tuple<int, int>, std::pair<int, int>> counts;
    std::vector<std::pair<const Side*, int>>
        received;  // With the seed of the bytes.
    std::vector<std::shared_ptr<Cancellation>> tokens;
    for (int i = 0; i < 150; ++i) {
      const int from = static_cast<int>(draw() % 3);
      const int to = (from + 1 + static_cast<int>(draw() % 2)) % 3;
      auto& [num_sends, num_recvs] = counts[{from, to}];
      const auto token = tokens.emplace_back(std::make_shared<Cancellation>());
      const auto limit = [&](PointToPointArgs& args) {
        args.cancellation = token;
        args.deadline = environment().get().clock->Now() +
                        absl::Milliseconds(1 + draw() % 40);
      };
      if (draw() % 2 == 0) {
        Send(from, to, 0, TensorOf(500, from * 80 + num_sends++), limit);
      } else {
        const int peer = from_any && draw() % 3 == 0 ? kAny : from;
        received.push_back({&Recv(peer, to, 0, TensorOf(500, 200), limit),
                            from * 80 + num_recvs++});
      }
      if (draw() % 3 == 0) environment().RunSome(static_cast<int>(draw() % 9));
      if (draw() % 8 == 0) environment().Advance(absl::Milliseconds(3));
      if (draw() % 6 == 0) {
        tokens[draw() % tokens.size()]->Cancel(absl::CancelledError("at will"));
      }
      if (seed % 4 == 0 && i == 100) {
        resolver(1).EndGroup(kGroup, absl::AbortedError("over"));
      }
      if (seed % 4 == 1 && i == 100) {
        executor(2)->StartAbort(absl::AbortedError("stop"));
      }
    }
    environment().Advance(absl::Seconds(1));
    for (const Side& side : sides_) EXPECT_EQ(side.num_done, 1);
    for (const auto& [side, bytes] : received) {
      if (from_any || !side->status->ok()) continue;
      EXPECT_TRUE(SameBytes(side->tensor, TensorOf(500, bytes)));
    }
    if (process_ != nullptr) {
      EXPECT_EQ(environment().num_alarms(), 0u);
    }
  }
}

// Threads send, receive and cancel at the same time, and the step ends.
TEST(PointToPointConcurrencyTest, EachCallEndsOnceAmongThreads) {
  constexpr int kRanks = 3;
  constexpr int kCalls = 200;
  DefaultEnvironment environment(2);
  const auto local = LocalGroup::Create(environment.get(), 1, kRanks);
  ASSERT_THAT(local, IsOk());
  std::shared_ptr<const CollGroupParams> group;
  for (Device* device : (*local)->devices()) {
    (*local)->manager().param_resolver().CompleteGroupAsync(
        device->attributes(), {.group_key = kGroup, .group_size = kRanks},
        nullptr, [&group](auto formed) { group = *std::move(formed); });
  }
  ASSERT_NE(group, nullptr);
  for (const bool is_aborted : {false, true}) {
    const auto executor = (*local)->manager().FindOrCreate(is_aborted ? 2 : 1);
    BlockingCounter ended(2 * kRanks * kCalls);
    std::atomic<int> num_wrong = 0;
    const auto run = [&](int rank) {
      for (int i = 0; i < kCalls; ++i) {
        const auto token = std::make_shared<Cancellation>();
        const auto args = [&](int peer, int seed) {
          return PointToPointArgs{
              .device = (*local)->devices()[static_cast<size_t>(rank)],
              .group = group,
              .peer = peer,
              .tensor = TensorOf(100, seed),
              .cancellation = token};
        };
        executor->SendAsync(args((rank + 1) % kRanks, i),
                            [&](absl::Status) { ended.DecrementCount(); });
        PointToPointArgs recv = args((rank + 2) % kRanks, 250);
        const Tensor place = recv.tensor;
        executor->RecvAsync(std::move(recv), [&, place, i](absl::Status end) {
          if (end.ok() && !SameBytes(place, TensorOf(100, i))) ++num_wrong;
          ended.DecrementCount();
        });
        if (i % 8 == 0) token->Cancel(absl::CancelledError("at will"));
        if (is_aborted && rank == 0 && i == kCalls / 2) {
          executor->StartAbort(absl::AbortedError("stop"));
        }
      }
    };
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(run, rank);
    for (std::thread& thread : threads) thread.join();
    ended.Wait();
    EXPECT_EQ(num_wrong, 0);
  }
}

// Two threads receive from any member, and one from each sender.
TEST(PointToPointConcurrencyTest, ThreadsShareTheMessagesOfAllSenders) {
  constexpr int kCalls = 300;
  DefaultEnvironment environment(2);
  const auto local = LocalGroup::Create(environment.get(), 1, 3);
  ASSERT_THAT(local, IsOk());
  std::shared_ptr<const CollGroupParams> group;
  for (Device* device : (*local)->devices()) {
    (*local)->manager().param_resolver().CompleteGroupAsync(
        device->attributes(), {.group_key = kGroup, .group_size = 3}, nullptr,
        [&group](auto formed) { group = *std::move(formed); });
  }
  ASSERT_NE(group, nullptr);
  const auto executor = (*local)->manager().FindOrCreate(1);
  std::vector<std::vector<Tensor>> places(4);
  BlockingCounter ended(4 * kCalls);
  std::atomic<int> num_failed = 0;
  const auto done = [&](const absl::Status& status) {
    if (!status.ok()) ++num_failed;
    ended.DecrementCount();
  };
  const auto args = [&](int rank, int peer, Tensor tensor) {
    return PointToPointArgs{
        .device = (*local)->devices()[static_cast<size_t>(rank)],
        .group = group,
        .peer = peer,
        .tensor = std::move(tensor)};
  };
  const auto receive = [&](int peer, std::vector<Tensor>& into) {
    for (int i = 0; i < kCalls; ++i) {
      into.push_back(Numbered(0, 0));
      executor->RecvAsync(args(0, peer, into.back()), done);
    }
  };
  // Sends enough, whichever sender the receives from any prefer.
  const auto send = [&](int rank) {
    for (int i = 0; i < 3 * kCalls; ++i) {
      executor->SendAsync(args(rank, 0, Numbered(rank, i)), nullptr);
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(send, 1);
  threads.emplace_back(send, 2);
  for (const int i : {0, 1, 2, 3}) {
    threads.emplace_back(receive, i < 2 ? kAny : i - 1, std::ref(places[i]));
  }
  for (std::thread& thread : threads) thread.join();
  ended.Wait();
  EXPECT_EQ(num_failed, 0);
  std::map<int, int> times;
  for (const auto& of : places) {
    for (const Tensor& place : of) {
      ++times[*reinterpret_cast<const int32_t*>(place.data())];
    }
  }
  for (const auto& [id, num] : times) EXPECT_EQ(num, 1) << id;
}

}  // namespace point_to_point_test
}  // namespace tutti
