// Collectives in which every member gives the rows that it has to know. The
// rows may differ between executions of an instance, which is settled once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
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
using testing::HasSubstr;
using testing::Optional;

constexpr int kNumDevices = 3;
constexpr int kRoot = 1;
constexpr int64_t kRowElements = 2;

// Numbers of rows, one for each rank. In all_to_all, SentRows() makes a matrix
// of them.
using Rows = std::vector<int64_t>;

int64_t SentRows(const Rows& rows, size_t from, size_t to) {
  return rows[(2 * from + to) % rows.size()];
}

struct Case {
  std::string implementation;
  CollectiveType type;
  int num_tasks;
};

class GivenRowsTest : public testing::TestWithParam<Case> {
 protected:
  static CollectiveOp OpOf(int device, const Rows& rows) {
    switch (GetParam().type) {
      case CollectiveType::kGather:
        return GatherToRoot{.root = kRoot, .uneven = true, .rows = rows};
      case CollectiveType::kReduceScatter:
        return ReduceScatter{.uneven = true, .rows = rows};
      case CollectiveType::kScatter:
        return ScatterFromRoot{.root = kRoot, .uneven = true, .rows = rows};
      case CollectiveType::kAllToAll: {
        AllToAll op;
        for (size_t peer = 0; peer < rows.size(); ++peer) {
          op.send_rows.push_back(SentRows(rows, device, peer));
          op.recv_rows.push_back(SentRows(rows, peer, device));
        }
        return op;
      }
      default:
        return AllGather{.uneven = true, .rows = rows};
    }
  }

  static int64_t InputRows(int device, const Rows& rows) {
    return InputIsOwnBlock(GetParam().type)
               ? rows[device]
               : std::accumulate(rows.begin(), rows.end(), int64_t{0});
  }

  CollectiveRequest RequestWith(int64_t own_rows, CollectiveOp op) const {
    CollectiveRequest request =
        job_.AllReduceRequest(/*num_elements=*/1, GetParam().implementation);
    request.op = std::move(op);
    request.shape = *TensorShape::Create({own_rows, kRowElements});
    return request;
  }
  CollectiveRequest Request(int device, const Rows& rows) const {
    return RequestWith(InputRows(device, rows), OpOf(device, rows));
  }

  LocalJob::Call& Start(int device, const Rows& rows) {
    return job_.Start(device, Request(device, rows));
  }

  std::vector<LocalJob::Call*> StartAll(const Rows& rows) {
    std::vector<LocalJob::Call*> calls;
    for (int device = 0; device < kNumDevices; ++device) {
      calls.push_back(&Start(device, rows));
    }
    return calls;
  }

  // Every element of a device's input is its number plus one.
  static std::vector<float> Expected(int device, const Rows& rows) {
    const CollectiveType type = GetParam().type;
    if (!HasOutput(type, device, kRoot)) return {};
    const auto own = static_cast<size_t>(rows[device] * kRowElements);
    if (Reduces(type)) return std::vector<float>(own, 1 + 2 + 3);
    if (OutputIsOwnBlock(type)) return std::vector<float>(own, kRoot + 1);
    std::vector<float> expected;
    for (int from = 0; from < kNumDevices; ++from) {
      const int64_t block =
          InputIsOwnBlock(type) ? rows[from] : SentRows(rows, from, device);
      expected.insert(expected.end(), block * kRowElements,
                      static_cast<float>(from + 1));
    }
    return expected;
  }

  static void ExpectResults(const std::vector<LocalJob::Call*>& calls,
                            const Rows& rows) {
    for (int device = 0; device < kNumDevices; ++device) {
      EXPECT_THAT(calls[device]->status, Optional(IsOk()));
      EXPECT_EQ(calls[device]->result(), Expected(device, rows));
    }
  }

  // Expects all members to fail if rank 1 passes other rows.
  void ExpectFailure(const Rows& rows, const Rows& of_rank_1, bool is_first) {
    LocalJob job({.num_tasks = GetParam().num_tasks,
                  .devices_per_task = kNumDevices / GetParam().num_tasks});
    const auto start = [&](int device, const Rows& given) -> LocalJob::Call& {
      return job.Start(device, Request(device, given));
    };
    if (!is_first) {
      for (int device = 0; device < kNumDevices; ++device) start(device, rows);
      job.environment().RunAll();
    }
    const std::vector<LocalJob::Call*> calls = {
        &start(0, rows), &start(1, of_rank_1), &start(2, rows)};
    job.environment().RunAll();
    ExpectFailures(calls,
                   StatusIs(StatusCode::kInvalidArgument,
                            AnyOf(HasSubstr("rows"), HasSubstr("bytes"))));
  }

  // Expects failures of a transfer between the ranks 1 and 2. With a root, rank
  // 0 has no part in it, and may have ended before.
  static void ExpectFailures(const std::vector<LocalJob::Call*>& calls,
                             const testing::Matcher<absl::Status>& matcher) {
    const std::vector<LocalJob::Call*> of_transfer = {calls[1], calls[2]};
    ExpectEnds(of_transfer, matcher);
    if (HasRoot(GetParam().type)) {
      EXPECT_THAT(EndOf(*calls[0]), AnyOf(IsOk(), matcher));
    } else {
      EXPECT_THAT(EndOf(*calls[0]), matcher);
    }
  }

