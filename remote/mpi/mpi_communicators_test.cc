#include "remote/mpi/mpi_communicators.h"

#include <vector>

#include "framework/buf_key.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/mpi/mpi_note.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Without MPI none is made.
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

}  // namespace
}  // namespace tutti
