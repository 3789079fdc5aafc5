#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

namespace tutti {
namespace {

int constructions = 0;
int functions_run = 0;
bool tell_of_end = false;

struct Object {
  Object() { ++constructions; }
  ~Object() {
    if (tell_of_end) std::fputs("destroyed\n", stderr);
  }
} object;

// Gets what main gets.
[[gnu::constructor]] void Construct(int argc, char** argv, char**) {
  if (argv[argc] == nullptr) ++functions_run;
}

TEST(OlderLibcTest, ConstructorsRunOnce) {
  EXPECT_EQ(constructions, 1);
  EXPECT_EQ(functions_run, 1);
}

TEST(OlderLibcTest, DestructorsRunOnce) {
  EXPECT_EXIT(
      {
        tell_of_end = true;
        std::exit(3);
      },
      testing::ExitedWithCode(3), "^destroyed\n$");
}

TEST(OlderLibcTest, StatTellsWhatThereIs) {
  const std::string link = testing::TempDir() + "/link";
  unlink(link.c_str());
  ASSERT_EQ(symlink("/dev/null", link.c_str()), 0);
  struct stat found = {};
  ASSERT_EQ(stat(link.c_str(), &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  ASSERT_EQ(lstat(link.c_str(), &found), 0);
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  EXPECT_EQ(found.st_size, std::string("/dev/null").size());

  const int file = open("/dev/null", O_RDONLY);
  struct stat64 opened = {};
  ASSERT_EQ(fstat64(file, &opened), 0);
  EXPECT_TRUE(S_ISCHR(opened.st_mode));
  close(file);
}

TEST(OlderLibcTest, StatTellsWhyItFails) {
  struct stat found;
  EXPECT_EQ(stat("/there/is/none", &found), -1);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(lstat("/there/is/none", &found), -1);
  EXPECT_EQ(errno, ENOENT);
  struct stat64 opened;
  EXPECT_EQ(fstat64(-1, &opened), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(OlderLibcTest, RandomNumbersDiffer) {
  std::set<uint32_t> numbers;
  for (int i = 0; i < 100; ++i) numbers.insert(arc4random());
  EXPECT_GT(numbers.size(), 90);
}

TEST(OlderLibcTest, OldVersionsAreCalled) {
  int result = 0;
  std::thread([&] { result = 7; }).join();
  EXPECT_EQ(result, 7);
  EXPECT_NE(dlsym(RTLD_DEFAULT, "getpid"), nullptr);
  volatile double eight = 8;
  EXPECT_EQ(std::log2(eight), 3);
}

}  // namespace
}  // namespace tutti