  LocalJob job_{{.num_tasks = GetParam().num_tasks,
                 .devices_per_task = kNumDevices / GetParam().num_tasks}};
};

// All implementations that take rows of one execution.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const auto& [name, factory] : CollectiveRegistry::Global().List()) {
    const ImplementationTraits& traits = factory->traits();
    for (const CollectiveType type : traits.collectives) {
      const bool takes_rows = ExchangesBlocks(type) ? traits.supports_recv_rows
                                                    : traits.supports_uneven;
      if (!HasRankBlocks(type) || !takes_rows) continue;
      for (const int num_tasks : {1, kNumDevices}) {
        cases.push_back({name, type, num_tasks});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Implementations, GivenRowsTest,
                         testing::ValuesIn(AllCases()), [](const auto& info) {
                           return info.param.implementation + "_" +
                                  std::string(Name(info.param.type)) + "Of" +
                                  std::to_string(info.param.num_tasks);
                         });

TEST_P(GivenRowsTest, MayBeOthersInEachExecution) {
  for (const Rows& rows : std::vector<Rows>{
           {1, 2, 3}, {3, 0, 1}, {0, 0, 5}, {1, 2, 3}, {2, 2, 2}, {0, 0, 0}}) {
    const auto calls = StartAll(rows);
    job_.environment().RunAll();
    ExpectResults(calls, rows);
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
    ExpectResults(calls[i], of_execution[i]);
  }
}

TEST_P(GivenRowsTest, WhatIsPreparedKeepsItsRows) {
  const std::vector<Rows> of_prepared = {{1, 2, 3}, {4, 0, 1}};
  std::vector<std::vector<LocalJob::Call*>> calls(of_prepared.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const Rows& rows = of_prepared[i];
    for (int device = 0; device < kNumDevices; ++device) {
      calls[i].push_back(&job_.Prepare(device, Request(device, rows)));
    }
  }
  job_.environment().RunAll();
  for (const auto& prepared : calls) ExpectEnds(prepared, IsOk());
  for (const size_t i : {0, 1, 1, 0}) {
    for (LocalJob::Call* const call : calls[i]) {
      call->num_done = 0;
      call->prepared->Start(call->Done());
    }
    job_.environment().RunAll();
    ExpectEnds(calls[i], IsOk());
    ExpectResults(calls[i], of_prepared[i]);
  }
}

// Covers the first execution, which settles the instance, and a later one.
TEST_P(GivenRowsTest, MembersThatGiveOthersFailTogether) {
  for (const auto& [rows, of_one] :
       std::vector<std::pair<Rows, Rows>>{{{1, 2, 3}, {1, 2, 4}},
                                          {{1, 2, 3}, {1, 3, 2}},
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
      ExpectResults(calls, {3, 2, 1});
    }
    std::vector<LocalJob::Call*> calls = {&Start(0, rows), &Start(1, rows)};
    calls.push_back(&job_.Start(2, RequestWith(/*own_rows=*/2, OpOf(2, rows))));
    job_.environment().RunAll();
    ExpectFailures(calls, IsInvalidArgument("rows", "[2,2]"));
  }
}

TEST_P(GivenRowsTest, AGroupOfAnotherSizeFailsTheExecution) {
  StartAll({1, 2, 3});
  job_.environment().RunAll();
  CollectiveRequest request = Request(/*device=*/0, {1});
  request.group_size = 1;
  LocalJob::Call& wrong = job_.Start(0, request);
  job_.environment().RunAll();
  EXPECT_THAT(wrong.status, Optional(IsInvalidArgument("group size")));
}

CollectiveOp WithoutGivenRows(CollectiveOp op) {
  std::visit(
      [](auto& typed) {
        if constexpr (requires { typed.rows; }) typed.rows.clear();
        if constexpr (requires { typed.recv_rows; }) typed.recv_rows.clear();
      },
      op);
  return op;
}

TEST_P(GivenRowsTest, AllMembersGiveThemOrNone) {
  const Rows rows = {1, 2, 3};
  std::vector<LocalJob::Call*> calls = {&Start(0, rows), &Start(1, rows)};
  CollectiveRequest without = Request(/*device=*/2, rows);
  without.op = WithoutGivenRows(without.op);
  calls.push_back(&job_.Start(2, without));
  job_.environment().RunAll();
  ExpectEnds(calls, IsInvalidArgument(
                        "members differ in rows of one execution: ranks 0, 1 "
                        "have given; rank 2 has not given"));
}

// Rows that nobody gives are exchanged once, or balanced.
TEST_P(GivenRowsTest, WhatNobodyGivesIsSettledOnce) {
  const Rows rows = {3, 3, 2};  // Balanced.
  for (int execution = 0; execution < 2; ++execution) {
    std::vector<LocalJob::Call*> calls;
    for (int device = 0; device < kNumDevices; ++device) {
      CollectiveRequest request = Request(device, rows);
      request.op = WithoutGivenRows(request.op);
      calls.push_back(&job_.Start(device, request));
    }
    job_.environment().RunAll();
    ExpectResults(calls, rows);
  }
}

}  // namespace given_rows_test
}  // namespace tutti
