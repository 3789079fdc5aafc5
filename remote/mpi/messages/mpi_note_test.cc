#include "remote/mpi/messages/mpi_note.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace tutti {
namespace mpi_note_test {

MpiNote NoteOf(std::string carried) {
  return {.kind = MpiNote::Kind::kBegin,
          .key = {.generation = 1,
                  .step = 2,
                  .group = 3,
                  .instance = 4,
                  .execution = 5},
          .is_in_place = true,
          .rows_digest = 6,
          .carried = std::move(carried),
          .code = absl::StatusCode::kDataLoss};
}

std::string Encoded(const MpiNote& note) {
  std::string bytes = "of the one before";
  EncodeNote(note, bytes);
  return bytes;
}

void ExpectIsReadAsWritten(const MpiNote& note) {
  const auto read = DecodeNote(Encoded(note));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->kind, note.kind);
  EXPECT_EQ(read->key, note.key);
  EXPECT_EQ(read->is_in_place, note.is_in_place);
  EXPECT_EQ(read->rows_digest, note.rows_digest);
  EXPECT_TRUE(read->carried == note.carried);
  EXPECT_EQ(read->code, note.code);
}

TEST(MpiNoteTest, ANoteIsReadAsItWasWritten) {
  for (const size_t size : {size_t{0}, size_t{1}, MpiNote::kMostCarriedBytes}) {
    ExpectIsReadAsWritten(NoteOf(std::string(size, 'x')));
  }
  ExpectIsReadAsWritten(NoteOf(std::string("\0\n", 2)));
  MpiNote note = NoteOf("");
  note.is_in_place = false;
  ExpectIsReadAsWritten(note);
}

// Invalid bytes of another process are no note.
TEST(MpiNoteTest, WhatIsNoNoteIsLeftOut) {
  const std::string bytes = Encoded(NoteOf(""));
  EXPECT_FALSE(DecodeNote("").has_value());
  EXPECT_FALSE(DecodeNote(bytes.substr(0, bytes.size() - 1)).has_value());
  const std::string longest =
      Encoded(NoteOf(std::string(MpiNote::kMostCarriedBytes, 'x')));
  EXPECT_EQ(longest.size(), MostNoteBytes());
  EXPECT_FALSE(DecodeNote(longest + "x").has_value());
  for (const int code : {-1, 17}) {
    MpiNote note = NoteOf("");
    note.code = static_cast<absl::StatusCode>(code);
    EXPECT_FALSE(DecodeNote(Encoded(note)).has_value());
  }
}

}  // namespace mpi_note_test
}  // namespace tutti
