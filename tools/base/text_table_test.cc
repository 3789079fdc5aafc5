#include "tools/base/text_table.h"

#include "gtest/gtest.h"

namespace tutti {
namespace text_table_test {

TEST(TextTableTest, AlignsCellsUnderTheirTitles) {
  TextTable table(
      {{"name", Align::kLeft}, {"p50 [us]"}, {"n", Align::kRight, 4}});
  EXPECT_EQ(table.Header(), "name  p50 [us]     n\n");
  EXPECT_EQ(table.Row({"a", "1.5", "12"}), "a          1.5    12\n");
}

TEST(TextTableTest, FitsTheWidestCell) {
  EXPECT_EQ(FormatTable({{"name", Align::kLeft}, {"n"}},
                        {{"long name", "1"}, {"b", "100"}}),
            "name         n\n"
            "long name    1\n"
            "b          100\n");
}

TEST(TextTableTest, LinesEndWithoutSpaces) {
  TextTable table({{"a"}, {"summary", Align::kLeft}});
  EXPECT_EQ(table.Row({"1", ""}), "1\n");
  EXPECT_EQ(table.Row({"1"}), "1\n");
}

TEST(TextTableTest, CellsThatAreTooWideAreNotCut) {
  TextTable table({{"a"}, {"b"}});
  EXPECT_EQ(table.Row({"wide", "2"}), "wide  2\n");
}

}  // namespace text_table_test
}  // namespace tutti
