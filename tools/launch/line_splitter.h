#ifndef TUTTI_TOOLS_LAUNCH_LINE_SPLITTER_H_
#define TUTTI_TOOLS_LAUNCH_LINE_SPLITTER_H_

#include <cstddef>
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

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_LINE_SPLITTER_H_
