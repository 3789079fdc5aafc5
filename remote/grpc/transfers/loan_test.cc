#include "remote/grpc/transfers/loan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "remote/grpc/connection/in_flight.h"
#include "remote/peer_memory.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace loan_test {

// Reads the lease when its bytes are released.
class LookingSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {
    lease_then = *lease;
  }

  const uint64_t* lease = nullptr;
  uint64_t lease_then = ~uint64_t{0};
};

TEST(LoanTest, ALeaseHoldsUntilJustBeforeTheLenderIsTold) {
  SimulatedEnvironment simulated(/*seed=*/1);
  InFlight in_flight;
  LookingSender sender;
  auto loan = std::make_shared<Loan>(Delivery{.sender = &sender},
                                     simulated.get().queue, &in_flight);
  const MemoryPlace place = loan->Lease(*simulated.get().random);
  EXPECT_NE(place.lease, 0);
  std::memcpy(&sender.lease, &place.lease_address, sizeof(sender.lease));
  loan.reset();
  EXPECT_EQ(*sender.lease, place.lease);
  simulated.RunAll();
  EXPECT_EQ(sender.lease_then, 0);
  in_flight.Wait();
}

}  // namespace loan_test
}  // namespace tutti
