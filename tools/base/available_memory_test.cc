#include "tools/base/available_memory.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include "gtest/gtest.h"

namespace tutti {
namespace available_memory_test {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest()
      : root_(fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
  }
  ~AvailableMemoryTest() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }

  void WriteMemInfo() {
    Write("proc/meminfo",
          "MemTotal:       16000 kB\nMemFree:          100 kB\n"
          "MemAvailable:    8000 kB\n");
  }

  int64_t Available() const { return AvailableMemory(root_); }

  const fs::path root_;
};

TEST_F(AvailableMemoryTest, IsWhatTheKernelSays) {
  WriteMemInfo();
  EXPECT_EQ(Available(), 8000 * 1024);
}

TEST_F(AvailableMemoryTest, NothingToReadIsNoLimit) {
  EXPECT_EQ(Available(), kUnlimited);
  Write("proc/meminfo", "MemAvailable: much kB\n");
  Write("proc/self/cgroup", "nonsense\n0:\n");
  EXPECT_EQ(Available(), kUnlimited);
}

TEST_F(AvailableMemoryTest, AControlGroupMayAllowLess) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/user/me\n");
  Write("sys/fs/cgroup/user/me/memory.max", "max\n");
  EXPECT_EQ(Available(), 8000 * 1024);
  Write("sys/fs/cgroup/user/me/memory.max", "5000\n");
  EXPECT_EQ(Available(), 5000);
  Write("sys/fs/cgroup/user/memory.max", "4000\n");
  EXPECT_EQ(Available(), 4000) << "the group above counts too";
}

TEST_F(AvailableMemoryTest, InAContainerTheMountIsTheGroup) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/on/the/host\n");
  Write("sys/fs/cgroup/memory.max", "3000\n");
  EXPECT_EQ(Available(), 3000);
}

TEST_F(AvailableMemoryTest, ControlGroupsOfVersionOneCount) {
  WriteMemInfo();
  Write("proc/self/cgroup", "5:cpu:/me\n4:hugetlb,memory:/me\n");
  Write("sys/fs/cgroup/memory/me/memory.limit_in_bytes", "2000\n");
  EXPECT_EQ(Available(), 2000);
  Write("sys/fs/cgroup/memory/me/memory.limit_in_bytes",
        "9223372036854771712\n");
  EXPECT_EQ(Available(), 8000 * 1024);
}

TEST_F(AvailableMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(AvailableMemory(), 0);
  EXPECT_LT(AvailableMemory(), kUnlimited);
}

}  // namespace available_memory_test
}  // namespace tutti
