// Tests of what processes of an MPI job send each other, without MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "remote/mpi/messages/doorbell.h"
#include "remote/mpi/messages/mpi_exchange.h"
#include "remote/mpi/messages/mpi_mailbox.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_part.h"
#include "remote/mpi/messages/mpi_pieces.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace notes_and_messages_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::SizeIs;

// --- Pieces, notes, messages -------------------------------------------------

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
    const auto found = DecodePull(Encoded(wanted)).value();
    EXPECT_EQ(found.key, wanted.key);
    EXPECT_EQ(found.recv.num_bytes, wanted.recv.num_bytes);
    EXPECT_EQ(found.recv.dtype, wanted.recv.dtype);
    EXPECT_EQ(found.recv.incarnation, wanted.recv.incarnation);
    EXPECT_EQ(found.payload_tag, wanted.payload_tag);
    EXPECT_EQ(found.may_read_memory, wanted.may_read_memory);
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

// --- Exchange of two ---------------------------------------------------------

constexpr int kNumTasks = 3;

// Ends of a part: "begun with " and its merged inputs, or the reason of its
// refusal.
using Ends = std::vector<std::string>;

ExecKey KeyOf(int64_t instance) {
  return {.generation = 1, .group = 1, .instance = instance};
}

// Part that carries the number of its task.
class FakePart : public MpiPart {
 public:
  FakePart(int task, const ExecKey& key, std::vector<int> tasks, bool can_merge,
           Ends* ends)
      : key_(key),
        tasks_(std::move(tasks)),
        carried_(absl::StrCat(task)),
        can_merge_(can_merge),
        ends_(ends) {}

  const ExecKey& key() const override { return key_; }
  const std::vector<int>& tasks() const override { return tasks_; }
  bool is_in_place() const override { return false; }
  uint64_t rows_digest() const override { return 0; }
  absl::string_view carried() const override { return carried_; }
  absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> carried) const override {
    if (!can_merge_) return absl::DataLossError("it is broken");
    return absl::StrJoin(carried, "+");
  }
  void Begin(const Order& order) override {
    EXPECT_FALSE(order.makes_communicator);
    ends_->push_back(absl::StrCat("begun with ", order.merged));
  }
  void Refuse(const absl::Status& why) override {
    ends_->push_back(why.ToString());
  }

 private:
  const ExecKey key_;
  const std::vector<int> tasks_;
  const std::string carried_;
  const bool can_merge_;
  Ends* const ends_;
};

// Tasks of a job, with the notes on their way: in order from one task to
// another, otherwise in any order.
class MpiExchangeTest : public testing::Test {
 protected:
  MpiExchangeTest() { MakeTasks(); }

  void MakeTasks() {
    for (int task = 0; task < kNumTasks; ++task) {
      tasks_[task] = std::make_unique<MpiExchange>(MpiExchange::Options{
          .this_task = task, .send = [this, task](int to, const MpiNote& note) {
            EXPECT_NE(task, to);
            on_its_way_[{task, to}].push_back(note);
          }});
    }
  }

  void Add(int task, int64_t instance, std::vector<int> tasks) {
    tasks_[task]->Add(std::make_shared<FakePart>(
        task, KeyOf(instance), std::move(tasks),
        !cannot_merge_.contains(instance), &ends_[{task, instance}]));
  }
  void Withdraw(int task, int64_t instance) {
    tasks_[task]->Withdraw(KeyOf(instance), absl::AbortedError("enough"));
  }
  void CallGone(int task, int gone) {
    tasks_[task]->OnGone(gone, absl::UnavailableError("it is gone"));
  }

  const Ends& EndsOf(int task, int64_t instance) {
    return ends_[{task, instance}];
  }
  static bool HasBegun(const Ends& ends) {
    return !ends.empty() && ends[0].starts_with("begun");
  }

  void Deliver(int from, int to) {
    auto& notes = on_its_way_[{from, to}];
    ASSERT_FALSE(notes.empty());
    const MpiNote note = notes.front();
    notes.pop_front();
    tasks_[to]->OnNote(from, note);
  }

  // Delivers any due note; returns false if there is none.
  bool DeliverOne() {
    std::erase_if(on_its_way_, [](const auto& e) { return e.second.empty(); });
    if (on_its_way_.empty()) return false;
    auto next = on_its_way_.begin();
    std::advance(next, random_() % on_its_way_.size());
    const auto [from, to] = next->first;
    Deliver(from, to);
    return true;
  }
  void DeliverSome() {
    for (auto n = random_() % 4; n > 0; --n) DeliverOne();
  }
  void DeliverAll() {
    while (DeliverOne()) {
    }
  }

