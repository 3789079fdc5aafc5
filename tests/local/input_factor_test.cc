// Factors of members' inputs, for each way to pass buffers. The conformance
// tests have them in all algorithms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace input_factor_test {

using testing::Each;

constexpr int kNumDevices = 3;

// Inputs 1, 2 and 3 with the factors 2, -1 and none add up to this.
constexpr float kSum = 2 - 2 + 3;

int IndexOf(const CollectiveArgs& args) {
  return args.device->attributes().name.index;
}

void SetFactor(CollectiveArgs& args) {
  constexpr std::optional<double> kFactors[] = {2.0, -1.0, std::nullopt};
  args.input_factor = kFactors[IndexOf(args)];
}

Tensor Floats(int64_t num_elements, float value) {
  Tensor tensor =
      *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(num_elements));
  std::fill_n(reinterpret_cast<float*>(tensor.mutable_data()), num_elements,
              value);
  return tensor;
}

std::vector<float> ValuesOf(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  std::memcpy(values.data(), tensor.data(), tensor.size_bytes());
  return values;
}

// The algorithm, which takes segments or has them packed, and the number of
// elements, of which many are multiplied on the work queue.
class InputFactorTest
    : public testing::TestWithParam<std::tuple<std::string, int64_t>> {
 protected:
  const int64_t num_elements_ = std::get<1>(GetParam());
  LocalJob job_{{.devices_per_task = kNumDevices}};
  const CollectiveRequest request_ =
      job_.AllReduceRequest(num_elements_, std::get<0>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(Algorithms, InputFactorTest,
                         testing::Combine(testing::Values("LocalReduce",
                                                          "RingReduce"),
                                          testing::Values(0, 7, 100'000)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });

TEST_P(InputFactorTest, SegmentsAreMultipliedAndInputsApartStay) {
  // The first segment is in place.
  const int64_t cut = num_elements_ / 3;
  std::vector<SegmentList::Segment> segments = {
      {Floats(cut, 1), Tensor()},
      {Floats(num_elements_ - cut, 1), Floats(num_elements_ - cut, 0)}};
  segments[0].output = segments[0].input;
  const auto calls = job_.RunAll(request_, [&](CollectiveArgs& args) {
    SetFactor(args);
    if (IndexOf(args) != 0) return;
    args.segments = *SegmentList::Create(segments);
    args.input = Tensor();
    args.output = nullptr;
  });
  ExpectEnds(calls, IsOk());
  EXPECT_THAT(calls[1]->result(), Each(kSum));
  EXPECT_THAT(ValuesOf(segments[0].output), Each(kSum));
  EXPECT_THAT(ValuesOf(segments[1].output), Each(kSum));
  EXPECT_THAT(ValuesOf(segments[1].input), Each(1));
}

TEST_P(InputFactorTest, EachStartMultipliesOnce) {
  const Tensor input = Floats(num_elements_, 1);
  const Tensor output = Floats(num_elements_, 0);
  const auto segments = *SegmentList::Create({{input, output}});
  for (const bool has_segments : {false, true}) {
    CollectiveRequest request = request_;
    request.instance_key = has_segments ? 2 : 1;
    const auto calls = job_.PrepareAll(request, [&](CollectiveArgs& args) {
      SetFactor(args);
      if (!has_segments || IndexOf(args) != 0) return;
      args.segments = segments;
      args.input = Tensor();
      args.output = nullptr;
    });
    ExpectEnds(calls, IsOk());
    for (const bool is_limited : {false, true, false}) {
      for (LocalJob::Call* call : calls) {
        call->num_done = 0;
        if (is_limited) {
          call->prepared->Start(
              {.cancellation = std::make_shared<Cancellation>()}, call->Done());
        } else {
          call->prepared->Start(call->Done());
        }
      }
      job_.environment().RunAll();
      ExpectEnds(calls, IsOk());
      EXPECT_THAT(
          ValuesOf(has_segments ? output : calls[0]->prepared->output()),
          Each(kSum));
      EXPECT_THAT(ValuesOf(calls[2]->prepared->output()), Each(kSum));
      EXPECT_THAT(calls[1]->input, Each(2));
    }
  }
}

TEST_P(InputFactorTest, OutputsAreNotShared) {
  if (num_elements_ == 0) return;
  const auto calls = job_.RunAll(request_, [](CollectiveArgs& args) {
    SetFactor(args);
    args.allow_shared_output = true;
  });
  ExpectEnds(calls, IsOk());
  for (const LocalJob::Call* call : calls) {
    EXPECT_THAT(call->result(), Each(kSum));
  }
  EXPECT_NE(calls[0]->output.data(), calls[1]->output.data());
}

TEST(InputFactorRefusalTest, OtherDTypesAndCollectivesEndTheExecution) {
  for (const bool is_prepared : {false, true}) {
    LocalJob job({.devices_per_task = 2});
    const auto run = [&](const CollectiveRequest& request) {
      const auto change = [](CollectiveArgs& args) {
        if (IndexOf(args) != 0) return;
        args.input_factor = 2;
      };
      return is_prepared ? job.PrepareAll(request, change)
                         : job.RunAll(request, change);
    };
    for (const DType dtype : {DType::kInt32, DType::kBool}) {
      CollectiveRequest request = job.AllReduceRequest(6);
      request.instance_key = static_cast<InstanceKey>(dtype);
      request.dtype = dtype;
      request.merge_op = ReductionKind::kMax;
      const auto change = [&](CollectiveArgs& args) {
        args.input = *Tensor::Allocate(dtype, request.shape);
        if (IndexOf(args) == 0) args.input_factor = 2;
      };
      const auto calls = is_prepared ? job.PrepareAll(request, change)
                                     : job.RunAll(request, change);
      EXPECT_THAT(EndOf(*calls[0]),
                  IsInvalidArgument("all_reduce max of", Name(dtype), "CPU:0",
                                    "no input factor"));
    }
    CollectiveRequest gather = job.AllReduceRequest(6);
    gather.instance_key = 100;
    gather.op = AllGather();
    EXPECT_THAT(EndOf(*run(gather)[0]),
                IsInvalidArgument("all_gather", "CPU:0", "no input factor"));
  }
}

}  // namespace input_factor_test
}  // namespace tutti
