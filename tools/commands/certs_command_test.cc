#include "tools/commands/certs_command.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace certs_command_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CertsCommandTest : public ::testing::Test {
 protected:
  CertsCommandTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directory(root_);
  }

  absl::Status Make(const CertsOptions& options) {
    return MakeCerts(options, {out_, err_});
  }

  // Whether openssl accepts the certificate for the name in `check`.
  bool IsGood(const std::string& certificate, const std::string& check) const {
    return Succeeds(
        absl::StrCat("openssl verify -x509_strict -purpose "
                     "sslserver -CAfile ",
                     certs_, "/ca.pem ", check, " ", certs_, "/", certificate));
  }

  static bool Succeeds(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }

  static std::set<std::string> NamesIn(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static int ModeOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return static_cast<int>(status.st_mode & 0777U);
  }

  const std::string root_ = ::testing::TempDir() + "/certs_test";
  const std::string certs_ = root_ + "/certs";
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CertsCommandTest, EachTaskHasACertificateOfTheAuthority) {
  ASSERT_THAT(Make({.tasks = 2, .out = certs_ + "/"}), IsOk());
  EXPECT_THAT(NamesIn(certs_),
              ElementsAre("ca.key", "ca.pem", "task-0.key", "task-0.pem",
                          "task-1.key", "task-1.pem"));
  EXPECT_THAT(NamesIn(root_), ElementsAre("certs"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname task-0"));
  EXPECT_TRUE(IsGood("task-1.pem", "-verify_hostname task-1"));
  EXPECT_FALSE(IsGood("task-1.pem", "-verify_hostname task-0"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname localhost"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_ip 127.0.0.1"));
  EXPECT_TRUE(IsGood("task-0.pem", "-purpose sslclient"));
  EXPECT_TRUE(Succeeds(absl::StrCat("openssl x509 -noout -subject -in ", certs_,
                                    "/task-1.pem | grep -q 'CN = task-1$'")));
  EXPECT_THAT(out_.str(), HasSubstr("certs/ca.pem, and task-0.pem to task-1"));
}

TEST_F(CertsCommandTest, KeysBelongToTheirCertificates) {
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  EXPECT_TRUE(Succeeds(
      absl::StrCat("test \"$(openssl pkey -pubout -in ", certs_,
                   "/task-0.key)\" = \"$(openssl x509 -pubkey -noout -in ",
                   certs_, "/task-0.pem)\"")));
}

TEST_F(CertsCommandTest, OnlyTheOwnerCanReadTheKeys) {
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  EXPECT_EQ(ModeOf(certs_), 0700);
  EXPECT_EQ(ModeOf(certs_ + "/ca.key"), 0600);
  EXPECT_EQ(ModeOf(certs_ + "/task-0.key"), 0600);
}

TEST_F(CertsCommandTest, HostsAreNamesOfAllTasks) {
  ASSERT_THAT(Make({.tasks = 1,
                    .out = certs_,
                    .hosts = {"h1.x", "10.0.0.7", "fe80::1"}}),
              IsOk());
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname h1.x"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_ip 10.0.0.7"));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_ip fe80::1"));
  EXPECT_FALSE(IsGood("task-0.pem", "-verify_hostname h2.x"));
}

TEST_F(CertsCommandTest, WhatIsNoHostIsQuoted) {
  for (const std::string host :
       {"a b", "a\nCN = x", "a/b", "[::1]", "1:2", "DNS:x"}) {
    const absl::Status status =
        Make({.tasks = 1, .out = certs_, .hosts = {host}});
    EXPECT_EQ(ExitStatus(status), 2);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("\"" + host + "\" is neither the name"));
  }
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(CertsCommandTest, AnEmptyDirectoryIsFilled) {
  std::filesystem::create_directory(certs_);
  chmod(certs_.c_str(), 0755);
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  EXPECT_THAT(NamesIn(certs_),
              ElementsAre("ca.key", "ca.pem", "task-0.key", "task-0.pem"));
  EXPECT_EQ(ModeOf(certs_), 0700);
}