  void ExpectNothingIsLeft() {
    for (const auto& task : tasks_) {
      EXPECT_THAT(task->Waiting(), IsEmpty());
      EXPECT_EQ(task->num_kept(), 0u);
    }
  }

  std::array<std::unique_ptr<MpiExchange>, kNumTasks> tasks_;
  std::map<std::pair<int, int>, std::deque<MpiNote>> on_its_way_;
  std::minstd_rand random_{1};
  std::set<int64_t> cannot_merge_;                // Instances.
  std::map<std::pair<int, int64_t>, Ends> ends_;  // Keyed by task and instance.
};

const char* const kEnough = "ABORTED: enough";
const char* const kGone = "UNAVAILABLE: it is gone";

TEST_F(MpiExchangeTest, BothBeginWithTheirInputsInTheOrderOfRanks) {
  const std::vector<std::vector<int>> groups = {{0, 1}, {2, 0}, {2, 1}};
  std::vector<std::pair<int, int64_t>> arrivals;
  for (int64_t instance = 0; instance < 300; ++instance) {
    for (const int task : groups[instance % 3]) {
      arrivals.emplace_back(task, instance);
    }
  }
  std::shuffle(arrivals.begin(), arrivals.end(), random_);
  for (const auto& [task, instance] : arrivals) {
    Add(task, instance, groups[instance % 3]);
    DeliverSome();
  }
  DeliverAll();
  for (const auto& [task, instance] : arrivals) {
    const auto& tasks = groups[instance % 3];
    EXPECT_THAT(
        EndsOf(task, instance),
        ElementsAre(absl::StrCat("begun with ", tasks[0], "+", tasks[1])));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, NeitherBeginsAloneAndOneMessageOfEachIsEnough) {
  Add(0, 1, {1, 0});
  EXPECT_THAT(EndsOf(0, 1), IsEmpty());
  Add(1, 1, {1, 0});
  EXPECT_THAT(EndsOf(1, 1), IsEmpty());
  Deliver(0, 1);
  EXPECT_THAT(EndsOf(1, 1), ElementsAre("begun with 1+0"));
  EXPECT_THAT(EndsOf(0, 1), IsEmpty());
  Deliver(1, 0);
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 1+0"));
  EXPECT_FALSE(DeliverOne());
}

TEST_F(MpiExchangeTest, WhatIsWithdrawnBeginsOnBothOrOnNeither) {
  int num_begun = 0, num_refused = 0;
  for (int64_t instance = 0; instance < 4000; ++instance) {
    SCOPED_TRACE(instance);
    const std::vector<int> tasks = {2, 1};
    // Steps in any order: each task comes, and one or both withdraw.
    std::vector<std::pair<int, bool>> steps = {{1, false}, {2, false}};
    const auto who = random_() % 3;
    if (who != 0) steps.emplace_back(1, true);
    if (who != 1) steps.emplace_back(2, true);
    std::shuffle(steps.begin(), steps.end(), random_);
    for (const auto& [task, withdraws] : steps) {
      withdraws ? Withdraw(task, instance) : Add(task, instance, tasks);
      DeliverSome();
    }
    DeliverAll();
    // Both hear of it, and withdraw too.
    for (const int task : tasks) Withdraw(task, instance);
    DeliverAll();
    ASSERT_EQ(EndsOf(1, instance), EndsOf(2, instance));
    ASSERT_THAT(EndsOf(1, instance),
                ElementsAre(testing::AnyOf(kEnough, "begun with 2+1")));
    ExpectNothingIsLeft();
    ++(HasBegun(EndsOf(1, instance)) ? num_begun : num_refused);
  }
  EXPECT_GT(num_begun, 200);
  EXPECT_GT(num_refused, 200);
}

TEST_F(MpiExchangeTest, InputsThatCrossBeginThoughBothAreWithdrawn) {
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  for (const int task : {0, 1}) Withdraw(task, 1);
  Deliver(1, 0);
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
  DeliverAll();
  EXPECT_THAT(EndsOf(1, 1), ElementsAre("begun with 0+1"));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhoComesWhenTheOtherHasWithdrawnBeginsWithItOrWaits) {
  for (const int64_t instance : {1, 2}) {
    Add(0, instance, {0, 1});
    Withdraw(0, instance);
  }
  Deliver(0, 1);
  Add(1, 1, {0, 1});
  DeliverAll();
  Add(1, 2, {0, 1});
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1), ElementsAre("begun with 0+1"));
  }
  EXPECT_THAT(EndsOf(0, 2), ElementsAre(kEnough));
  EXPECT_THAT(EndsOf(1, 2), IsEmpty());
  Withdraw(1, 2);
  DeliverAll();
  EXPECT_THAT(EndsOf(1, 2), ElementsAre(kEnough));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhoWithdrawsWhatTheOtherHasBegunBegins) {
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  Deliver(0, 1);
  Withdraw(0, 1);
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1), ElementsAre("begun with 0+1"));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, NothingIsKeptOfWhatIsTakenBack) {
  Add(0, 1, {0, 1});
  DeliverAll();
  EXPECT_EQ(tasks_[1]->num_kept(), 1u);
  Withdraw(0, 1);
  Withdraw(0, 1);
  Withdraw(0, 2);  // No part waits.
  EXPECT_EQ((on_its_way_[{0, 1}].size()), 1u);
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre(kEnough));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatWasTakenBackMayComeAgain) {
  Add(0, 1, {0, 1});
  Withdraw(0, 1);
  DeliverAll();
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre(kEnough, "begun with 0+1"));
  EXPECT_THAT(EndsOf(1, 1), ElementsAre("begun with 0+1"));
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatComesAgainIsNotMistakenForWhatCameBefore) {
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  Deliver(0, 1);
  Withdraw(0, 1);
  Deliver(1, 0);
  Deliver(0, 1);  // Input was used.
  Add(0, 1, {0, 1});
  Withdraw(0, 1);
  Deliver(0, 1);
  Add(1, 1, {0, 1});
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1),
                ElementsAre("begun with 0+1", "begun with 0+1"));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatCannotBeMergedEndsOnBoth) {
  cannot_merge_ = {1};
  for (const int task : {0, 1}) Add(task, 1, {0, 1});
  DeliverAll();
  for (const int task : {0, 1}) {
    EXPECT_THAT(EndsOf(task, 1), ElementsAre("DATA_LOSS: it is broken"));
  }
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, WhatWaitsForAGoneTaskEnds) {
  for (const int64_t instance : {1, 2}) Add(0, instance, {0, 1});
  Add(0, 3, {0, 2});
  Withdraw(0, 2);
  CallGone(0, 1);
  tasks_[0]->OnGone(1, absl::UnavailableError("once more"));
  Add(0, 4, {1, 0});
  for (const int64_t instance : {1, 2, 4}) {
    EXPECT_THAT(EndsOf(0, instance), ElementsAre(kGone));
  }
  // Executions with other tasks go on.
  Add(2, 3, {0, 2});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 3), ElementsAre("begun with 0+2"));
  EXPECT_THAT(tasks_[0]->Waiting(), IsEmpty());
}

