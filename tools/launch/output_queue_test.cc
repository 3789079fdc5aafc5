#include "tools/launch/output_queue.h"

#include <unistd.h>

#include <csignal>
#include <ostream>
#include <string>

#include "gtest/gtest.h"

namespace tutti {
namespace output_queue_test {

class OutputQueueTest : public ::testing::Test {
 protected:
  OutputQueueTest() {
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends_), 0);
  }
  ~OutputQueueTest() override {
    for (int end : ends_) close(end);
  }

  std::string Read() const {
    std::string text(1 << 20, ' ');
    const ssize_t size = read(ends_[0], text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
  }

  int ends_[2];
};

TEST_F(OutputQueueTest, WhatAStreamTakesIsWrittenInOrder) {
  OutputQueue queue(ends_[1]);
  std::ostream stream(&queue);
  stream << "one " << 2 << '\n' << std::flush;
  EXPECT_TRUE(stream.good());
  EXPECT_FALSE(queue.is_empty());
  queue.WriteAll();
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(Read(), "one 2\n");
}

TEST_F(OutputQueueTest, ItIsFullUntilThereIsRoom) {
  OutputQueue queue(ends_[1]);
  std::ostream stream(&queue);
  stream << std::string(OutputQueue::kFullBytes, 'x');
  EXPECT_TRUE(queue.is_full());
  queue.WriteSome();
  EXPECT_FALSE(queue.is_full());
  EXPECT_EQ(Read(), std::string(4096, 'x'));
}

TEST_F(OutputQueueTest, AfterAFailedWriteNothingIsTaken) {
  OutputQueue queue(-1);
  std::ostream stream(&queue);
  stream << "lost";
  queue.WriteSome();
  EXPECT_TRUE(queue.failed());
  EXPECT_TRUE(queue.is_empty());
  stream << "more";
  EXPECT_FALSE(stream.good());
}

}  // namespace output_queue_test
}  // namespace tutti
