// Tests what messages between MPI processes are made of, and what wakes
// MPI's\nthread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "remote/mpi/messages/doorbell.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_pieces.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace mpi_messages_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(DoorbellTest, ARingBeforeSleepEndsIt) {
  Doorbell bell;
  bell.PrepareToSleep();
  bell.Ring();
  EXPECT_TRUE(bell.SleepUnlessRung(absl::Hours(1)));
}

TEST(DoorbellTest, ARingWhileAwakeIsNotKept) {
  Doorbell bell;
  bell.Ring();
  bell.PrepareToSleep();
  EXPECT_FALSE(bell.SleepUnlessRung(absl::Milliseconds(1)));
  bell.PrepareToSleep();
  bell.StayAwake();
}

// Two threads pass a number back and forth. A lost ring would make them sleep
// for an hour.
TEST(DoorbellTest, NoRingIsLost) {
  constexpr int kNumTurns = 20'000;
  Doorbell bells[2];
  std::atomic<int> turn{0};
  const auto play = [&](int side) {
    for (int wanted = side; wanted < kNumTurns; wanted += 2) {
      while (turn.load() != wanted) {
        bells[side].PrepareToSleep();
        if (turn.load() == wanted) {
          bells[side].StayAwake();
        } else {
          bells[side].SleepUnlessRung(absl::Hours(1));
        }
      }
      turn.store(wanted + 1);
      bells[1 - side].Ring();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), kNumTurns);
}

TEST(MpiMailboxTest, WorkIsTakenInTheOrderOfPosts) {
  MpiMailbox mailbox;
  std::vector<int> ran;
  for (const int i : {1, 2, 3}) mailbox.Post([&ran, i] { ran.push_back(i); });
  EXPECT_THAT(ran, ElementsAre());
  EXPECT_FALSE(mailbox.empty());
  for (Work& work : mailbox.TakeAll()) std::move(work)();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_TRUE(mailbox.empty());
}

// Sleeper that misses the ring would sleep for an hour.
TEST(MpiMailboxTest, APostWakesWhoSleeps) {
  MpiMailbox mailbox;
  Doorbell doorbell;
  mailbox.RingAt(&doorbell);
  doorbell.PrepareToSleep();
  mailbox.Post([] {});
  doorbell.SleepUnlessRung(absl::Hours(1));
  doorbell.PrepareToSleep();
  mailbox.Ring();
  doorbell.SleepUnlessRung(absl::Hours(1));
}

TEST(MpiMailboxTest, OneThatHoldsWorkIsNotClosed) {
  MpiMailbox mailbox;
  mailbox.Post([] {});
  EXPECT_FALSE(mailbox.CloseIfEmpty());
  bool has_run = false;
  mailbox.Post([&] { has_run = true; });
  EXPECT_FALSE(has_run);
  for (Work& work : mailbox.TakeAll()) std::move(work)();
  EXPECT_TRUE(has_run);
  EXPECT_TRUE(mailbox.CloseIfEmpty());
}

TEST(MpiMailboxTest, ClosingDropsWhatIsInIt) {
  MpiMailbox mailbox;
  const auto held = std::make_shared<bool>(false);
  mailbox.Post([held] { *held = true; });
  mailbox.Close();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(*held);
}

TEST(MpiMailboxTest, WhoeverPostsToAClosedOneRunsTheWork) {
  MpiMailbox mailbox;
  {
    Doorbell doorbell;
    mailbox.RingAt(&doorbell);
    mailbox.Close();
  }
  bool has_run = false;
  mailbox.Post([&] { has_run = true; });
  EXPECT_TRUE(has_run);
  mailbox.Ring();  // Rings nothing: the doorbell is gone.
}

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

PullRequest LargePull() {
  return {.key = {.exec = {1, -2, 3, 4, 5}, .tag = 6, .from = 7, .to = 8},
          .recv = {.num_bytes = kMaxInlineBytes + 8,
                   .dtype = DType::kFloat64,
                   .incarnation = ~uint64_t{0}},
          .payload_tag = 9};
}

PullRequest PullToRead() {
  PullRequest request = LargePull();
  request.payload_tag = 0;
  request.may_read_memory = true;
  return request;
}

proto::MpiPull Encoded(const PullRequest& request) {
  proto::MpiPull message;
  EncodePull(request, message);
  return message;
}

void ExpectInvalid(const proto::MpiPull& message, const char* field) {
  EXPECT_THAT(DecodePull(message), IsInvalidArgument(field));
}

TEST(MpiWireTest, PullsSurviveTheWire) {
  for (const PullRequest& wanted : {LargePull(), PullToRead()}) {
    const auto found = DecodePull(Encoded(wanted));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->key, wanted.key);
    EXPECT_EQ(found->recv.num_bytes, wanted.recv.num_bytes);
    EXPECT_EQ(found->recv.dtype, wanted.recv.dtype);
    EXPECT_EQ(found->recv.incarnation, wanted.recv.incarnation);
    EXPECT_EQ(found->payload_tag, wanted.payload_tag);
    EXPECT_EQ(found->may_read_memory, wanted.may_read_memory);
  }
}

TEST(MpiWireTest, WrongFieldsAreNamed) {
  for (int dtype : {-1, 99, 256, std::numeric_limits<int>::max()}) {
    proto::MpiPull message = Encoded(LargePull());
    message.set_dtype(dtype);
    ExpectInvalid(message, "pull.dtype");
  }
  for (uint64_t num_bytes :
       {uint64_t{kMaxInlineBytes} + 9, uint64_t{1} << 62, ~uint64_t{0}}) {
    proto::MpiPull message = Encoded(LargePull());
    message.set_num_bytes(num_bytes);
    ExpectInvalid(message, "pull.num_bytes");
  }
  for (int tag : {-1, 0}) {
    proto::MpiPull message = Encoded(LargePull());
    message.set_payload_tag(tag);
    ExpectInvalid(message, "pull.payload_tag");
  }
  proto::MpiPull small = Encoded(LargePull());
  small.set_num_bytes(8);
  ExpectInvalid(small, "pull.payload_tag");
  proto::MpiPull read = Encoded(PullToRead());
  read.set_payload_tag(9);
  ExpectInvalid(read, "pull.payload_tag");
  read = Encoded(PullToRead());
  read.set_num_bytes(8);
  ExpectInvalid(read, "pull.may_read_memory");
}

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

}  // namespace mpi_messages_test
}  // namespace tutti