TEST_F(MpiExchangeTest, NothingIsKeptOfAGoneTask) {
  Add(1, 1, {0, 1});
  Add(2, 2, {0, 2});
  DeliverAll();
  EXPECT_EQ(tasks_[0]->num_kept(), 2u);
  CallGone(0, 1);
  EXPECT_EQ(tasks_[0]->num_kept(), 1u);
  // Inputs of a living task stay.
  Add(1, 3, {0, 1});
  DeliverAll();
  EXPECT_EQ(tasks_[0]->num_kept(), 1u);
}

TEST_F(MpiExchangeTest, WhoIsLostAndGoesOnDoesNotWait) {
  Add(1, 1, {0, 1});
  DeliverAll();
  CallGone(0, 1);
  Add(1, 2, {0, 1});
  for (const int64_t instance : {1, 2}) Withdraw(1, instance);
  DeliverAll();
  for (const int64_t instance : {1, 2}) {
    EXPECT_THAT(EndsOf(1, instance), ElementsAre(kEnough));
  }
}

// Tasks come, withdraw, and call each other lost, at any time. Lost tasks go
// on.
class MpiExchangeAtRandomTest : public MpiExchangeTest {
 protected:
  void ChooseParts() {
    parts_.clear();
    for (int64_t instance = 0; instance < kNumInstances; ++instance) {
      for (const int task : TasksOf(instance)) {
        if (random_() % 8 != 0) parts_.emplace_back(task, instance);
      }
    }
    std::shuffle(parts_.begin(), parts_.end(), random_);
  }

  void RunParts() {
    lost_.clear();
    for (const auto& [task, instance] : parts_) {
      Add(task, instance, TasksOf(instance));
      DeliverSome();
      const auto& other = parts_[random_() % parts_.size()];
      if (random_() % 4 == 0) Withdraw(other.first, other.second);
      if (random_() % 40 == 0) Lose(task);
      DeliverSome();
    }
    DeliverAll();
    for (const auto& [task, instance] : parts_) Withdraw(task, instance);
    DeliverAll();
  }

