#include "remote/mpi/mpi_note_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "remote/mpi/mpi_note.h"

namespace tutti {
namespace {

using testing::Eq;
using testing::IsEmpty;
using testing::SizeIs;

using Message = std::vector<std::byte>;

MpiNote NoteOf(std::string carried) {
  return {.kind = MpiNote::Kind::kBegin,
          .key = {.generation = 1,
                  .step = 2,
                  .group = 3,
                  .instance = 4,
                  .execution = 5},
          .is_in_place = true,
          .carried = std::move(carried)};
}

// Other bytes for each seed.
std::string Bytes(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 31 + i / 251 + seed * 7);
  }
  return bytes;
}

std::vector<Message> MessagesOf(const MpiNote& note) {
  std::vector<Message> messages;
  NoteWriter writer(note);
  Message message;
  while (writer.Next(message)) messages.push_back(message);
  return messages;
}

void ExpectIs(const std::optional<MpiNote>& note, const MpiNote& wanted) {
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->kind, wanted.kind);
  EXPECT_EQ(note->key, wanted.key);
  EXPECT_EQ(note->is_in_place, wanted.is_in_place);
  EXPECT_TRUE(note->carried == wanted.carried);
}

TEST(MpiNoteMessagesTest, ANoteIsReadAsItWasWritten) {
  NoteReader reader;
  for (const size_t size : {0, 1, 2047, 2048, 2049, 4095, 4096}) {
    SCOPED_TRACE(size);
    const MpiNote note = NoteOf(Bytes(size, 1));
    const auto messages = MessagesOf(note);
    EXPECT_THAT(messages, SizeIs(size <= 2048 ? 1 : 2));
    for (size_t i = 0; i + 1 < messages.size(); ++i) {
      EXPECT_THAT(reader.Take(0, messages[i]), Eq(std::nullopt));
    }
    EXPECT_LE(messages[0].size(), MostNoteMessageBytes());
    ExpectIs(reader.Take(0, messages.back()), note);
  }
  MpiNote other = NoteOf("");
  other.is_in_place = false;
  ExpectIs(reader.Take(0, MessagesOf(other)[0]), other);
}

TEST(MpiNoteMessagesTest, ThoseOfSeveralTasksComeInAnyOrder) {
  NoteReader reader;
  const MpiNote first = NoteOf(Bytes(4096, 1)), second = NoteOf(Bytes(3000, 2));
  const auto of_first = MessagesOf(first), of_second = MessagesOf(second);
  EXPECT_FALSE(reader.Take(1, of_first[0]).has_value());
  EXPECT_FALSE(reader.Take(2, of_second[0]).has_value());
  const MpiNote third = NoteOf("short");
  ExpectIs(reader.Take(3, MessagesOf(third)[0]), third);
  ExpectIs(reader.Take(1, of_first[1]), first);
  ExpectIs(reader.Take(1, MessagesOf(third)[0]), third);
  ExpectIs(reader.Take(2, of_second[1]), second);
}

// What another process sends is not believed.
TEST(MpiNoteMessagesTest, WhatIsNoNoteIsLeftOut) {
  NoteReader reader;
  const MpiNote note = NoteOf("short");
  Message message = MessagesOf(note)[0];
  const auto is_left_out = [&](absl::Span<const std::byte> bytes) {
    EXPECT_FALSE(reader.Take(0, bytes).has_value());
    ExpectIs(reader.Take(0, MessagesOf(note)[0]), note);
  };
  is_left_out({});
  is_left_out(absl::MakeSpan(message).subspan(0, 7));
  Message longer = message;
  longer.push_back(std::byte{1});
  is_left_out(longer);
  is_left_out(MessagesOf(NoteOf(Bytes(MpiNote::kMostCarriedBytes + 1, 1)))[0]);
}

}  // namespace
}  // namespace tutti
