// Tests of gathers between processes of an MPI job in which members pass the
// rows of all. Part of the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// Gathers of one instance; each execution passes the rows of all members.
class MpiGivenRowsTest : public MpiCollectivesTest {
 protected:
  void Begin(const char* implementation) {
    request_ =
        RequestOf(implementation, AllGather{}, DType::kInt32, TensorShape());
  }

  void Start(Call& call, const std::vector<int64_t>& rows) {
    request_.op = AllGather{.uneven = true, .rows = rows};
    request_.shape = *TensorShape::Create({rows[rank()], 11});
    call.request = request_;
    call.input = Filled(DType::kInt32, request_.shape, rank());
    MpiCollectivesTest::Start(call);
  }

  void RunAndCheck(const std::vector<int64_t>& rows) {
    std::vector<int> wanted;
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < rows[r] * 11; ++i) wanted.push_back(Value(r, i));
    }
    Call call;
    Start(call, rows);
    ASSERT_THAT(call.Wait(), IsOk());
    ASSERT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
    Check(call.output, [&](int64_t i) { return wanted[i]; });
  }

  // Runs a gather in which the last rank has 2 rows, while the others expect
  // `of_last` rows from it.
  absl::Status RunWithOthersFor(int64_t of_last) {
    std::vector<int64_t> rows(size(), 1);
    rows.back() = rank() == size() - 1 ? 2 : of_last;
    Call call;
    Start(call, rows);
    return call.Wait();
  }

 private:
  CollectiveRequest request_;
};

TEST_F(MpiGivenRowsTest, MayChangeWithEachExecutionByMpiAndByMessages) {
  for (const char* implementation : {"MpiGather", "RingGather"}) {
    Begin(implementation);
    for (int execution = 0; execution < 5; ++execution) {
      std::vector<int64_t> rows;
      for (int r = 0; r < size(); ++r) {
        rows.push_back((r + execution) % 3 + execution / 4);
      }
      RunAndCheck(rows);
    }
  }
}

// Covers the case that a rank expects no rows, while another rank sends some.
TEST_F(MpiGivenRowsTest, WhereTheyDifferItEndsAndTheNextOneRuns) {
  if (size() == 1) return;
  for (const auto& [implementation, text] :
       {std::pair{"MpiGather", "gives other rows than rank 0"},
        {"RingGather", "bytes"}}) {
    Begin(implementation);
    for (const int64_t of_last : {3, 0}) {
      EXPECT_THAT(RunWithOthersFor(of_last),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))
          << implementation << " " << of_last;
    }
    EXPECT_THAT(RunWithOthersFor(2), IsOk());
  }
}

}  // namespace
}  // namespace tutti