  void Lose(int task) {
    const int gone = static_cast<int>((task + 1 + random_() % 2) % kNumTasks);
    CallGone(task, gone);
    lost_.emplace(task, gone);
  }

  bool HasBegunOnOneAlone(int64_t instance) {
    const auto& tasks = TasksOf(instance);
    return HasBegun(EndsOf(tasks[0], instance)) !=
           HasBegun(EndsOf(tasks[1], instance));
  }
  bool AnyIsLost(const std::vector<int>& tasks) const {
    return lost_.contains({tasks[0], tasks[1]}) ||
           lost_.contains({tasks[1], tasks[0]});
  }
  const std::vector<int>& TasksOf(int64_t instance) const {
    return groups_[instance % groups_.size()];
  }

  static constexpr int64_t kNumInstances = 12;
  const std::vector<std::vector<int>> groups_ = {{0, 1}, {2, 0}, {2, 1}};
  std::vector<std::pair<int, int64_t>> parts_;  // Tasks and instances.
  std::set<std::pair<int, int>> lost_;          // Callers and lost tasks.
};

TEST_F(MpiExchangeAtRandomTest, EachPartEndsOnceAndNothingIsLeft) {
  int num_alone = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    MakeTasks();
    ends_.clear();
    ChooseParts();
    RunParts();
    for (const auto& [task, instance] : parts_) {
      ASSERT_EQ(EndsOf(task, instance).size(), 1u);
    }
    for (int64_t instance = 0; instance < kNumInstances; ++instance) {
      if (!HasBegunOnOneAlone(instance)) continue;
      ASSERT_TRUE(AnyIsLost(TasksOf(instance)));
      ++num_alone;
    }
    // Tasks that called others lost end too.
    for (const auto& [task, gone] : lost_) CallGone(gone, task);
    ExpectNothingIsLeft();
  }
  EXPECT_GT(num_alone, 0);
}

TEST_F(MpiExchangeTest, AKeyThatWaitsIsRefusedOnceMore) {
  for (int i = 0; i < 2; ++i) Add(1, 1, {0, 1});
  EXPECT_THAT(EndsOf(1, 1),
              ElementsAre(testing::StartsWith("ALREADY_EXISTS: ")));
  Add(0, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
  EXPECT_EQ(EndsOf(1, 1).back(), "begun with 0+1");
  ExpectNothingIsLeft();
}

TEST_F(MpiExchangeTest, ItIsKnownWhoIsWaitedFor) {
  EXPECT_EQ(tasks_[2]->Awaited(KeyOf(1)), std::nullopt);
  Add(2, 1, {2, 0});
  EXPECT_THAT(tasks_[2]->Awaited(KeyOf(1)), Optional(0));
  EXPECT_EQ(tasks_[0]->Awaited(KeyOf(1)), std::nullopt);
  Add(0, 1, {2, 0});
  EXPECT_THAT(tasks_[0]->Awaited(KeyOf(1)), Optional(2));
  DeliverAll();
  EXPECT_EQ(tasks_[0]->Awaited(KeyOf(1)), std::nullopt);
  EXPECT_EQ(tasks_[2]->Awaited(KeyOf(1)), std::nullopt);
}

// Notes of non-members are ignored.
TEST_F(MpiExchangeTest, WhoIsNoMemberDoesNotCount) {
  for (const int64_t instance : {1, 2}) Add(0, instance, {0, 1});
  Withdraw(0, 2);
  for (const int64_t instance : {1, 2}) {
    for (const auto kind :
         {MpiNote::Kind::kInput, MpiNote::Kind::kTakeBack,
          MpiNote::Kind::kTakenBack, static_cast<MpiNote::Kind>(1000)}) {
      tasks_[0]->OnNote(2, {.kind = kind, .key = KeyOf(instance)});
    }
  }
  EXPECT_EQ(tasks_[0]->Waiting().size(), 2u);
  Add(1, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
  EXPECT_THAT(EndsOf(0, 2), ElementsAre(kEnough));
}

TEST_F(MpiExchangeTest, AnAnswerThatNobodyAskedForDoesNoHarm) {
  Add(0, 1, {0, 1});
  for (const int64_t instance : {1, 2}) {
    tasks_[0]->OnNote(
        1, {.kind = MpiNote::Kind::kTakenBack, .key = KeyOf(instance)});
  }
  Add(1, 1, {0, 1});
  DeliverAll();
  EXPECT_THAT(EndsOf(0, 1), ElementsAre("begun with 0+1"));
}

}  // namespace notes_and_messages_test
}  // namespace tutti
