#ifndef TUTTI_TOOLS_LAUNCH_LINE_SPLITTER_H_
#define TUTTI_TOOLS_LAUNCH_LINE_SPLITTER_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Cuts a stream of bytes into lines, each with its newline. What is handed on
// is the stream, unchanged. A line longer than kMaxPieceBytes comes in pieces,
// so that no stream takes more memory than that; the last line comes without a
// newline if it has none.
class LineSplitter {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{64} << 10;

  using Take = absl::FunctionRef<void(absl::string_view)>;

  void Add(absl::string_view bytes, Take take);

  // Hands on what has no newline yet.
  void Finish(Take take);

 private:
  std::string rest_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_LINE_SPLITTER_H_
