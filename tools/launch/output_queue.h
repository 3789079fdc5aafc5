#ifndef TUTTI_TOOLS_LAUNCH_OUTPUT_QUEUE_H_
#define TUTTI_TOOLS_LAUNCH_OUTPUT_QUEUE_H_

#include <cstddef>
#include <streambuf>
#include <string>

namespace tutti {

// What is still to be written to a descriptor whose reader may be slow: as a
// buffer of a stream it takes all at once, and it writes when poll(2) says that
// it can. For one thread.
class OutputQueue : public std::streambuf {
 public:
  // From then on it is full: who fills it is to wait.
  static constexpr size_t kFullBytes = size_t{1} << 20;

  // Does not own the descriptor, which is -1 where there is none.
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  bool is_empty() const { return next_ == text_.size(); }
  bool is_full() const { return text_.size() - next_ >= kFullBytes; }

  // After a write that failed, or Drop(), nothing is taken any more.
  bool failed() const { return failed_; }

  // REQUIRES: the descriptor is writable, or may block. Writes no more than a
  // pipe that has room takes at once.
  void WriteSome();

  // Blocks until all is written.
  void WriteAll();

  // Gives up what is not written.
  void Drop();

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize size) override;
  int_type overflow(int_type character) override;

 private:
  const int descriptor_;
  std::string text_;
  size_t next_ = 0;  // In `text_`: what comes before is written.
  bool failed_ = false;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_OUTPUT_QUEUE_H_
