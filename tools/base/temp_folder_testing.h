#ifndef TUTTI_TOOLS_BASE_TEMP_FOLDER_TESTING_H_
#define TUTTI_TOOLS_BASE_TEMP_FOLDER_TESTING_H_

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tutti {

// Gives each test an empty folder, and removes it afterwards.
class TempFolderTest : public testing::Test {
 protected:
  TempFolderTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~TempFolderTest() override { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ / name; }

  // Makes missing directories, too. Returns the file's path.
  std::string Write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
    return Path(name);
  }

  static std::string Content(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

// Simulates a full disk: the kernel refuses to let any file grow beyond a
// limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes)
      : old_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_TEMP_FOLDER_TESTING_H_
