#include "remote/mpi/mpi_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Piece = std::vector<std::byte>;
using Message = std::pair<int, std::string>;  // Of which task.

constexpr size_t kMostBytes = 100'000;

// Other bytes for each seed.
std::string Bytes(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 31 + i / 251 + seed * 7);
  }
  return bytes;
}

std::vector<Piece> PiecesOf(PieceWriter& writer, absl::string_view message) {
  std::vector<Piece> pieces;
  do {
    writer.Next(message, pieces.emplace_back());
  } while (!message.empty());
  return pieces;
}

// What is whole with this piece.
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
    EXPECT_EQ(Take(reader, 7, pieces.back()),
              (std::vector<Message>{{7, message}}));
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
  PieceWriter writer;
  PieceReader reader(kMostBytes);
  for (const Piece& piece : PiecesOf(writer, Bytes(kMostBytes + 1, 1))) {
    EXPECT_THAT(Take(reader, 0, piece), IsEmpty());
  }
  const std::string next = Bytes(kMostBytes, 2);
  std::vector<Message> received;
  for (const Piece& piece : PiecesOf(writer, next)) {
    received = Take(reader, 0, piece);
  }
  EXPECT_THAT(received, ElementsAre(Message(0, next)));
}

// What another process sends is not believed.
TEST(MpiPiecesTest, WhatIsNoPieceIsLeftOut) {
  PieceWriter writer;
  PieceReader reader(kMostBytes);
  const Piece piece = PiecesOf(writer, "short")[0];
  EXPECT_THAT(Take(reader, 0, {}), IsEmpty());
  EXPECT_THAT(Take(reader, 0, Piece(piece.begin(), piece.begin() + 15)),
              IsEmpty());
  EXPECT_THAT(Take(reader, 0, piece), ElementsAre(Message(0, "short")));
  EXPECT_THAT(Take(reader, 0, piece), IsEmpty());  // It comes again.
  const Piece next = PiecesOf(writer, "next")[0];
  const Piece last = PiecesOf(writer, "last")[0];
  EXPECT_THAT(Take(reader, 0, last), IsEmpty());
  EXPECT_THAT(Take(reader, 0, next),
              ElementsAre(Message(0, "next"), Message(0, "last")));
}

}  // namespace
}  // namespace tutti
