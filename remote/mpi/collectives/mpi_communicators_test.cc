#include "remote/mpi/collectives/mpi_communicators.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/mpi/messages/mpi_note.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace mpi_communicators_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Without MPI no communicator is made.
TEST(MpiCommunicatorsTest, AGroupThatHasNoneEndsAtOnce) {
  std::vector<MpiNote::Kind> sent;
  std::vector<ExecKey> freed;
  MpiCommunicators communicators(
      {.send = [&](int /*task*/,
                   const MpiNote& note) { sent.push_back(note.kind); },
       .on_free = [&](const ExecKey& key) { freed.push_back(key); }});
  const ExecKey key{.generation = 1, .group = 2};
  communicators.Release(key);
  EXPECT_THAT(freed, ElementsAre(key));
  EXPECT_THAT(sent, IsEmpty());
}

}  // namespace mpi_communicators_test
}  // namespace tutti
