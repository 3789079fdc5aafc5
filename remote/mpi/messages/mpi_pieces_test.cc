#include "remote/mpi/messages/mpi_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tutti {
namespace mpi_pieces_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using Piece = std::vector<std::byte>;
using Message = std::pair<int, std::string>;  // Task and text.

constexpr size_t kMostBytes = 100'000;

// Returns bytes that differ for each seed.
std::string Bytes(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 31 + i / 251 + seed * 7);
  }
  return bytes;
}

// Returns all pieces that may go without a receipt; the rest stays in
// `message`.
std::vector<Piece> NextPieces(PieceWriter& writer, absl::string_view& message) {
  std::vector<Piece> pieces;
  Piece piece;
  while (writer.Next(message, piece)) {
    pieces.push_back(piece);
    if (message.empty()) break;
  }
  return pieces;
}

std::vector<Piece> PiecesOf(PieceWriter& writer, absl::string_view message) {
  const auto pieces = NextPieces(writer, message);
  EXPECT_TRUE(message.empty());
  return pieces;
}

// Passes a due receipt to the writer of the last piece.
void Receipt(PieceReader& reader, int task, PieceWriter& writer) {
  Piece receipt;
  if (!reader.TakeReceipt(task, receipt)) return;
  const auto num_taken = ReadReceipt(receipt);
  ASSERT_TRUE(num_taken.has_value());
  writer.OnReceipt(*num_taken);
}

// Returns the messages that are complete with this piece.
std::vector<Message> Take(PieceReader& reader, int task, const Piece& piece) {
  std::vector<Message> messages;
  reader.Take(task, piece, [&](int from, absl::string_view message) {
    messages.emplace_back(from, message);
  });
  return messages;
}

TEST(MpiPiecesTest, AMessageIsReadAsItWasWritten) {
  PieceWriter writer;
  PieceReader reader(kMostBytes);
  for (const size_t size : {0, 1, 2047, 2048, 2049, 4096, 100'000}) {
    SCOPED_TRACE(size);
    const std::string message = Bytes(size, 1);
    const auto pieces = PiecesOf(writer, message);
    EXPECT_THAT(pieces, SizeIs(std::max<size_t>(1, (size + 2047) / 2048)));
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      EXPECT_THAT(Take(reader, 7, pieces[i]), IsEmpty());
    }
    EXPECT_LE(pieces[0].size(), MostPieceBytes());
    EXPECT_FALSE(ReadReceipt(pieces[0]).has_value());
    EXPECT_EQ(Take(reader, 7, pieces.back()),
              (std::vector<Message>{{7, message}}));
    Receipt(reader, 7, writer);
  }
}

TEST(MpiPiecesTest, MessagesOfSeveralTasksComeBesideEachOther) {
  PieceWriter from_1, from_2;
  PieceReader reader(kMostBytes);
  const std::string first = Bytes(4000, 1), second = Bytes(4000, 2);
  const auto of_first = PiecesOf(from_1, first);
  const auto of_second = PiecesOf(from_2, second);
  EXPECT_THAT(Take(reader, 1, of_first[0]), IsEmpty());
  EXPECT_THAT(Take(reader, 2, of_second[0]), IsEmpty());
  EXPECT_THAT(Take(reader, 1, of_first[1]), ElementsAre(Message(1, first)));
  EXPECT_THAT(Take(reader, 2, of_second[1]), ElementsAre(Message(2, second)));
}

