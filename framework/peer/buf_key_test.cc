#include <gtest/gtest.h>

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace buf_key_test {

constexpr ExecKey kExec = {
    .generation = 3, .step = 1, .group = 2, .instance = 4, .execution = 5};

TEST(BufKeyTest, IsWrittenWithAllItsParts) {
  EXPECT_EQ(ToString(kExec),
            "step 1, group 2 (generation 3), instance 4, execution 5");
  EXPECT_EQ(ToString(BufKey{.exec = kExec, .tag = 6, .from = 7, .to = 8}),
            "step 1, group 2 (generation 3), instance 4, execution 5, rank 7 "
            "to rank 8, tag 6");
}

TEST(BufKeyTest, KeysThatDifferInOnePartAreDifferentKeys) {
  const BufKey key{.exec = kExec, .tag = 6, .from = 7, .to = 8};
  std::vector<BufKey> keys(9, key);
  ++keys[1].exec.generation;
  ++keys[2].exec.step;
  ++keys[3].exec.group;
  ++keys[4].exec.instance;
  ++keys[5].exec.execution;
  ++keys[6].tag;
  ++keys[7].from;
  ++keys[8].to;
  absl::flat_hash_set<BufKey> distinct(keys.begin(), keys.end());
  EXPECT_EQ(distinct.size(), keys.size());
  distinct.insert(key);
  EXPECT_EQ(distinct.size(), keys.size());
}

}  // namespace buf_key_test
}  // namespace tutti
