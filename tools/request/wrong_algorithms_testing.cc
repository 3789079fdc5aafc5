#include "tools/request/wrong_algorithms_testing.h"

#include <utility>

#include "absl/status/status.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

Schedule KeepOwnInput(const PlanRequest&) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().CopyAndFinish(Data(0), Input(0));
  return builder.Build();
}

// Every rank receives from the next rank, and no rank sends.
Schedule Listen(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Recv((request.rank + 1) % request.layout.size(),
                         /*tag=*/0, Data(0));
  return builder.Build();
}

class Fickle : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveParams(
      const CollGroupParams&, CollInstanceParams* instance) override {
    if (instance->shape.num_elements() <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError("too much");
  }
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

class Refuser : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveParams(const CollGroupParams&,
                                          CollInstanceParams*) override {
    return absl::InvalidArgumentError("not today");
  }
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

class Lopsided : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(
      CollectiveContext* context) override {
    return context->rank() == 1 ? absl::InvalidArgumentError("not rank 1")
                                : absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

}  // namespace

std::shared_ptr<const CollectiveFactory> ForgetfulAllReduce() {
  return Scheduled({.traits = {.summary = "forgets the others",
                               .collectives = {CollectiveType::kAllReduce}},
                    .plan = KeepOwnInput});
}

std::shared_ptr<const CollectiveFactory> EndlessBroadcast() {
  return Scheduled({.traits = {.summary = "waits for ever",
                               .collectives = {CollectiveType::kBroadcast}},
                    .plan = Listen});
}

std::shared_ptr<const CollectiveFactory> RefusingAllReduce() {
  return Implemented<Refuser>(
      {.summary = "refuses", .collectives = {CollectiveType::kAllReduce}});
}

std::shared_ptr<const CollectiveFactory> FickleBroadcast() {
  return Implemented<Fickle>({.summary = "refuses what is large",
                              .collectives = {CollectiveType::kBroadcast}});
}

std::shared_ptr<const CollectiveFactory> LopsidedBroadcast() {
  return Implemented<Lopsided>({.summary = "refuses at one rank",
                                .collectives = {CollectiveType::kBroadcast}});
}

}  // namespace tutti