TEST(MpiPiecesTest, MessagesComeInOrderInWhichOrderTheirPiecesEverCome) {
  const std::string first = Bytes(3000, 1), second = Bytes(1, 2),
                    third = Bytes(5000, 3);
  std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
  do {
    PieceWriter writer;
    std::vector<Piece> pieces;
    for (const std::string& message : {first, second, third}) {
      for (Piece& piece : PiecesOf(writer, message)) {
        pieces.push_back(std::move(piece));
      }
    }
    ASSERT_THAT(pieces, SizeIs(order.size()));
    PieceReader reader(kMostBytes);
    std::vector<Message> received;
    for (const size_t index : order) {
      for (Message& message : Take(reader, 0, pieces[index])) {
        received.push_back(std::move(message));
      }
    }
    ASSERT_EQ(received,
              (std::vector<Message>{{0, first}, {0, second}, {0, third}}));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(MpiPiecesTest, AMessageOfTooManyBytesIsLeftOut) {
  for (const size_t most_bytes : {10, 2048, 4096, 5000}) {
    SCOPED_TRACE(most_bytes);
    PieceWriter writer;
    PieceReader reader(most_bytes);
    for (const Piece& piece : PiecesOf(writer, Bytes(most_bytes + 1, 1))) {
      EXPECT_THAT(Take(reader, 0, piece), IsEmpty());
    }
    const std::string next = Bytes(most_bytes, 2);
    std::vector<Message> received;
    for (const Piece& piece : PiecesOf(writer, next)) {
      received = Take(reader, 0, piece);
    }
    EXPECT_THAT(received, ElementsAre(Message(0, next)));
  }
}

TEST(MpiPiecesTest, NoMoreIsUnreadThanAReceiverThatStandsStillMayKeep) {
  PieceWriter writer;
  PieceReader reader(kMostBytes * 10);
  const std::string message = Bytes(kMostBytes * 10, 1);
  absl::string_view left = message;
  std::vector<Message> received;
  while (!left.empty()) {
    const auto pieces = NextPieces(writer, left);
    ASSERT_THAT(pieces, Not(IsEmpty())) << left.size() << " bytes are left";
    ASSERT_LE(pieces.size(), kMostUnread);
    for (const Piece& piece : pieces) received = Take(reader, 0, piece);
    Receipt(reader, 0, writer);
  }
  EXPECT_THAT(received, ElementsAre(Message(0, message)));
  // Empty messages wait too.
  Piece piece;
  absl::string_view empty;
  uint64_t num_unread = 0;
  while (num_unread <= kMostUnread && writer.Next(empty, piece)) ++num_unread;
  EXPECT_LE(num_unread, kMostUnread);
  EXPECT_GE(num_unread, kMostUnread / 2);
}

// Invalid bytes of another process are ignored.
TEST(MpiPiecesTest, WhatIsNoPieceIsLeftOut) {
  PieceWriter writer;
  PieceReader reader(kMostBytes);
  const Piece piece = PiecesOf(writer, "short")[0];
  EXPECT_THAT(Take(reader, 0, {}), IsEmpty());
  EXPECT_THAT(Take(reader, 0, Piece(piece.begin(), piece.begin() + 15)),
              IsEmpty());
  EXPECT_THAT(Take(reader, 0, piece), ElementsAre(Message(0, "short")));
  EXPECT_THAT(Take(reader, 0, piece), IsEmpty());  // Comes a second time.
  writer.OnReceipt(1000);  // Receipt for pieces not sent.
  const Piece next = PiecesOf(writer, "next")[0];
  const Piece last = PiecesOf(writer, "last")[0];
  EXPECT_THAT(Take(reader, 0, last), IsEmpty());
  EXPECT_THAT(Take(reader, 0, next),
              ElementsAre(Message(0, "next"), Message(0, "last")));
}

// Such a piece would have to be kept.
TEST(MpiPiecesTest, APieceThatIsTooFarAheadIsLeftOut) {
  PieceWriter writer, ahead;
  PieceReader reader(kMostBytes);
  for (uint64_t i = 0; i < kMostUnread; ++i) PiecesOf(ahead, "");
  ahead.OnReceipt(kMostUnread);
  EXPECT_THAT(Take(reader, 0, PiecesOf(ahead, "far")[0]), IsEmpty());
  for (uint64_t i = 0; i < kMostUnread; ++i) {
    EXPECT_THAT(Take(reader, 0, PiecesOf(writer, "near")[0]),
                ElementsAre(Message(0, "near")));
    Receipt(reader, 0, writer);
  }
}

}  // namespace mpi_pieces_test
}  // namespace tutti
