// Uneven gathers in which every member knows all rows. The rows may differ
// between executions of an instance, which is settled once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace given_rows_test {

using absl::StatusCode;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Optional;

using Rows = std::vector<int64_t>;

constexpr int kNumDevices = 3;

struct Case {
  std::string implementation;
  int num_tasks;
};

class GivenRowsTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kRowElements = 2;

  CollectiveRequest Request(int64_t own_rows, Rows rows) const {
    CollectiveRequest request =
        job_.AllReduceRequest(/*num_elements=*/1, GetParam().implementation);
    request.op = AllGather{.uneven = true, .rows = std::move(rows)};
    request.shape = *TensorShape::Create({own_rows, kRowElements});
    return request;
  }

  // Value of each element of this device's input.
  static float ValueOf(int device) { return static_cast<float>(device + 1); }

  LocalJob::Call& Start(int device, const Rows& rows) {
    return job_.Start(device, Request(rows[device], rows));
  }

  std::vector<LocalJob::Call*> StartAll(const Rows& rows) {
    std::vector<LocalJob::Call*> calls;
    for (int device = 0; device < kNumDevices; ++device) {
      calls.push_back(&Start(device, rows));
    }
    return calls;
  }

  static std::vector<float> Expected(const Rows& rows) {
    std::vector<float> expected;
    for (int device = 0; device < kNumDevices; ++device) {
      expected.insert(expected.end(), rows[device] * kRowElements,
                      ValueOf(device));
    }
    return expected;
  }

  static void ExpectGathered(const std::vector<LocalJob::Call*>& calls,
                             const Rows& rows) {
    for (const LocalJob::Call* call : calls) {
      EXPECT_THAT(call->status, Optional(IsOk()));
      EXPECT_EQ(call->result(), Expected(rows));
    }
  }

  // Expects all members to fail if rank 1 passes other rows.
  void ExpectFailure(const Rows& rows, const Rows& of_rank_1, bool is_first) {
    LocalJob job({.num_tasks = GetParam().num_tasks,
                  .devices_per_task = kNumDevices / GetParam().num_tasks});
    const auto start = [&](int device, const Rows& given) -> LocalJob::Call& {
      return job.Start(device, Request(given[device], given));
    };
    if (!is_first) {
      for (int device = 0; device < kNumDevices; ++device) start(device, rows);
      job.environment().RunAll();
    }
    const std::vector<LocalJob::Call*> calls = {
        &start(0, rows), &start(1, of_rank_1), &start(2, rows)};
    job.environment().RunAll();
    ExpectEnds(calls, StatusIs(StatusCode::kInvalidArgument,
                               AnyOf(HasSubstr("rows"), HasSubstr("bytes"))));
  }

  LocalJob job_{{.num_tasks = GetParam().num_tasks,
                 .devices_per_task = kNumDevices / GetParam().num_tasks}};
};

// All implementations that can gather unevenly.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const auto& [name, factory] : CollectiveRegistry::Global().List()) {
    const ImplementationTraits& traits = factory->traits();
    const bool gathers =
        std::count(traits.collectives.begin(), traits.collectives.end(),
                   CollectiveType::kAllGather) > 0;
    if (!gathers || !traits.supports_uneven) continue;
    for (const int num_tasks : {1, kNumDevices}) {
      cases.push_back({name, num_tasks});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Implementations, GivenRowsTest,
                         testing::ValuesIn(AllCases()), [](const auto& info) {
                           return info.param.implementation + "Of" +
                                  std::to_string(info.param.num_tasks);
                         });

TEST_P(GivenRowsTest, MayBeOthersInEachExecution) {
  for (const Rows& rows : std::vector<Rows>{
           {1, 2, 3}, {3, 0, 1}, {0, 0, 5}, {1, 2, 3}, {2, 2, 2}, {0, 0, 0}}) {
    const auto calls = StartAll(rows);
    job_.environment().RunAll();
    ExpectGathered(calls, rows);
  }
}

TEST_P(GivenRowsTest, ExecutionsOfDifferentRowsOverlap) {
  const std::vector<Rows> of_execution = {{1, 2, 3}, {4, 0, 1}, {0, 7, 0}};
  std::vector<std::vector<LocalJob::Call*>> calls(of_execution.size());
  for (int device = 0; device < kNumDevices; ++device) {
    for (size_t i = 0; i < of_execution.size(); ++i) {
      calls[i].push_back(&Start(device, of_execution[i]));
    }
  }
  job_.environment().RunAll();
  for (size_t i = 0; i < of_execution.size(); ++i) {
    ExpectGathered(calls[i], of_execution[i]);
  }
}

