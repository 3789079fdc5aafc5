// Groups far larger than the number of threads: a process with many members,
// and the largest possible group.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace {

constexpr int kWorkers = 2;

// Element of a rank's input at an index; sums of 65,536 fit.
int64_t Element(int rank, int64_t index) { return rank + 3 * index; }

// Request whose inputs have `num_elements` elements.
CollectiveRequest Request(CollectiveOp op, const char* implementation,
                          int group_size, int64_t num_elements) {
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = group_size;
  request.instance_key = 1;
  request.op = std::move(op);
  request.dtype = DType::kInt64;
  request.shape = TensorShape::Vector(num_elements);
  request.impl_details.implementation = implementation;
  return request;
}

// All members of a group and their outputs.
class Job {
 public:
  Job(int num_tasks, int devices_per_task)
      : group_(*LocalGroup::Create(environment_.get(), num_tasks,
                                   devices_per_task)) {}

  int size() const { return static_cast<int>(group_->devices().size()); }

  // Runs twice; the second run resolves nothing. In a broadcast the last rank
  // is the source.
  void Run(const CollectiveRequest& request) {
    const auto shared = std::make_shared<const CollectiveRequest>(request);
    auto source = std::make_shared<CollectiveRequest>(request);
    if (std::holds_alternative<Broadcast>(source->op)) {
      source->op = Broadcast{.is_source = true};
    }
    for (int round = 0; round < 2; ++round) {
      outputs_.assign(size(), Tensor());
      std::vector<CollectiveArgs> calls(size());
      for (int rank = 0; rank < size(); ++rank) {
        const bool is_last = rank + 1 == size();
        calls[rank].request = is_last ? source : shared;
        calls[rank].input = Input(rank, request);
        calls[rank].output = &outputs_[rank];
      }
      ASSERT_THAT(group_->Run(/*step_id=*/1, absl::MakeSpan(calls)), IsOk());
    }
  }

  int64_t output(int rank, int64_t index) const {
    int64_t value;
    std::memcpy(&value, outputs_[rank].data() + index * sizeof(value),
                sizeof(value));
    return value;
  }

 private:
  static Tensor Input(int rank, const CollectiveRequest& request) {
    Tensor input = *Tensor::Allocate(request.dtype, request.shape);
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const int64_t value = Element(rank, i);
      std::memcpy(input.mutable_data() + i * sizeof(value), &value,
                  sizeof(value));
    }
    return input;
  }

  DefaultEnvironment environment_{kWorkers};
  std::unique_ptr<LocalGroup> group_;
  std::vector<Tensor> outputs_;
};

int64_t SumOfRanks(int64_t size) { return size * (size - 1) / 2; }

struct Layout {
  int tasks;
  int devices;
  int num_elements;
  std::vector<const char*> reductions = {};
};

// On two threads.
class ManyDevicesTest : public testing::TestWithParam<Layout> {
 protected:
  const int num_elements_ = GetParam().num_elements;
  Job job_{GetParam().tasks, GetParam().devices};
};

TEST_P(ManyDevicesTest, AllReduceGivesEveryoneTheSum) {
  InstanceKey key = 0;
  for (const char* implementation : GetParam().reductions) {
    CollectiveRequest request =
        Request(AllReduce(), implementation, job_.size(), num_elements_);
    request.instance_key = ++key;
    job_.Run(request);
    for (int rank = 0; rank < job_.size(); ++rank) {
      for (int i = 0; i < num_elements_; ++i) {
        ASSERT_EQ(job_.output(rank, i),
                  SumOfRanks(job_.size()) + 3 * i * job_.size());
      }
    }
  }
}

TEST_P(ManyDevicesTest, BroadcastGivesEveryoneTheSourcesInput) {
  job_.Run(Request(Broadcast(), "HierarchicalTreeBroadcast", job_.size(),
                   num_elements_));
  for (int rank = 0; rank < job_.size(); ++rank) {
    for (int i = 0; i < num_elements_; ++i) {
      ASSERT_EQ(job_.output(rank, i), Element(job_.size() - 1, i));
    }
  }
}

TEST_P(ManyDevicesTest, BarrierEnds) {
  job_.Run(Request(Barrier(), "Barrier", job_.size(), 0));
}

class ManyDevicesGatherTest : public ManyDevicesTest {};

TEST_P(ManyDevicesGatherTest, AllGatherGivesEveryoneAll) {
  job_.Run(Request(AllGather(), "RingGather", job_.size(), num_elements_));
  for (int rank = 0; rank < job_.size(); ++rank) {
    for (int i = 0; i < num_elements_ * job_.size(); ++i) {
      ASSERT_EQ(job_.output(rank, i),
                Element(i / num_elements_, i % num_elements_));
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Layout>& info) {
  return std::to_string(info.param.tasks) + "x" +
         std::to_string(info.param.devices);
}

const std::vector<const char*> kReductions = {"LocalReduce", "RingReduce",
                                              "TreeReduce"};
INSTANTIATE_TEST_SUITE_P(Many, ManyDevicesTest,
                         testing::Values(Layout{1, 256, 1000, kReductions},
                                         Layout{16, 16, 1000, kReductions}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Many, ManyDevicesGatherTest,
                         testing::Values(Layout{1, 256, 3}, Layout{16, 16, 3}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    Largest, ManyDevicesTest,
    testing::Values(Layout{
        kMaxGroupSize / 256, 256, 1, {"LocalReduce", "TreeReduce"}}),
    NameOf);

}  // namespace
}  // namespace tutti
