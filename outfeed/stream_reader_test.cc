#include "outfeed/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/parcel.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace stream_reader_test {

using absl::StatusCode;
using ::testing::HasSubstr;

using Entries = std::vector<ParcelEntry>;

class StreamReaderTest : public testing::Test {
 protected:
  // Reads a parcel with these entries until its end or the stream's end.
  absl::Status Read(const Entries& entries) {
    ParcelWriter writer{absl::MakeSpan(parcel_)};
    for (const ParcelEntry& entry : entries) {
      const bool has_room = std::visit(
          [&writer](const auto& added) { return writer.Add(added); }, entry);
      EXPECT_TRUE(has_room);
    }
    writer.Finish();
    reader_.Begin(parcel_);
    for (;;) {
      auto step = reader_.Next();
      if (!step.ok()) return step.status();
      const bool has_ended =
          std::holds_alternative<StreamReader::ParcelEnd>(*step) ||
          std::holds_alternative<StreamReader::End>(*step);
      steps_.push_back(*std::move(step));
      if (has_ended) return absl::OkStatus();
    }
  }

  void ExpectInvalid(const Entries& entries, const char* what) {
    EXPECT_THAT(Read(entries),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(what)));
  }

  static SpecEntry Int32s(int64_t num_elements) {
    return {{DType::kInt32, TensorShape::Vector(num_elements)}};
  }

  std::vector<std::byte> parcel_ = std::vector<std::byte>(kParcelBytes);
  const std::shared_ptr<OutfeedRegistry> registry_ =
      std::make_shared<OutfeedRegistry>();
  StreamReader reader_{registry_};
  std::vector<StreamReader::Step> steps_;
};

TEST_F(StreamReaderTest, ReadsDefinitionsAndItemsAcrossParcels) {
  const std::vector<std::byte> bytes(8);
  EXPECT_THAT(Read({DefineEntry{5, 2}, Int32s(2)}), IsOk());
  EXPECT_THAT(Read({Int32s(300), ItemEntry{5}, InlineEntry{bytes}}), IsOk());
  EXPECT_THAT(Read({LargeEntry(), EndEntry{absl::OkStatus()}}), IsOk());
  ASSERT_EQ(steps_.size(), 6);
  EXPECT_EQ(std::get<StreamReader::Header>(steps_[1]).consumer,
            *registry_->Find(5));
  EXPECT_EQ(std::get<StreamReader::InlineArray>(steps_[2]).bytes.size(), 8);
  EXPECT_EQ(std::get<StreamReader::LargeArray>(steps_[4]).num_bytes, 1200);
  EXPECT_THAT(std::get<StreamReader::End>(steps_[5]).status, IsOk());
}

TEST_F(StreamReaderTest, WhatIsInTheWrongPlaceIsInvalid) {
  const std::vector<Entries> misplaced = {
      {Int32s(1)},
      {LargeEntry()},
      {InlineEntry{}},
      {DefineEntry{1, 1}, ItemEntry{1}},
      {DefineEntry{1, 1}, DefineEntry{2, 0}},
      {DefineEntry{1, 1}, EndEntry{}},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, ItemEntry{1}},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, EndEntry{}},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, DefineEntry{2, 0}},
  };
  for (const Entries& entries : misplaced) {
    reader_ = StreamReader(std::make_shared<OutfeedRegistry>());
    ExpectInvalid(entries, "an entry that belongs");
  }
}

// The sending end had no memory for the rest of the item.
TEST_F(StreamReaderTest, AnEndForWantOfMemoryMayComeAnywhere) {
  const EndEntry end{absl::ResourceExhaustedError("no memory")};
  const std::vector<std::byte> bytes(4);
  const std::vector<Entries> broken_off = {
      {DefineEntry{1, 1}, end},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, end},
      {DefineEntry{1, 2}, Int32s(1), Int32s(300), ItemEntry{1},
       InlineEntry{bytes}, end},
  };
  for (const Entries& entries : broken_off) {
    reader_ = StreamReader(std::make_shared<OutfeedRegistry>());
    EXPECT_EQ(Read(entries), end.status);
  }
}

TEST_F(StreamReaderTest, NoOtherEndBreaksAnItemOff) {
  EXPECT_THAT(Read({DefineEntry{1, 1}, Int32s(1), ItemEntry{1}}), IsOk());
  ExpectInvalid({EndEntry{absl::DataLossError("no disk")}},
                "an entry that belongs between items, found in an item");
}

TEST_F(StreamReaderTest, ItemsAreAsDefined) {
  const std::vector<std::byte> bytes(7);
  EXPECT_THAT(Read({DefineEntry{1, 1}, Int32s(2), DefineEntry{2, 1}, Int32s(0),
                    DefineEntry{3, 0}, ItemEntry{3}}),
              IsOk());
  ExpectInvalid({ItemEntry{4}}, "did not define");
  ExpectInvalid({DefineEntry{3, 0}}, "twice");
  ExpectInvalid({DefineEntry{0, 0}}, "reserved");
  ExpectInvalid({ItemEntry{2}, LargeEntry()}, "cannot come by itself");
  ExpectInvalid({ItemEntry{1}, InlineEntry{bytes}}, "found 7 bytes");
}

TEST_F(StreamReaderTest, AnIdIsAsTheRegistryHasIt) {
  EXPECT_THAT(registry_->Register(1, {Int32s(3).spec}), IsOk());
  EXPECT_THAT(Read({DefineEntry{1, 1}, Int32s(3)}), IsOk());
  reader_ = StreamReader(registry_);
  ExpectInvalid({DefineEntry{1, 1}, Int32s(4)}, "previous shape");
  reader_ = StreamReader(registry_);
  ExpectInvalid({DefineEntry{2, 1}, Int32s(int64_t{1} << 61)}, "bytes");
}

}  // namespace stream_reader_test
}  // namespace tutti