TEST_P(GivenRowsTest, WhatIsPreparedKeepsItsRows) {
  const std::vector<Rows> of_prepared = {{1, 2, 3}, {4, 0, 1}};
  std::vector<Tensor> outputs(of_prepared.size() * kNumDevices);
  std::vector<std::shared_ptr<PreparedCollective>> prepared(outputs.size());
  for (size_t i = 0; i < of_prepared.size(); ++i) {
    for (int device = 0; device < kNumDevices; ++device) {
      const Rows& rows = of_prepared[i];
      const size_t index = i * kNumDevices + device;
      Tensor input = *Tensor::Allocate(
          DType::kFloat32, *TensorShape::Create({rows[device], kRowElements}));
      std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                  input.num_elements(), ValueOf(device));
      job_.executor().Prepare(
          {.device = job_.devices()[device],
           .request = std::make_shared<const CollectiveRequest>(
               Request(rows[device], rows)),
           .input = input,
           .output = &outputs[index]},
          [&own = prepared[index]](auto made) {
            ASSERT_THAT(made, IsOk());
            own = *std::move(made);
          });
    }
  }
  job_.environment().RunAll();
  for (const size_t i : {0, 1, 1, 0}) {
    std::vector<absl::Status> ends;
    for (int device = 0; device < kNumDevices; ++device) {
      const size_t index = i * kNumDevices + device;
      prepared[index]->Start(
          [&ends](absl::Status status) { ends.push_back(std::move(status)); });
    }
    job_.environment().RunAll();
    ASSERT_EQ(ends.size(), size_t{kNumDevices});
    EXPECT_THAT(ends, Each(IsOk()));
    for (int device = 0; device < kNumDevices; ++device) {
      const Tensor& output = outputs[i * kNumDevices + device];
      const auto* const begin = reinterpret_cast<const float*>(output.data());
      EXPECT_EQ(std::vector<float>(begin, begin + output.num_elements()),
                Expected(of_prepared[i]));
    }
  }
}

// Covers the first execution, which settles the instance, and a later one.
TEST_P(GivenRowsTest, MembersThatGiveOthersFailTogether) {
  for (const auto& [rows, of_one] :
       std::vector<std::pair<Rows, Rows>>{{{1, 2, 3}, {1, 2, 4}},
                                          {{1, 2, 3}, {1, 2, 0}},
                                          {{1, 2, 0}, {1, 2, 3}},
                                          {{0, 0, 3}, {0, 0, 0}}}) {
    for (const bool is_first : {true, false}) {
      ExpectFailure(rows, of_one, is_first);
    }
  }
}

TEST_P(GivenRowsTest, RowsThatDoNotSuitTheShapeFailTheExecution) {
  const Rows rows = {1, 2, 3};
  for (const bool is_first : {true, false}) {
    if (!is_first) {
      const auto calls = StartAll({3, 2, 1});
      job_.environment().RunAll();
      ExpectGathered(calls, {3, 2, 1});
    }
    std::vector<LocalJob::Call*> calls = {&Start(0, rows), &Start(1, rows)};
    calls.push_back(&job_.Start(2, Request(/*own_rows=*/2, rows)));
    job_.environment().RunAll();
    ExpectEnds(calls,
               IsInvalidArgument("rank 2 has 3 rows", "its shape is [2,2]"));
  }
}

TEST_P(GivenRowsTest, AGroupOfAnotherSizeFailsTheExecution) {
  StartAll({1, 2, 3});
  job_.environment().RunAll();
  CollectiveRequest request = Request(/*own_rows=*/1, {1});
  request.group_size = 1;
  LocalJob::Call& wrong = job_.Start(0, request);
  job_.environment().RunAll();
  EXPECT_THAT(wrong.status, Optional(IsInvalidArgument("group size")));
}

TEST_P(GivenRowsTest, AllMembersGiveThemOrNone) {
  const Rows rows = {1, 2, 3};
  std::vector<LocalJob::Call*> calls = {&Start(0, rows), &Start(1, rows)};
  calls.push_back(&job_.Start(2, Request(/*own_rows=*/3, {})));
  job_.environment().RunAll();
  ExpectEnds(calls, IsInvalidArgument(
                        "members differ in AllGather::rows: ranks 0, 1 have "
                        "given; rank 2 has not given"));
}

}  // namespace given_rows_test
}  // namespace tutti
