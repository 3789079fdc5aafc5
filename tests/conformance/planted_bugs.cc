// Implementations with one bug each, which the suite has to find.

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/conformance/disguise.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

using conformance::Disguise;

std::byte* LastByte(const Tensor& tensor) {
  if (tensor.size_bytes() == 0) return nullptr;
  return Tensor(tensor).mutable_data() + tensor.size_bytes() - 1;
}

void Flip(std::byte* byte) {
  if (byte != nullptr) *byte ^= std::byte{1};
}

class NeverEndsOnError : public Disguise {
  void End(const CollectiveContext& /*context*/, absl::Status status,
           StatusCallback done) override {
    if (status.ok()) std::move(done)(std::move(status));
  }
};

class HidesErrors : public Disguise {
  void End(const CollectiveContext& /*context*/, absl::Status /*status*/,
           StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

class WrongAtOneRank : public Disguise {
  void End(const CollectiveContext& context, absl::Status status,
           StatusCallback done) override {
    if (context.rank() == 1) Flip(LastByte(context.output));
    std::move(done)(std::move(status));
  }
};

class WritesBesideTheOutput : public Disguise {
  void End(const CollectiveContext& context, absl::Status status,
           StatusCallback done) override {
    std::byte* const last = LastByte(context.output);
    if (last != nullptr) Flip(last + 1);
    std::move(done)(std::move(status));
  }
};

class WritesTheInput : public Disguise {
  void End(const CollectiveContext& context, absl::Status status,
           StatusCallback done) override {
    if (OverlapOf(context.input, context.output) == Overlap::kNone) {
      Flip(LastByte(context.input));
    }
    std::move(done)(std::move(status));
  }
};

class WritesAfterDone : public Disguise {
  void End(const CollectiveContext& context, absl::Status status,
           StatusCallback done) override {
    std::byte* const last = LastByte(context.output);
    std::move(done)(std::move(status));
    Flip(last);
  }
};

class KeepsTheOutput : public Disguise {
  void End(const CollectiveContext& context, absl::Status status,
           StatusCallback done) override {
    static auto* const kept = new std::vector<Tensor>();
    if (context.rank() == 0) kept->push_back(context.output);
    std::move(done)(std::move(status));
  }
};

// Another result, the same on all ranks, where rank 0 came before rank 1. Knows
// of one execution at a time, on one thread.
class DependsOnArrival : public Disguise {
 public:
  void Run(const CollectiveContext& context, StatusCallback done) override {
    if (context.rank() <= 1) last_of_two_ = context.rank();
    Disguise::Run(context, std::move(done));
  }

 private:
  void End(const CollectiveContext& context, absl::Status status,
           StatusCallback done) override {
    if (last_of_two_ == 1) Flip(LastByte(context.output));
    std::move(done)(std::move(status));
  }

  static inline int last_of_two_ = 0;
};

// A barrier that lets go when all but rank 0 have come. Knows of one execution
// at a time, on one thread.
class LeavesWithoutRankZero : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext& context, StatusCallback done) override {
    static auto* const waiting = new std::vector<StatusCallback>();
    static auto* const come = new std::set<int>();
    const auto size = static_cast<size_t>(context.params->group->size());
    context.executor->Launched(context);
    waiting->push_back(std::move(done));
    come->insert(context.rank());
    if (come->size() - come->count(0) < size - 1) return;
    if (come->size() == size) come->clear();
    for (StatusCallback& leave : std::exchange(*waiting, {})) {
      std::move(leave)(absl::OkStatus());
    }
  }
};

// Every rank gets all inputs and adds them up from its own on: right, but
// rounded differently on each rank.
Schedule SumFromOwnRankOn(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto sends = builder.AddLane();
  auto sums = builder.AddLane();
  StepRef sent;
  Slot sum = Input(0);
  for (int i = 1; i < size; ++i) {
    sent = sends.Send((request.rank + i) % size, /*tag=*/0, Input(0));
    const Slot arrived = Scratch(0, 2 * i);
    const Slot into = Scratch(0, 2 * i + 1);
    sums.Recv((request.rank - i + size) % size, /*tag=*/0, arrived);
    sums.Reduce(into, sum, arrived);
    sum = into;
  }
  sums.CopyAndFinish(Data(0), sum, sent);
  return builder.Build();
}

