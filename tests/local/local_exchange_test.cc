// An empty tensor may have the address of another member's tensor: the member
// with the empty tensor does not run in place.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace local_exchange_test {

constexpr int64_t kRows = 4;

// Member 0 or 1 sends all its rows to the other member, which sends nothing.
class OneWayTest : public testing::TestWithParam<int> {
 protected:
  void Call(int device, std::vector<int64_t> send_rows, Tensor input,
            Tensor* output) {
    CollectiveRequest request =
        job_.AllReduceRequest(input.num_elements(), "LocalAllToAll");
    request.op = AllToAll{.send_rows = std::move(send_rows)};
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[static_cast<size_t>(device)],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = std::move(input),
         .output = output},
        [this](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          ++num_done_;
        });
  }

  LocalJob job_{{.devices_per_task = 2}};
  int num_done_ = 0;
};

TEST_P(OneWayTest, EmptyInputAtTheAddressOfTheOutputIsNotInPlace) {
  const int sender = GetParam();
  const int receiver = 1 - sender;
  const TensorShape shape = TensorShape::Vector(kRows);
  float values[] = {1, 2, 3, 4};
  Tensor sent = *Tensor::Wrap(DType::kFloat32, shape, values);
  Tensor received = *Tensor::Allocate(DType::kFloat32, shape);
  Tensor nothing = *sent.Slice(0, 0);
  std::vector<int64_t> send_rows(2, 0);
  send_rows[static_cast<size_t>(receiver)] = kRows;
  Call(sender, send_rows, sent, &nothing);
  Call(receiver, {0, 0}, *received.Slice(0, 0), &received);
  job_.environment().RunAll();
  EXPECT_EQ(num_done_, 2);
  const auto* const results = reinterpret_cast<const float*>(received.data());
  EXPECT_EQ(std::vector<float>(results, results + kRows),
            (std::vector<float>{1, 2, 3, 4}));
}

INSTANTIATE_TEST_SUITE_P(Sender, OneWayTest, testing::Values(0, 1));

}  // namespace local_exchange_test
}  // namespace tutti
