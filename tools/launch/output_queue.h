#ifndef TUTTI_TOOLS_LAUNCH_OUTPUT_QUEUE_H_
#define TUTTI_TOOLS_LAUNCH_OUTPUT_QUEUE_H_

#include <cstddef>
#include <streambuf>
#include <string>

namespace tutti {

// Queue of bytes for a descriptor whose reader may be slow. As a stream buffer
// it accepts everything at once; the owner calls WriteSome() when poll(2) says
// that the descriptor is writable. For one thread.
class OutputQueue : public std::streambuf {
 public:
  // Size from which the queue counts as full: producers should wait.
  static constexpr size_t kFullBytes = size_t{1} << 20;

  // Does not own the descriptor; -1 means none.
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  bool is_empty() const { return next_ == text_.size(); }
  bool is_full() const { return text_.size() - next_ >= kFullBytes; }

  // True after a failed write or Drop(): the queue then accepts nothing.
  bool failed() const { return failed_; }

  // Writes no more than a writable pipe accepts at once. REQUIRES: the
  // descriptor is writable, or may block.
  void WriteSome();

  // Blocks until everything is written.
  void WriteAll();

  // Drops all bytes not yet written.
  void Drop();

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize size) override;
  int_type overflow(int_type character) override;

 private:
  const int descriptor_;
  std::string text_;
  size_t next_ = 0;  // In `text_`: the bytes before it are written.
  bool failed_ = false;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_OUTPUT_QUEUE_H_