// Every rank gets all inputs and adds them up in the order of ranks, or
// backwards.
Schedule SumInOrder(const PlanRequest& request, bool backwards) {
  const int size = request.layout.size();
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto sends = builder.AddLane();
  auto sums = builder.AddLane();
  StepRef sent;
  std::vector<Slot> inputs(size, Input(0));
  for (int rank = 0; rank < size; ++rank) {
    if (rank == request.rank) continue;
    sent = sends.Send(rank, /*tag=*/0, Input(0));
    inputs[rank] = Scratch(0, rank);
    sums.Recv(rank, /*tag=*/0, inputs[rank]);
  }
  if (backwards) std::reverse(inputs.begin(), inputs.end());
  Slot sum = inputs[0];
  for (int i = 1; i < size; ++i) {
    const Slot into = Scratch(0, size + i);
    sums.Reduce(into, sum, inputs[i]);
    sum = into;
  }
  sums.CopyAndFinish(Data(0), sum, sent);
  return builder.Build();
}

Schedule SumByTasks(const PlanRequest& request) {
  return SumInOrder(request, request.layout.num_tasks() > 1);
}

Schedule SumByEqualTasks(const PlanRequest& request) {
  const int num_tasks = request.layout.num_tasks();
  const int devices = request.layout.size() / num_tasks;
  return SumInOrder(request,
                    request.layout != GroupLayout::Uniform(num_tasks, devices));
}

// Everyone waits for the sum of the rank before, then sends theirs on.
Schedule WaitInACircle(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  if (size > 1) {
    lane.Recv((request.rank + size - 1) % size, /*tag=*/0, Scratch(0));
    lane.Reduce(Scratch(0, 1), Scratch(0), Input(0));
    lane.Send((request.rank + 1) % size, /*tag=*/0, Scratch(0, 1));
  }
  lane.CopyAndFinish(Data(0), size > 1 ? Scratch(0, 1) : Input(0));
  return builder.Build();
}

ImplementationTraits TraitsInRankOrder() {
  return {.summary = "for tests",
          .collectives = {CollectiveType::kAllReduce},
          .determinism = Determinism::kByRankOrder};
}

ImplementationTraits AllReduceTraits() {
  return {.summary = "for tests", .collectives = {CollectiveType::kAllReduce}};
}

REGISTER_COLLECTIVE(NeverEndsOnError,
                    Implemented<NeverEndsOnError>(AllReduceTraits()));
REGISTER_COLLECTIVE(HidesErrors, Implemented<HidesErrors>(AllReduceTraits()));
REGISTER_COLLECTIVE(WrongAtOneRank,
                    Implemented<WrongAtOneRank>(AllReduceTraits()));
REGISTER_COLLECTIVE(WritesBesideTheOutput,
                    Implemented<WritesBesideTheOutput>(AllReduceTraits()));
REGISTER_COLLECTIVE(WritesTheInput,
                    Implemented<WritesTheInput>(AllReduceTraits()));
REGISTER_COLLECTIVE(WritesAfterDone,
                    Implemented<WritesAfterDone>(AllReduceTraits()));
REGISTER_COLLECTIVE(KeepsTheOutput,
                    Implemented<KeepsTheOutput>(AllReduceTraits()));
REGISTER_COLLECTIVE(DependsOnArrival,
                    Implemented<DependsOnArrival>(AllReduceTraits()));
REGISTER_COLLECTIVE(DependsOnLayout, Scheduled({.traits = TraitsInRankOrder(),
                                                .plan = SumByTasks}));
REGISTER_COLLECTIVE(DependsOnUnequalTasks,
                    Scheduled({.traits = TraitsInRankOrder(),
                               .plan = SumByEqualTasks}));
REGISTER_COLLECTIVE(LeavesWithoutRankZero,
                    Implemented<LeavesWithoutRankZero>(
                        {.summary = "for tests",
                         .collectives = {CollectiveType::kBarrier}}));
REGISTER_COLLECTIVE(DiffersBetweenRanks, Scheduled({.traits = AllReduceTraits(),
                                                    .plan = SumFromOwnRankOn}));
REGISTER_COLLECTIVE(WaitsInACircle, Scheduled({.traits = AllReduceTraits(),
                                               .plan = WaitInACircle}));

}  // namespace
}  // namespace tutti
