#include "tools/base/progress.h"

#include <sstream>

#include "gtest/gtest.h"

namespace tutti {
namespace progress_test {

TEST(ProgressTest, OverwritesItselfAndIsGoneAfterwards) {
  std::ostringstream out;
  std::ostringstream err;
  const Console console{out, err, /*err_is_terminal=*/true};
  {
    Progress progress(console);
    progress.Show("long text");
    progress.Show("short");
  }
  EXPECT_EQ(err.str(), "\rlong text\rshort    \r     \r");
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressTest, IsSilentWhereNobodyWatches) {
  std::ostringstream out;
  std::ostringstream err;
  const Console console{out, err, /*err_is_terminal=*/false};
  {
    Progress progress(console);
    progress.Show("text");
  }
  EXPECT_EQ(err.str(), "");
}

TEST(ProgressTest, WritesNothingIfNothingWasShown) {
  std::ostringstream out;
  std::ostringstream err;
  const Console console{out, err, /*err_is_terminal=*/true};
  {
    Progress progress(console);
  }
  EXPECT_EQ(err.str(), "");
}

}  // namespace progress_test
}  // namespace tutti