TEST_F(CertsCommandTest, AnEmptyDirectoryIsFilledByAnyName) {
  std::filesystem::create_directory(certs_);
  const std::string link = root_ + "/link";
  std::filesystem::create_directory_symlink("certs", link);
  EXPECT_THAT(Make({.tasks = 1, .out = link}), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname task-0"));

  std::filesystem::remove_all(certs_);
  std::filesystem::create_directory(certs_);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(certs_);
  EXPECT_THAT(Make({.tasks = 1, .out = "."}), IsOk());
  std::filesystem::current_path(before);
  EXPECT_TRUE(IsGood("task-0.pem", "-verify_hostname task-0"));
}

TEST_F(CertsCommandTest, WhatIsThereStays) {
  ASSERT_THAT(Make({.tasks = 1, .out = certs_}), IsOk());
  const auto time = std::filesystem::last_write_time(certs_ + "/ca.key");
  EXPECT_THAT(Make({.tasks = 2, .out = certs_}),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       EndsWith("/certs: wanted a directory that is new or "
                                "empty")));
  EXPECT_EQ(std::filesystem::last_write_time(certs_ + "/ca.key"), time);
  std::ofstream(root_ + "/file") << "mine";
  EXPECT_THAT(Make({.tasks = 1, .out = root_ + "/file"}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("/file:")));
}

TEST_F(CertsCommandTest, DirectoriesThatCannotBeMadeAreNamed) {
  EXPECT_THAT(Make({.tasks = 1, .out = root_ + "/none/certs"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/none/certs: cannot be made")));
}

// Replaces openssl by a script, or hides it.
class CertsWithoutOpensslTest : public CertsCommandTest {
 protected:
  CertsWithoutOpensslTest() { setenv("PATH", root_.c_str(), 1); }
  ~CertsWithoutOpensslTest() override { setenv("PATH", path_.c_str(), 1); }

  void MakeOpenssl(const std::string& script) {
    const std::string file = root_ + "/openssl";
    std::ofstream(file) << "#!/bin/sh\n" << script;
    chmod(file.c_str(), 0700);
  }

  const std::string path_ = getenv("PATH");
};

TEST_F(CertsWithoutOpensslTest, TheErrorNamesIt) {
  EXPECT_THAT(Make({.tasks = 1, .out = certs_}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("wanted the program openssl")));
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(CertsWithoutOpensslTest, ADirectoryOfThatNameIsNoProgram) {
  std::filesystem::create_directory(root_ + "/openssl");
  EXPECT_THAT(Make({.tasks = 1, .out = certs_}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("wanted the program openssl")));
}

TEST_F(CertsWithoutOpensslTest, AnEmptyDirectoryStaysEmptyAfterAFailure) {
  MakeOpenssl("exit 1");
  std::filesystem::create_directory(certs_);
  EXPECT_FALSE(Make({.tasks = 1, .out = certs_}).ok());
  EXPECT_THAT(NamesIn(certs_), IsEmpty());
}

TEST_F(CertsWithoutOpensslTest, WhatComesMeanwhileStays) {
  MakeOpenssl(
      "for word; do case $word in */request|*.pem|*.key) echo -----END-----"
      " >$word;; esac; done\n" +
      absl::StrCat("echo mine >", certs_, "/ca.pem"));
  std::filesystem::create_directory(certs_);
  EXPECT_THAT(Make({.tasks = 1, .out = certs_}),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("/certs: wanted a directory")));
  EXPECT_THAT(NamesIn(certs_), ElementsAre("ca.pem"));
}

// Simulates openssl on a full disk.
TEST_F(CertsWithoutOpensslTest, AFileThatIsNotWholeIsNamedAndNothingStays) {
  MakeOpenssl(
      "for word; do case $word in */request|*.pem) echo -----END----- >$word;;"
      " */ca.key) echo -----END----- >$word;; *.key) printf %s abc >$word;;"
      " esac; done");
  EXPECT_THAT(Make({.tasks = 1, .out = certs_}),
              StatusIs(absl::StatusCode::kDataLoss,
                       EndsWith("/certs/task-0.key: openssl has written 3 "
                                "bytes, and not the end; the disk may be "
                                "full")));
  EXPECT_THAT(NamesIn(root_), ElementsAre("openssl"));
}

TEST_F(CertsWithoutOpensslTest, WhatItSaysIsRepeatedAndNothingStays) {
  MakeOpenssl("echo first >&2; echo second >&2; exit 1");
  EXPECT_THAT(Make({.tasks = 1, .out = certs_}),
              StatusIs(absl::StatusCode::kUnknown,
                       "openssl req failed: first; second"));
  EXPECT_THAT(NamesIn(root_), ElementsAre("openssl"));
}

TEST_F(CertsWithoutOpensslTest, ASignalLeavesNothing) {
  MakeOpenssl("kill -INT $PPID; exec /bin/sleep 1000");
  EXPECT_EXIT((void)Make({.tasks = 1, .out = certs_}),
              ::testing::KilledBySignal(SIGINT), "");
  EXPECT_THAT(NamesIn(root_), ElementsAre("openssl"));
}

}  // namespace certs_command_test
}  // namespace tutti
