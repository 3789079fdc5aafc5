#include "outfeed/parcel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/stream_reader.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace parcel_test {

using absl::StatusCode;

class ParcelTest : public testing::Test {
 protected:
  ParcelReader Written() {
    writer_.Finish();
    return ParcelReader(bytes_);
  }

  // Returns the status of reading these bytes as an entry.
  static absl::Status StatusOf(std::vector<uint8_t> entry) {
    std::vector<std::byte> bytes(entry.size());
    std::transform(entry.begin(), entry.end(), bytes.begin(),
                   [](uint8_t byte) { return std::byte{byte}; });
    ParcelReader reader(bytes);
    return reader.Next().status();
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(kParcelBytes);
  ParcelWriter writer_{absl::MakeSpan(bytes_)};
};

template <typename Entry>
Entry NextOf(ParcelReader& reader) {
  const auto entry = reader.Next();
  EXPECT_THAT(entry, IsOk());
  return std::get<Entry>(**entry);
}

TEST_F(ParcelTest, EntriesComeOutAsTheyWentIn) {
  const ArraySpec spec{DType::kBFloat16, *TensorShape::Create({2, 0, 300})};
  const std::vector<std::byte> bytes(kMaxInlineBytes, std::byte{7});
  ASSERT_TRUE(writer_.Add(DefineEntry{0xfedcba98, 65536}));
  ASSERT_TRUE(writer_.Add(SpecEntry{spec}));
  ASSERT_TRUE(writer_.Add(ItemEntry{0x12345678}));
  ASSERT_TRUE(writer_.Add(InlineEntry{bytes}));
  ASSERT_TRUE(writer_.Add(InlineEntry{}));
  ASSERT_TRUE(writer_.Add(LargeEntry()));
  ASSERT_TRUE(writer_.Add(EndEntry{absl::DataLossError("no disk")}));
  ParcelReader reader = Written();
  const auto define = NextOf<DefineEntry>(reader);
  EXPECT_EQ(define.consumer_id, 0xfedcba98);
  EXPECT_EQ(define.num_arrays, 65536);
  EXPECT_EQ(NextOf<SpecEntry>(reader).spec, spec);
  EXPECT_EQ(NextOf<ItemEntry>(reader).consumer_id, 0x12345678);
  EXPECT_EQ(NextOf<InlineEntry>(reader).bytes, absl::MakeConstSpan(bytes));
  EXPECT_TRUE(NextOf<InlineEntry>(reader).bytes.empty());
  NextOf<LargeEntry>(reader);
  EXPECT_EQ(NextOf<EndEntry>(reader).status, absl::DataLossError("no disk"));
  EXPECT_EQ(reader.Next()->has_value(), false);
}

TEST_F(ParcelTest, AnEmptyOneHasRoomForAnyEntryAndAFullOneForNone) {
  const ArraySpec spec{DType::kInt8, *TensorShape::Create(std::vector<int64_t>(
                                         kMaxArrayDims, 1))};
  EXPECT_TRUE(writer_.Add(SpecEntry{spec}));
  EXPECT_TRUE(writer_.Add(SpecEntry{spec}));
  EXPECT_FALSE(writer_.Add(SpecEntry{spec}));
  while (writer_.Add(LargeEntry())) {
  }
  EXPECT_FALSE(writer_.Add(ItemEntry{1}));
  ParcelReader reader(bytes_);
  int num_entries = 0;
  while ((*reader.Next()).has_value()) ++num_entries;
  EXPECT_EQ(num_entries, kParcelBytes - 2 * (3 + 8 * kMaxArrayDims) + 2);
}

TEST_F(ParcelTest, ALongMessageIsCut) {
  EXPECT_TRUE(writer_.Add(
      EndEntry{absl::InternalError(std::string(kParcelBytes, 'x'))}));
  ParcelReader reader = Written();
  EXPECT_EQ(NextOf<EndEntry>(reader).status.message(),
            std::string(kMaxEndMessageBytes, 'x'));
}

TEST_F(ParcelTest, EveryFieldIsChecked) {
  const auto invalid = [](const char* what) { return IsInvalidArgument(what); };
  EXPECT_THAT(StatusOf({}), invalid("is empty"));
  EXPECT_THAT(StatusOf({0, 1}), invalid("is empty"));
  EXPECT_THAT(StatusOf({7}), invalid("kind 7"));
  EXPECT_THAT(StatusOf({1, 1, 0, 0, 0, 1, 0, 1, 0}), invalid("65537 arrays"));
  EXPECT_THAT(StatusOf({2, 99, 0}), invalid("99"));
  EXPECT_THAT(StatusOf({2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x80}), invalid("-"));
  std::vector<uint8_t> too_many = {2, 0, 2};
  for (int dim = 0; dim < 2; ++dim) {
    too_many.insert(too_many.end(), {0, 0, 0, 0, 0, 0, 0, 0x40});
  }
  EXPECT_THAT(StatusOf(too_many), invalid("elements"));
  std::vector<uint8_t> too_long(2000, 1);
  too_long[0] = 4;
  too_long[1] = 1025 & 0xff;
  too_long[2] = 1025 >> 8;
  EXPECT_THAT(StatusOf(too_long), invalid("1025 bytes"));
  EXPECT_THAT(StatusOf({6, 17, 0, 0}), invalid("code 17"));
}

TEST_F(ParcelTest, EveryEntryIsCheckedForItsEnd) {
  const std::vector<uint8_t> entries[] = {
      {1, 1, 0, 0, 0, 1, 0, 0, 0},
      {2, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0},
      {3, 1, 0, 0, 0},
      {4, 3, 0, 1, 2, 3},
      {6, 1, 2, 0, 'n', 'o'},
  };
  for (const std::vector<uint8_t>& entry : entries) {
    EXPECT_THAT(StatusOf(entry), IsOk());
    for (size_t size = 1; size < entry.size(); ++size) {
      EXPECT_THAT(StatusOf({entry.begin(),
                            entry.begin() + static_cast<ptrdiff_t>(size)}),
                  IsInvalidArgument("in the middle of an entry"));
    }
  }
}

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
    EXPECT_THAT(Read(entries), IsInvalidArgument(what));
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

}  // namespace parcel_test
}  // namespace tutti
