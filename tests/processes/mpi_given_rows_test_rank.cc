// The tests of gathers among processes of an MPI job whose members give the
// rows of all, of the same program as mpi_collectives_test_rank.cc.

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

// Of one instance, with the rows of all given in each execution.
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

  // The last rank says that it has 2 rows, the others that it has `of_last`.
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

// Also where one says that there is nothing to send, the other that there is.
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
