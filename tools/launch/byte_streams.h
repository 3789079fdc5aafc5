#ifndef TUTTI_TOOLS_LAUNCH_BYTE_STREAMS_H_
#define TUTTI_TOOLS_LAUNCH_BYTE_STREAMS_H_

#include <cstddef>
#include <streambuf>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Cuts a stream of bytes into lines, each with its newline. The pieces together
// equal the stream. A line longer than kMaxPieceBytes comes in several pieces,
// which bounds the memory of a stream. The last line has no newline if the
// stream ends without one.
class LineSplitter {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{64} << 10;

  using Take = absl::FunctionRef<void(absl::string_view)>;

  void Add(absl::string_view bytes, Take take);

  // Passes on the last piece if it has no newline.
  void Finish(Take take);

 private:
  std::string rest_;
};

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

#endif  // TUTTI_TOOLS_LAUNCH_BYTE_STREAMS_H_
